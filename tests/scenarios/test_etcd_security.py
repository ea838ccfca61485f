"""etcd behind TLS with client certificates, and behind a password, by configuration alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla_core.cluster.etcd import connection as etcd_connection
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.errors import EtcdAccessDenied, EtcdError
from ottla_core.cluster.etcd.lease import LeaseSession
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.config import EtcdSettings
from ottla_core.errors import ConfigurationError
from tests.scenarios.conftest import CLUSTER
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.eventually_async import eventually_async
from tests.support.servers.certificates import Certificates

SPACE = KeySpace(CLUSTER)
PASSWORD = "correct horse"

pytestmark = pytest.mark.slow


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


@pytest.fixture
def tls_etcd(tmp_path: Path, certificates: Certificates) -> Iterator[EtcdProcess]:
    process = EtcdProcess(
        tmp_path / "etcd",
        tls=True,
        arguments=[
            *("--cert-file", str(certificates.path("server.pem"))),
            *("--key-file", str(certificates.path("server.key"))),
            *("--trusted-ca-file", str(certificates.path("ca.pem"))),
            "--client-cert-auth",
        ],
    )
    process.start()
    yield process
    process.stop()


@pytest.fixture
def password_etcd(etcd_process: EtcdProcess) -> EtcdProcess:
    """An etcd whose user `ottla` may use the keys below /ottla/ and nothing else."""
    for arguments in (
        ("user", "add", "root:root"),
        ("user", "grant-role", "root", "root"),
        ("role", "add", "ottla"),
        ("role", "grant-permission", "ottla", "readwrite", "/ottla/", "/ottla0"),
        ("user", "add", f"ottla:{PASSWORD}"),
        ("user", "grant-role", "ottla", "ottla"),
        ("auth", "enable"),
    ):
        etcd_process.etcdctl(*arguments)
    return etcd_process


async def write_and_watch(settings: EtcdSettings) -> None:
    """Uses all that a process needs of etcd: listing, watching, leases and transactions."""
    client = EtcdClient.from_settings(settings)
    try:
        feed = ClusterStateFeed(client, CLUSTER)
        await feed.start()
        session = LeaseSession(client, ttl_ms=1000)
        await session.start()
        before = session.lease.remaining_s()
        put = op.put(SPACE.broker_config(1), codec.encode_config({"v": "x"}), session.lease.id)
        written = await client.transaction([], [put])
        assert (await feed.wait_for_revision(written.revision, 10)).broker_configs == {1: {"v": "x"}}
        await eventually_async(lambda: session.lease.remaining_s() > before - 0.2, "the lease is renewed")
        await session.close()
        await feed.wait_for(lambda state: not state.broker_configs, 10)
        await feed.close()
    finally:
        await client.close()


async def test_tls_with_a_client_certificate(tls_etcd: EtcdProcess, certificates: Certificates) -> None:
    await write_and_watch(
        EtcdSettings(
            etcd_endpoints=(tls_etcd.endpoint,),
            etcd_tls_ca=certificates.path("ca.pem"),
            etcd_tls_certificate=certificates.path("client.pem"),
            etcd_tls_key=certificates.path("client.key"),
        )
    )


@pytest.mark.parametrize("missing", ["authority", "certificate"])
async def test_tls_refuses_who_cannot_prove_themselves(
    tls_etcd: EtcdProcess, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(etcd_connection, "READ_TIMEOUT_S", 1.0)
    settings = EtcdSettings(
        etcd_endpoints=(tls_etcd.endpoint,),
        etcd_tls_ca=certificates.path("client.pem" if missing == "authority" else "ca.pem"),
    )
    client = EtcdClient.from_settings(settings)
    with pytest.raises(EtcdError, match="did not answer"):
        await client.read(SPACE.cluster_id)
    await client.close()


async def test_a_user_with_a_password(password_etcd: EtcdProcess) -> None:
    await write_and_watch(
        EtcdSettings(etcd_endpoints=(password_etcd.endpoint,), etcd_username="ottla", etcd_password=PASSWORD)
    )


@pytest.mark.parametrize(("username", "password"), [("ottla", "wrong"), ("nobody", PASSWORD), (None, None)])
async def test_a_wrong_user_or_password_is_said_so(
    password_etcd: EtcdProcess, username: str | None, password: str | None
) -> None:
    client = EtcdClient([password_etcd.endpoint], username=username, password=password)
    with pytest.raises(EtcdAccessDenied, match=r"etcd\.username"):
        await client.read(SPACE.cluster_id)
    await client.close()


async def test_a_user_without_the_right_is_denied(password_etcd: EtcdProcess) -> None:
    client = EtcdClient([password_etcd.endpoint], username="ottla", password=PASSWORD)
    with pytest.raises(EtcdAccessDenied):
        await client.read("/elsewhere")
    await client.close()


async def test_tokens_are_fetched_again_when_etcd_has_forgotten_them(password_etcd: EtcdProcess) -> None:
    """etcd keeps tokens in memory: a restart makes every one of them invalid."""
    client = EtcdClient([password_etcd.endpoint], username="ottla", password=PASSWORD)
    feed = ClusterStateFeed(client, CLUSTER)
    await feed.start()
    put = op.put(SPACE.broker_config(1), codec.encode_config({"v": "x"}))
    await feed.wait_for_revision((await client.transaction([], [put])).revision, 10)
    password_etcd.restart()
    assert (await client.read(SPACE.broker_config(1))) is not None
    put = op.put(SPACE.broker_config(1), codec.encode_config({"v": "y"}))
    state = await feed.wait_for_revision((await client.transaction([], [put])).revision, 30)
    assert state.broker_configs == {1: {"v": "y"}}
    await feed.close()
    await client.close()


async def test_unreadable_tls_files_and_half_a_pair_are_configuration_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"etcd\.tls\.ca: cannot read"):
        EtcdClient.from_settings(EtcdSettings(etcd_tls_ca=tmp_path / "none.pem"))
    key = tmp_path / "key.pem"
    key.write_text("x")
    with pytest.raises(ConfigurationError, match="together"):
        EtcdClient.from_settings(EtcdSettings(etcd_tls_key=key))
