"""`ottla doctor` at a cluster that it knows by addresses alone: what fails there is named, and nothing else."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from ottla_operations.local_clusters.etcd_version import RECOMMENDED_VERSION
from tests.faults.cluster import faketime_library
from tests.faults.faulty_disk import UNSYNCED
from tests.support.clusters.doctor import Doctor
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.clusters.service_process import GroupCoordinatorProcess
from tests.support.eventually import eventually
from tests.support.requirements import does_not_apply

pytestmark = pytest.mark.slow

CLOCK_FILE = "clock"
OLDER_RELEASE = "older-release"
"""A folder in which a program may be found that Python runs first: broker 3 is of another release then."""
HAS_LEVEL_1_ONLY = """
from ottla_core.cluster.state import features

features.SUPPORTED = (features.FeatureRange(features.OTTLA_VERSION, 1, 1),)
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doctor-outside")


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[ReplicatedCluster]:
    set_clock(directory, 0)
    library = faketime_library()
    skewed = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(directory / CLOCK_FILE),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DISABLE_SHM": "1",
        "NO_FAKE_STAT": "1",
    }
    with ReplicatedCluster(
        directory,
        broker_settings={"replica.lag.time.max.ms": "2000", "offsets.topic.replication.factor": "3"},
        faulty_disks=True,
        broker_environments={
            3: {"PYTHONPATH": str(directory / OLDER_RELEASE)},
            **({2: skewed} if library is not None else {}),
        },
    ) as made:
        made.create_topic("orders", partitions=3)
        yield made


@pytest.fixture
def doctor(cluster: ReplicatedCluster) -> Doctor:
    return Doctor({"OTTLA_BOOTSTRAP": cluster.bootstrap})


def set_clock(directory: Path, ahead_s: int) -> None:
    new = directory / f"{CLOCK_FILE}.new"
    new.write_text(f"{ahead_s:+d}\n")
    new.replace(directory / CLOCK_FILE)


@pytest.mark.requires("faketime")
@pytest.mark.parametrize(("ahead_s", "side"), [(90, "ahead of"), (-90, "behind")])
def test_a_broker_whose_clock_is_wrong_is_named(doctor: Doctor, directory: Path, ahead_s: int, side: str) -> None:
    doctor.expect_health()
    set_clock(directory, ahead_s)
    try:
        told = doctor.expect_only("clock-skew", "broker 2", "at_risk")
        assert f" s {side} the others" in told["what"]
    finally:
        set_clock(directory, 0)
    doctor.expect_health()


def test_controllers_of_which_none_leads_are_told(cluster: ReplicatedCluster, doctor: Doctor) -> None:
    cluster.controllers[0].stop()
    doctor.expect_only("no-controller", "the controllers", "unavailable")
    cluster.controllers[0].start()
    doctor.expect_health()


def test_a_copy_whose_disk_has_failed_is_told_until_the_broker_is_started_again(
    cluster: ReplicatedCluster, doctor: Doctor
) -> None:
    cluster.create_topic("synced", configs={"flush.messages": "1"})
    broken = next(each for each in cluster.brokers if each != cluster.state_of("synced").leader)
    cluster.trouble_disk(broken, UNSYNCED)
    doctor.done("produce", "synced", stdin="one\ntwo\n")
    told = doctor.expect_only("under-replicated-partitions", "synced-0", "at_risk")
    assert "though the brokers are there" in told["what"]
    cluster.trouble_disk(broken, "")
    cluster.brokers[broken].stop()
    cluster.brokers[broken].start()
    doctor.expect_health()


def test_a_partition_whose_only_copy_was_lost_is_told_and_the_remedy_begins_it_anew(
    cluster: ReplicatedCluster, doctor: Doctor
) -> None:
    doctor.done("topic", "create", "single", "--replication-factor", "1")
    alone = cluster.state_of("single").leader
    broker = cluster.brokers[alone]
    broker.stop()
    shutil.rmtree(broker.data)
    broker.start()
    told = doctor.expect_only("offline-partitions", "single-0", "unavailable")
    doctor.apply(told, "--yes")
    doctor.expect_only("single-copy", "topic single", "advice")
    doctor.done("topic", "delete", "single", "--yes")
    doctor.expect_health()


def test_brokers_of_several_releases_are_told_until_all_are_new_and_then_the_level_that_is_left(
    cluster: ReplicatedCluster, doctor: Doctor, directory: Path
) -> None:
    program = directory / OLDER_RELEASE / "sitecustomize.py"
    program.parent.mkdir()
    doctor.done("cluster", "features", "downgrade", "ottla.version=1", "transaction.version=0")
    program.write_text(HAS_LEVEL_1_ONLY)
    cluster.brokers[3].stop()
    cluster.brokers[3].start()
    doctor.expect_only("releases-differ", "broker 3", "advice")
    program.unlink()
    cluster.brokers[3].stop()
    cluster.brokers[3].start()
    told = doctor.expect_only("level-not-raised", "feature ottla.version, transaction.version", "advice")
    doctor.apply(told)
    doctor.done("cluster", "features", "upgrade")
    doctor.expect_health()


def test_an_old_etcd_is_told_with_its_release(cluster: ReplicatedCluster, doctor: Doctor) -> None:
    words = cluster.etcd.etcdctl("endpoint", "status", "--write-out=fields").split('"Version" : "')[1].split('"')[0]
    if tuple(int(part) for part in words.split(".")) >= RECOMMENDED_VERSION:
        does_not_apply(f"the etcd of this machine is no old one: {words}")
    url = cluster.etcd.endpoint
    (told,) = doctor.expect(("etcd-old", f"etcd {url}", "advice"), arguments=("--etcd", url))
    assert words in told["what"]


def test_groups_that_find_no_coordinator_are_told(
    cluster: ReplicatedCluster, doctor: Doctor, directory: Path
) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "billing"})
    with pytest.raises(KafkaException):  # nobody looks after the group, but its topic is made
        consumer.committed([TopicPartition("orders", 0)], timeout=3)
    consumer.close()
    doctor.expect_only("no-coordinator", "the group coordinators", "unavailable")
    coordinator = GroupCoordinatorProcess(directory / "coordinator", cluster.etcd)
    coordinator.start()
    try:
        doctor.expect_health()
    finally:
        coordinator.kill()
    eventually(lambda: doctor.ottla("doctor").returncode == 1, "it is told again")
