"""`ottla doctor` at a real cluster in which something is broken: it names that, and nothing else."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.clients.committed_offsets import commit_offsets
from tests.support.clusters.doctor import Doctor, standing_still
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

WITHIN_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    directory = tmp_path_factory.mktemp("doctor") / "cluster"
    with OttlaCluster(
        directory, brokers=3, coordinators=2, arguments=("--connect", "1", "--connect-port", "0")
    ) as made:
        yield made


@pytest.fixture
def doctor(cluster: OttlaCluster) -> Doctor:
    return Doctor.of(cluster)


def test_a_broker_that_is_away_is_named_with_its_partitions(cluster: OttlaCluster, doctor: Doctor) -> None:
    assert doctor.ottla("topic", "create", "t", "--partitions", "3").returncode == 0
    doctor.expect_health()
    with standing_still(cluster, "broker", 3):
        doctor.expect_only("broker-away", "broker 3", "at_risk")
    doctor.expect_health()


def test_partitions_that_only_the_lost_broker_had_make_it_worse(cluster: OttlaCluster, doctor: Doctor) -> None:
    arguments = ("--partitions", "3", "--replication-factor", "1")
    assert doctor.ottla("topic", "create", "single", *arguments).returncode == 0
    with standing_still(cluster, "broker", 2):
        told = doctor.expect_only("broker-away", "broker 2", "unavailable", besides="single-copy")
        assert "without a leader (single-" in told["what"]
    doctor.expect_only("single-copy", "topic single", "advice")
    assert doctor.ottla("topic", "delete", "single", "--yes").returncode == 0
    doctor.expect_health()


def test_a_coordinator_that_stands_still_is_named(cluster: OttlaCluster, doctor: Doctor) -> None:
    with standing_still(cluster, "group-coordinator", 2):
        doctor.expect_only("process-not-ready", "group-coordinator-2", "at_risk")
    doctor.expect_health()


def test_the_only_controller_that_stands_still_is_named(cluster: OttlaCluster, doctor: Doctor) -> None:
    with standing_still(cluster, "controller", 1):
        doctor.expect_only("process-not-ready", "controller-1", "unavailable")
    doctor.expect_health()


def test_a_connector_that_fails_is_named(doctor: Doctor, tmp_path: Path) -> None:
    missing = {"connector.class": "FileSource", "file.path": str(tmp_path / "none"), "topic": "t"}
    definition = tmp_path / "files.json"
    definition.write_text(json.dumps({"name": "files", "config": missing}))
    made = doctor.ottla("connect", "create", str(definition))
    assert made.returncode == 0, made.stderr
    doctor.expect_only("connector-fails", "connector files, task 0", "stalled")
    assert doctor.ottla("connect", "delete", "files", "--yes").returncode == 0
    doctor.expect_health()


def test_etcd_that_stands_still_is_named_as_the_cause(cluster: OttlaCluster, doctor: Doctor) -> None:
    with standing_still(cluster, "etcd", 1):
        doctor.expect_only("process-not-ready", "etcd-1", "unavailable")
    doctor.expect_health()


def test_a_topic_with_one_copy_is_named_and_the_remedy_gives_it_more(doctor: Doctor) -> None:
    assert doctor.ottla("topic", "create", "one", "--replication-factor", "1").returncode == 0
    doctor.mend(doctor.expect_only("single-copy", "topic one", "advice"), "--yes")


def test_settings_that_allow_no_failure_are_named(doctor: Doctor) -> None:
    assert doctor.ottla("topic", "create", "strict", "--config", "min.insync.replicas=3").returncode == 0
    doctor.mend(doctor.expect_only("min-insync-allows-no-failure", "topic strict", "advice"))


def test_a_throttle_that_was_left_behind_is_named(doctor: Doctor) -> None:
    setting = "follower.replication.throttled.replicas=0:1,0:2"
    done = doctor.ottla("config", "set", "topic", "t", setting)
    assert done.returncode == 0, done.stderr
    doctor.mend(doctor.expect_only("throttle-left-behind", "topic t", "advice"))


def test_a_move_that_nobody_finished_is_named(cluster: OttlaCluster, doctor: Doctor) -> None:
    arguments = ("--replication-factor", "2", "--config", "min.insync.replicas=1")
    assert doctor.ottla("topic", "create", "moved", *arguments).returncode == 0
    lines = "\n".join(["x" * 900_000] * 6)
    produced = doctor.ottla("produce", "moved", stdin=lines)
    assert produced.returncode == 0, produced.stderr
    arguments = ("--topic", "moved", "--partition", "0", "--replicas", "1,2,3", "--throttle", "1", "--yes")
    mover = subprocess.Popen(
        [ottla_command(), "cluster", "reassign", *arguments, "--bootstrap", cluster.bootstrap],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        doctor.expect_only("reassignment-unfinished", "moved-0", "advice")
    finally:
        mover.kill()
        mover.wait()
    doctor.expect_only("reassignment-unfinished", "moved-0", "advice")
    undone = doctor.ottla("cluster", "reassign", "--cancel")
    assert undone.returncode == 0, undone.stderr
    doctor.expect_health()


def test_a_cluster_that_lost_its_supervisor_and_one_that_was_stopped_are_told_apart(tmp_path: Path) -> None:
    with OttlaCluster(tmp_path / "cluster", brokers=1, coordinators=1) as alone:
        os.kill(alone.supervisor_pid, signal.SIGKILL)
        lost = eventually(lambda: [each for each in doctor_of(alone) if each["rule"] == "supervisor-lost"], "told")
        assert lost[0]["harm"] == "unavailable"
        again = subprocess.run(
            [*([ottla_command()]), *lost[0]["remedy"].split()[1:]], capture_output=True, check=False
        )
        assert again.returncode == 0, again.stderr
        assert doctor_of(alone) == []
        down = subprocess.run(
            [ottla_command(), "down", "--dir", str(alone.directory)], capture_output=True, check=False
        )
        assert down.returncode == 0, down.stderr
        assert [(each["rule"], each["harm"]) for each in doctor_of(alone)] == [("cluster-stopped", "advice")]


def doctor_of(cluster: OttlaCluster) -> list[dict[str, Any]]:
    arguments = ("doctor", "--json", "--dir", str(cluster.directory))
    done = subprocess.run([ottla_command(), *arguments], capture_output=True, text=True, check=False, timeout=120)
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return findings


def produce_old(cluster: OttlaCluster, topic: str, *, age_s: float) -> None:
    """Writes ten records that are as old."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(10):
        producer.produce(topic, str(number), partition=0, timestamp=round((time.time() - age_s) * 1000))
    assert producer.flush(30) == 0


def commit(cluster: OttlaCluster, group: str, topic: str, offset: int) -> None:
    commit_offsets(cluster.bootstrap, group, [TopicPartition(topic, 0, offset)])


def test_a_group_that_falls_behind_is_named_until_it_has_read(cluster: OttlaCluster, doctor: Doctor) -> None:
    assert doctor.ottla("topic", "create", "orders", "--partitions", "1").returncode == 0
    produce_old(cluster, "orders", age_s=3600)
    produce_old(cluster, "orders", age_s=10)
    commit(cluster, "billing", "orders", 12)
    doctor.expect_health()  # what was produced a moment ago may still be read
    commit(cluster, "billing", "orders", 2)
    told = doctor.expect_only("group-behind", "group billing", "stalled")
    assert "18 records of orders-0, and it has no members" in told["what"]
    commit(cluster, "billing", "orders", 20)
    doctor.expect_health()


def test_records_that_were_deleted_before_a_group_read_them_are_told(cluster: OttlaCluster, doctor: Doctor) -> None:
    assert doctor.ottla("topic", "create", "short", "--partitions", "1").returncode == 0
    produce_old(cluster, "short", age_s=1)
    commit(cluster, "late", "short", 2)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for deleted in admin.delete_records([TopicPartition("short", 0, 7)]).values():
        deleted.result()
    told = doctor.expect_only("group-missed-records", "group late", "at_risk")
    assert "5 records of short-0" in told["what"]
    commit(cluster, "late", "short", 10)
    doctor.expect_health()


def test_a_level_that_nobody_raised_is_told(cluster: OttlaCluster, doctor: Doctor) -> None:
    done = doctor.ottla("cluster", "features", "downgrade", "ottla.version=1", "transaction.version=0")
    assert done.returncode == 0, done.stderr
    doctor.expect_only("level-not-raised", "feature ottla.version, transaction.version", "advice")
    assert doctor.ottla("cluster", "features", "upgrade").returncode == 0
    doctor.expect_health()


def test_a_link_whose_source_is_away_is_named(doctor: Doctor, tmp_path: Path) -> None:
    with OttlaCluster(tmp_path / "source") as source:
        environment = {**os.environ, "OTTLA_BOOTSTRAP": source.bootstrap}
        made = subprocess.run([ottla_command(), "topic", "create", "west.orders"], env=environment, check=False)
        assert made.returncode == 0
        arguments = ("--source", source.bootstrap, "--topics", "west.*", "--replication-factor", "3")
        linked = doctor.ottla("mirror", "link", "create", "west", *arguments, "--wait")
        assert linked.returncode == 0, linked.stderr
        doctor.expect_health()
    told = doctor.expect_only("link-stands-still", "link west", "stalled")
    assert "west.orders-0 does not follow the source; WAITING" in told["what"]
    assert doctor.ottla("topic", "delete", "west.orders", "--yes").returncode == 0
    assert doctor.ottla("mirror", "link", "delete", "west", "--yes").returncode == 0
    doctor.expect_health()


def test_a_log_directory_that_cannot_be_used_explains_its_replicas(tmp_path: Path) -> None:
    with ReplicatedCluster(tmp_path, log_directories=2) as brokers:
        brokers.create_topic("many", partitions=6)
        broken = tmp_path / "broker-3" / "data-2"
        brokers.brokers[3].stop()
        broken.rename(tmp_path / "set-aside")
        broken.write_text("this is no directory")
        brokers.brokers[3].start()

        def told() -> bool:
            arguments = ("doctor", "--json", "--bootstrap", brokers.bootstrap)
            done = subprocess.run([ottla_command(), *arguments], capture_output=True, text=True, check=False)
            seen = json.loads(done.stdout)["findings"]
            return [(each["rule"], each["where"]) for each in seen] == [("log-directory-failed", "broker 3")]

        eventually(told, "the doctor tells of the directory only", within_s=WITHIN_S)
