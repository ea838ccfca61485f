"""`ottla secure`: what is in the folder, who may read it, and what a renewal leaves trusted."""

import json
import ssl
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from typer.testing import CliRunner

from ottla.command_tree import app
from ottla.secure.certificate_folder import CertificateFolder
from ottla.secure.holders import ClusterHolders
from ottla_core.rpc.tls import RpcTls, RpcTlsFiles
from ottla_core.rpc_identity import NAME_PATTERN, RpcIdentity, RpcNames


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["secure", *arguments])
    assert (result.exit_code == 0) == (code == 0), result.output
    return f"{result.output}{result.exception or ''}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run(
        "init",
        str(tmp_path / "tls"),
        "--cluster",
        "flights",
        "--brokers",
        "2",
        "--host",
        "broker-2=kafka-2.example,10.0.0.5",
    )
    return tmp_path / "tls"


def verify(folder: Path, holder: str, authorities: Path) -> bool:
    checked = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-CAfile", str(authorities), str(folder / holder / "certificate.pem")],
        capture_output=True, check=False,
    )  # fmt: skip
    return checked.returncode == 0


def test_only_the_owner_may_read_any_of_it(folder: Path) -> None:
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_the_key_of_the_authority_is_in_its_own_folder_only(folder: Path) -> None:
    key = (folder / "authority" / "ca.key").read_text()
    assert [path.name for path in folder.rglob("*") if path.is_file() and key in path.read_text()] == ["ca.key"]


def test_every_certificate_is_of_the_authority_and_serves_a_process(folder: Path) -> None:
    names = RpcNames(NAME_PATTERN, "flights")
    for role, number in (("broker", 1), ("broker", 2), ("controller", 1), ("group-coordinator", 1)):
        holder = folder / f"{role}-{number}"
        assert verify(folder, holder.name, folder / "authority" / "ca.pem")
        files = RpcTlsFiles(holder / "ca.pem", holder / "certificate.pem", holder / "key.pem")
        assert RpcTls(files, names, RpcIdentity(role, number)).version == 1
        ssl.create_default_context().load_cert_chain(holder / "both.pem")


def test_hosts_stand_in_the_certificate(folder: Path) -> None:
    document = json.loads(run("show", str(folder), "--json"))
    by_holder = {each["holder"]: each for each in document["certificates"]}
    assert by_holder["broker-2"]["names"] == ["broker-2.flights.ottla", "kafka-2.example", "10.0.0.5"]
    assert by_holder["broker-1"]["names"] == ["broker-1.flights.ottla", "localhost", "127.0.0.1", "::1"]
    assert by_holder["etcd-root"]["common_name"] == "root"


def test_a_client_file_is_in_librdkafkas_words(tmp_path: Path) -> None:
    run("init", str(tmp_path / "tls"), "--bootstrap", "kafka-1.example:9093")
    lines = (tmp_path / "tls" / "admin" / "client.properties").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines)
    assert settings["bootstrap.servers"] == "kafka-1.example:9093"
    assert settings["security.protocol"] == "ssl"
    assert all(Path(path).exists() for key, path in settings.items() if key.endswith(".location"))


def test_what_is_there_is_not_overwritten(folder: Path) -> None:
    assert "ottla secure renew" in run("init", str(folder), code=1)


@pytest.mark.parametrize("name", ["root", "broker-1"])
def test_an_administrator_cannot_have_the_name_of_another_user_of_etcd(tmp_path: Path, name: str) -> None:
    assert "etcd would take" in run("init", str(tmp_path / "tls"), "--admin", name, code=2)


def test_a_host_of_no_process_is_refused(tmp_path: Path) -> None:
    assert "broker-3" in run("init", str(tmp_path / "tls"), "--host", "broker-3=x.example", code=2)


def test_a_renewal_gives_new_keys_of_the_same_authority(folder: Path) -> None:
    before = (folder / "broker-1" / "key.pem").read_bytes()
    authority = (folder / "authority" / "ca.pem").read_bytes()
    run("renew", str(folder), "--days", "10")
    assert (folder / "broker-1" / "key.pem").read_bytes() != before
    assert (folder / "authority" / "ca.pem").read_bytes() == authority
    assert verify(folder, "broker-1", folder / "authority" / "ca.pem")
    assert "renew with" in run("show", str(folder), code=1)


def test_a_new_authority_is_trusted_before_it_signs_and_the_former_one_until_nobody_needs_it(folder: Path) -> None:
    former = (folder / "authority" / "ca.pem").read_bytes()
    (former_file := folder / "former.pem").write_bytes(former)
    run("renew", str(folder), "--begin-authority")
    trusted = folder / "broker-1" / "ca.pem"
    assert len(x509.load_pem_x509_certificates(trusted.read_bytes())) == 2
    assert verify(folder, "broker-1", former_file)
    assert "replace them first" in run("renew", str(folder), "--end-authority", code=1)
    assert "being replaced already" in run("renew", str(folder), "--begin-authority", code=1)
    run("renew", str(folder))
    assert verify(folder, "broker-1", trusted)
    assert not verify(folder, "broker-1", former_file)
    run("renew", str(folder), "--end-authority")
    assert trusted.read_bytes() == (folder / "authority" / "ca.pem").read_bytes() != former


def test_a_certificate_ends_no_later_than_its_authority(tmp_path: Path) -> None:
    run("init", str(tmp_path / "tls"), "--days", "100", "--authority-days", "50")
    ends = {each.ends for each in CertificateFolder(tmp_path / "tls").facts()}
    assert max(ends) - min(ends) < timedelta(seconds=2)


def test_a_cluster_that_grows_gets_what_it_lacks_and_keeps_the_rest(folder: Path) -> None:
    made = CertificateFolder(folder)
    before = (folder / "broker-1" / "key.pem").read_bytes()
    counts = {**made.holders.counts, "broker": 3}
    grown = ClusterHolders(cluster="flights", counts=counts, administrator="admin", hosts=made.holders.hosts)
    made.keep_up(grown, datetime.now(UTC), timedelta(days=365), timedelta(days=30))
    assert (folder / "broker-3" / "both.pem").exists()
    assert (folder / "broker-1" / "key.pem").read_bytes() == before
    assert CertificateFolder(folder).holders == grown
    made.keep_up(grown, datetime.now(UTC) + timedelta(days=340), timedelta(days=365), timedelta(days=30))
    assert (folder / "broker-1" / "key.pem").read_bytes() != before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--cluster", "flüge"), "--cluster"),
        (("--cluster", "a b"), "--cluster"),
        (("--cluster", "a" * 64), "--cluster"),
        (("--admin", ""), "--admin"),
        (("--admin", "a" * 65), "--admin"),
        (("--host", "broker-1=büro.example"), "--host"),
        (("--days", "100000000"), "--days"),
    ],
)
def test_what_no_certificate_can_say_is_refused(tmp_path: Path, arguments: tuple[str, str], named: str) -> None:
    assert named in run("init", str(tmp_path / "tls"), *arguments, code=2)
    assert not (tmp_path / "tls").exists()


def test_a_long_name_of_a_cluster_fits(tmp_path: Path) -> None:
    run("init", str(tmp_path / "tls"), "--cluster", "c" * 63)
    assert verify(tmp_path / "tls", "broker-1", tmp_path / "tls" / "authority" / "ca.pem")
