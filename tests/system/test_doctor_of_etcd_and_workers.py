"""`ottla doctor` where etcd, a worker or a disk of a local cluster is in trouble: it names that, and nothing else."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla_operations.doctor.etcd_members import ask_member
from ottla_operations.doctor.infrastructure import QUOTA_FRACTION
from tests.support.clusters.doctor import Doctor, standing_still
from tests.support.clusters.etcd_process import etcd_program
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.free_ports import free_ports
from tests.support.machine.small_disk import fill, small_disk
from tests.support.requirements import lack

pytestmark = pytest.mark.slow

QUOTA_BYTES = 12 << 20
VALUE = "x" * 800_000
DISK_BYTES = 256 << 20
FREE_PORTS = ("--connect-port", "0", "--mirror-port", "0")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    directory = tmp_path_factory.mktemp("doctor") / "cluster"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ETCD_QUOTA_BACKEND_BYTES", str(QUOTA_BYTES))
        patch.setenv("ETCD_BACKEND_BATCH_LIMIT", "1")  # or the sizes that members tell are those of a while ago
        arguments = ("--etcd-nodes", "3", "--connect", "1", "--mirror", "1", *FREE_PORTS)
        with OttlaCluster(directory, arguments=arguments) as made:
            yield made


@pytest.fixture
def doctor(cluster: OttlaCluster) -> Doctor:
    return Doctor.of(cluster)


def etcdctl(cluster: OttlaCluster, *arguments: str, endpoint: str = "") -> str:
    endpoints = endpoint or ",".join(endpoints_of(cluster))
    done = subprocess.run(
        [etcd_program("etcdctl"), f"--endpoints={endpoints}", *arguments], input=VALUE, capture_output=True,
        text=True, check=False, env={**os.environ, "ETCDCTL_API": "3"},
    )  # fmt: skip
    return done.stdout + done.stderr


def write_until(cluster: OttlaCluster, size_bytes: float) -> None:
    """Writes until a member's database is as big, as others' will be in a moment, or etcd takes no more."""
    urls = endpoints_of(cluster)
    for number in range(100):
        if max(ask_member(url).size_bytes for url in urls) >= size_bytes:
            return
        if "space exceeded" in etcdctl(cluster, "put", f"of-somebody-else/{number}"):
            return
    raise AssertionError(f"etcd does not grow to {size_bytes} bytes")


def filled(cluster: OttlaCluster) -> list[str]:
    """The members whose databases are near the quota; they grow by different steps where the machine is busy."""
    for url in endpoints_of(cluster):
        etcdctl(cluster, "get", "none", endpoint=url)  # answered when the member has done all that was written before
    return [url for url in endpoints_of(cluster) if ask_member(url).size_bytes > QUOTA_BYTES * QUOTA_FRACTION]


def endpoints_of(cluster: OttlaCluster) -> list[str]:
    urls: list[str] = json.loads((cluster.directory / "cluster.json").read_text())["etcd"]
    return urls


def forget_values(cluster: OttlaCluster) -> None:
    """Deletes what was written, which etcd takes even at its quota, and has it forgotten; its file stays as big."""
    etcdctl(cluster, "del", "--prefix", "of-somebody-else/")
    revision = json.loads(etcdctl(cluster, "get", "none", "--write-out=json"))["header"]["revision"]
    assert "compacted" in etcdctl(cluster, "compaction", "--physical", str(revision))


def test_etcd_near_its_quota_and_at_it_are_told_and_the_remedies_mend_them(
    cluster: OttlaCluster, doctor: Doctor
) -> None:
    doctor.expect_health()
    where = "etcd " + ",".join(endpoints_of(cluster))
    write_until(cluster, QUOTA_BYTES * 0.83)
    told = doctor.expect_only("etcd-fills", "etcd " + ",".join(filled(cluster)), "at_risk")
    forget_values(cluster)
    doctor.mend(told)
    write_until(cluster, 2 * QUOTA_BYTES)
    told = doctor.expect_only("etcd-full", where, "unavailable")
    forget_values(cluster)
    doctor.mend(told)


def test_a_member_of_etcd_that_hangs_is_told_while_the_others_go_on(cluster: OttlaCluster, doctor: Doctor) -> None:
    with standing_still(cluster, "etcd", 2):
        doctor.expect_only("process-not-ready", "etcd-2", "at_risk")
        create = ("topic", "create", "meanwhile", "--if-not-exists")
        eventually(lambda: doctor.ottla(*create).returncode == 0, "the others go on")
    doctor.expect_health()


@pytest.mark.parametrize("role", ["connect", "mirror"])
def test_a_worker_that_hangs_is_told(cluster: OttlaCluster, doctor: Doctor, role: str) -> None:
    with standing_still(cluster, role, 1):
        doctor.expect_only("process-not-ready", f"{role}-1", "stalled")
    doctor.expect_health()


def test_a_flow_whose_source_is_away_is_told(cluster: OttlaCluster, doctor: Doctor, tmp_path: Path) -> None:
    with OttlaCluster(tmp_path / "source") as source:
        Doctor.of(source).done("topic", "create", "orders")
        doctor.done("mirror", "create", "west->local", "--source", source.bootstrap, "--topics", "orders", "--wait")
        doctor.expect_health()
    told = doctor.expect_only("flow-stands-still", "flow west->local", "stalled")
    assert told["what"]
    doctor.done("mirror", "delete", "west->local", "--yes")
    doctor.expect_health()


def test_addresses_where_nobody_is_are_told_apart_from_health(doctor: Doctor) -> None:
    (port,) = free_ports(1)
    done = doctor.ottla("doctor", "--connect-url", f"http://127.0.0.1:{port}", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["findings"] == []
    assert "the Connect workers" in json.loads(done.stdout)["not_seen"][0]


def test_etcd_of_another_address_is_told_as_away(doctor: Doctor) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    doctor.expect(("etcd-away", f"etcd {url}", "unavailable"), arguments=("--etcd", url))


def test_every_kind_of_process_tells_its_time(cluster: OttlaCluster) -> None:
    program = (
        "import sys; from pathlib import Path; from ottla.doctor.local_gathering import gathered;"
        "from ottla_operations.doctor.gathering import Addresses;"
        "print(*sorted(each.name for each in gathered('', None, Path(sys.argv[1]), Addresses())[0].clocks))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(cluster.directory)], capture_output=True, text=True, check=True
    )
    names = {each.rsplit("-", 1)[0] for each in done.stdout.replace("broker 1", "broker-1").split()}
    assert names == {"etcd", "controller", "group-coordinator", "broker", "connect", "mirror"}


@pytest.mark.requires("small disk")
def test_a_disk_that_fills_and_one_that_is_full_are_told(tmp_path: Path) -> None:
    try:
        with small_disk(tmp_path / "disk", size_bytes=DISK_BYTES) as disk, OttlaCluster(disk / "cluster") as small:
            doctor = Doctor.of(small)
            doctor.expect_health()
            ballast = fill(disk, leave_bytes=6 << 20)
            doctor.expect_only("disk-fills", "disk of broker 1", "at_risk")
            more = fill(disk, leave_bytes=1 << 20, name="more")
            doctor.expect_only("disk-full", "disk of broker 1", "unavailable")
            more.unlink()
            ballast.unlink()
            doctor.expect_health()
    except OSError as refusal:
        lack(str(refusal))
