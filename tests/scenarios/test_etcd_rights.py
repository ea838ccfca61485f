"""A user of etcd for each process, by its certificate: it reads all of its cluster, and writes what is its own."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ottla.secure.authority import IssuedCertificate, Subject, issue, new_authority
from ottla.secure.certificate_folder import CertificateFolder
from ottla.secure.etcd_users import make_users
from ottla.secure.holders import ClusterHolders
from ottla_core.cluster.etcd import client as etcd_client
from ottla_core.cluster.etcd import connection as etcd_connection
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.errors import EtcdAccessDenied, EtcdError
from ottla_core.cluster.membership.cluster_id import ensure_cluster_id
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import NO_EPOCH, Member, Role
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.config import EtcdSettings
from ottla_core.random_ids import random_uuid
from ottla_operations.errors import OperationError
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.eventually_async import eventually_async

CLUSTER = "test"
SPACE = KeySpace(CLUSTER)
COUNTS = {"broker": 2, "controller": 1, "group-coordinator": 1, "etcd": 1}
VALID = timedelta(days=1)


@pytest.fixture
def folder(tmp_path: Path) -> CertificateFolder:
    holders = ClusterHolders(cluster=CLUSTER, counts=COUNTS, administrator="admin", hosts={})
    return CertificateFolder.create(
        tmp_path / "tls", holders, now=datetime.now(UTC), valid=VALID, authority_valid=VALID
    )


@pytest.fixture
def etcd(tmp_path: Path, folder: CertificateFolder) -> Iterator[EtcdProcess]:
    arguments = [
        "--client-cert-auth",
        *("--trusted-ca-file", str(folder.file("etcd-1", "ca.pem"))),
        *("--cert-file", str(folder.file("etcd-1", "certificate.pem"))),
        *("--key-file", str(folder.file("etcd-1", "key.pem"))),
    ]
    (tmp_path / "etcd").mkdir()
    process = EtcdProcess(tmp_path / "etcd", arguments=arguments, tls=True)
    process.start()
    root = files_of(folder, "etcd-root")
    assert len(make_users(process.endpoint, root, CLUSTER, COUNTS)) == 5
    assert make_users(process.endpoint, root, CLUSTER, COUNTS) == []
    yield process
    process.stop()


def files_of(folder: CertificateFolder, holder: str) -> tuple[Path, Path, Path]:
    return (
        folder.file(holder, "ca.pem"), folder.file(holder, "certificate.pem"), folder.file(holder, "key.pem")
    )  # fmt: skip


def client_of(etcd: EtcdProcess, folder: CertificateFolder, holder: str) -> EtcdClient:
    ca, certificate, key = files_of(folder, holder)
    return EtcdClient.from_settings(
        EtcdSettings(
            etcd_endpoints=(etcd.endpoint,), etcd_tls_ca=ca, etcd_tls_certificate=certificate, etcd_tls_key=key
        )
    )


def member(role: Role, number: int) -> Member:
    return Member(
        role=role, id=number, epoch=NO_EPOCH, incarnation=random_uuid(), rpc_address="127.0.0.1:1", version="1"
    )


async def may_write(client: EtcdClient, key: str) -> bool:
    try:
        await client.transaction([], [op.put(key, b"{}")])
    except EtcdAccessDenied:
        return False
    return True


OTHERS_KEYS = (
    SPACE.cluster_id,
    SPACE.controller,
    SPACE.features,
    SPACE.producer_ids,
    SPACE.recovery,
    SPACE.topic("flights"),
    SPACE.broker_config(1),
    SPACE.member(Role.BROKER, 2),
    SPACE.member(Role.CONTROLLER, 1),
    f"{SPACE.prefix}members/broker/11",
    f"{SPACE.prefix}acls/1",
    "/ottla/other/id",
    "\0",
)


@pytest.mark.parametrize(
    ("holder", "own"),
    [("broker-1", SPACE.member(Role.BROKER, 1)), ("group-coordinator-1", SPACE.member(Role.GROUP_COORDINATOR, 1))],
)
async def test_a_broker_and_a_coordinator_write_their_own_registration_and_nothing_else(
    etcd: EtcdProcess, folder: CertificateFolder, holder: str, own: str
) -> None:
    client = client_of(etcd, folder, holder)
    assert await may_write(client, own)
    assert [key for key in OTHERS_KEYS if await may_write(client, key)] == []
    with pytest.raises(EtcdAccessDenied):
        await client.transaction([], [op.delete(SPACE.member(Role.CONTROLLER, 1))])
    with pytest.raises(EtcdAccessDenied):
        await client.list_prefix("/ottla/other/")
    await client.close()


async def test_a_controller_writes_all_of_its_cluster_and_nothing_of_another(
    etcd: EtcdProcess, folder: CertificateFolder
) -> None:
    client = client_of(etcd, folder, "controller-1")
    assert [key for key in OTHERS_KEYS if not await may_write(client, key)] == ["/ottla/other/id", "\0"]
    await client.close()


@pytest.mark.parametrize("holder", ["admin", "etcd-1"])
async def test_a_certificate_without_a_user_reads_nothing(
    etcd: EtcdProcess, folder: CertificateFolder, holder: str
) -> None:
    client = client_of(etcd, folder, holder)
    with pytest.raises(EtcdAccessDenied):
        await client.read(SPACE.cluster_id)
    await client.close()


def test_a_user_is_a_process_of_one_cluster_only(etcd: EtcdProcess, folder: CertificateFolder) -> None:
    """Its name says nothing of the cluster, so it could write the state of both."""
    with pytest.raises(OperationError, match=r"broker-1 of etcd has the role .* of another cluster"):
        make_users(etcd.endpoint, files_of(folder, "etcd-root"), "other", {"broker": 1})


@pytest.mark.parametrize("fault", ["expired", "foreign"])
async def test_a_controllers_certificate_that_is_expired_or_foreign_reads_nothing(
    etcd: EtcdProcess, folder: CertificateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(etcd_connection, "READ_TIMEOUT_S", 1.0)
    now = datetime.now(UTC)
    own = IssuedCertificate(
        folder.file("authority", "ca.pem").read_bytes(), folder.file("authority", "ca.key").read_bytes()
    )
    signer, begin = (own, now - 2 * VALID) if fault == "expired" else (new_authority("foreign", now, VALID), now)
    issued = issue(signer, Subject("controller-1", ("controller-1", "127.0.0.1")), begin, VALID)
    certificate, key = tmp_path / "made.pem", tmp_path / "made.key"
    certificate.write_bytes(issued.chain)
    key.write_bytes(issued.key)
    client = EtcdClient.from_settings(
        EtcdSettings(
            etcd_endpoints=(etcd.endpoint,),
            etcd_tls_ca=folder.file("etcd-1", "ca.pem"),
            etcd_tls_certificate=certificate,
            etcd_tls_key=key,
        )
    )
    with pytest.raises(EtcdError, match="did not answer"):
        await client.read(SPACE.cluster_id)
    await client.close()
    said = "certificate has expired" if fault == "expired" else "unknown authority"
    assert said in (tmp_path / "etcd" / "etcd.log").read_text()


async def test_processes_join_follow_the_cluster_and_go_on_with_renewed_certificates(
    etcd: EtcdProcess, folder: CertificateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker waits for a controller to draw the cluster id; a renewal breaks neither the feed nor the lease."""
    monkeypatch.setattr(etcd_client, "CHECK_SECONDS", 0.05)
    broker, controller = client_of(etcd, folder, "broker-1"), client_of(etcd, folder, "controller-1")
    waiting = asyncio.create_task(ensure_cluster_id(broker, CLUSTER))
    drawn = await ensure_cluster_id(controller, CLUSTER)
    assert await waiting == drawn
    own_key = SPACE.member(Role.BROKER, 1)
    feed = ClusterStateFeed(broker, CLUSTER, age_max_ms=2000, own_key=own_key)
    await feed.start()
    membership = Membership(broker, CLUSTER, member(Role.BROKER, 1), lease_ttl_ms=1500)
    await membership.start()
    await feed.wait_for(lambda state: 1 in state.brokers, 10)
    epoch = membership.epoch
    keeping = asyncio.create_task(broker.keep_certificate())
    for _ in range(2):
        former = broker._connection.endpoint
        folder.issue_all(datetime.now(UTC), VALID)
        await eventually_async(lambda former=former: broker._connection.endpoint is not former, "new channels")
        written = await controller.transaction([], [op.put(SPACE.broker_config(1), b'{"format":1,"values":{}}')])
        await feed.wait_for_revision(written.revision, 10)
        assert await broker.touch(own_key) is not None
    assert membership.epoch == epoch
    assert feed.is_fresh()
    keeping.cancel()
    await membership.close()
    await feed.wait_for(lambda state: 1 not in state.brokers, 10)
    await feed.close()
    await broker.close()
    await controller.close()
