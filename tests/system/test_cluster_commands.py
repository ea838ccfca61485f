"""`ottla cluster` against three brokers in three racks, with an etcd of three members."""

import json
import os
import pty
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_admin import ClusterAdmin
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

RECORDS = 20_000
RECORD_BYTES = 1_000
SLOW = "20000"
"""Bytes per second; the first fetch of a partition is always whole and brings a megabyte."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    directory = tmp_path_factory.mktemp("cluster-commands") / "cluster"
    arguments = ("--etcd-nodes", "3", "--racks", "a,b,c")
    settings = (
        "--set",
        "broker:offsets.topic.replication.factor=1",
        "--set",
        "broker:offsets.topic.num.partitions=1",
    )
    with OttlaCluster(directory, brokers=3, controllers=2, arguments=(*arguments, *settings)) as running:
        yield running


@pytest.fixture
def ottla(cluster: OttlaCluster) -> Ottla:
    return Ottla(cluster.bootstrap)


@pytest.fixture
def lopsided(ottla: Ottla) -> Iterator[str]:
    """A topic whose six partitions, of the same size, are all on brokers 1 and 2."""
    name = f"lopsided-{uuid.uuid4().hex[:8]}"
    ottla.run("topic", "create", name, "--assignment", ",".join(["1:2"] * 6), "--config", "min.insync.replicas=1")
    producer = Producer({"bootstrap.servers": ottla.environment["OTTLA_BOOTSTRAP"], "linger.ms": 50, "log_level": 0})
    for number, record in enumerate(records().splitlines()):
        producer.produce(name, record, partition=number % 6)
    assert producer.flush(60) == 0
    yield name
    ottla.run("topic", "delete", name)


def records() -> bytes:
    return b"".join(b"%0*d\n" % (RECORD_BYTES, number) for number in range(RECORDS))


def read_all(ottla: Ottla, topic: str) -> list[bytes]:
    return sorted(ottla.run("consume", topic).stdout.splitlines())


def partitions_of(ottla: Ottla, topic: str) -> list[dict[str, Any]]:
    return ottla.json("topic", "describe", topic)[0]["partitions"]


def replicas_of(ottla: Ottla, topic: str) -> dict[int, list[int]]:
    return {each["partition"]: each["replicas"] for each in partitions_of(ottla, topic)}


def is_in_sync(ottla: Ottla, topic: str) -> bool:
    document = ottla.json("cluster", "describe")
    return topic not in {each["topic"] for each in document["offline"] + document["under_replicated"]}


def throttle_settings(ottla: Ottla, topic: str) -> dict[str, str]:
    """The throttles that are set on any broker or on the topic."""
    found = {}
    for kind, name in (("broker", "1"), ("broker", "2"), ("broker", "3"), ("topic", topic)):
        for each in ottla.json("config", "describe", kind, name):
            if "throttled" in each["key"] and each["value"]:
                found[f"{kind} {name} {each['key']}"] = each["value"]
    return found


@contextmanager
def started(ottla: Ottla, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs on its own; killed at the end if it still does."""
    command = subprocess.Popen(
        [ottla_command(), *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, **ottla.environment},
    )  # fmt: skip
    try:
        yield command
    finally:
        command.kill()
        command.communicate()


def test_the_cluster_is_described_with_racks_replicas_leaders_and_disk(ottla, lopsided):
    eventually(lambda: is_in_sync(ottla, lopsided), "all replicas are in sync")
    document = ottla.json("cluster", "describe")
    assert [(each["broker"], each["rack"], each["in_service"]) for each in document["brokers"]] == [
        (1, "a", True), (2, "b", True), (3, "c", True),
    ]  # fmt: skip
    assert document["controller"] in document["controllers"] == [1, 2]
    assert document["offline"] == document["under_replicated"] == document["moving"] == []
    first, second, third = document["brokers"]
    assert first["replicas"] >= 6 <= second["replicas"]  # the groups' topic may be there, too
    assert third["replicas"] <= 1
    assert first["disk_bytes"] > RECORDS * RECORD_BYTES > third["disk_bytes"]
    text = ottla.run("cluster", "describe").stdout.decode()
    assert "under-replicated  0\n" in text


def test_a_rebalance_shows_its_plan_moves_nothing_unasked_and_then_evens_everything_out(ottla, lopsided):
    before = replicas_of(ottla, lopsided)
    unasked = ottla.run("cluster", "rebalance")
    assert "replicas to copy" in unasked.stdout.decode()
    assert unasked.stderr == b"Nothing was moved; --yes carries the plan out.\n"
    assert ottla.json("cluster", "rebalance")["copies"] >= 4
    assert replicas_of(ottla, lopsided) == before

    done = ottla.run("cluster", "rebalance", "--yes", "--throttle", "100000000")
    assert b"\nmoved " in done.stdout
    assert f"{lopsided}-0 is on ".encode() in done.stderr
    brokers = ottla.json("cluster", "describe")["brokers"]
    for what in ("replicas", "leaders"):
        assert max(each[what] for each in brokers) - min(each[what] for each in brokers) <= 1
    assert is_in_sync(ottla, lopsided)
    assert read_all(ottla, lopsided) == records().splitlines()
    assert throttle_settings(ottla, lopsided) == {}
    assert ottla.run("cluster", "rebalance").stdout == b"nothing to do: replicas, leaders and disks are even\n"


def test_a_plan_of_kafkas_tool_is_carried_out_and_verified(ottla, lopsided, tmp_path):
    plan = tmp_path / "plan.json"
    entries = [
        {"topic": lopsided, "partition": 0, "replicas": [3, 1, 2]},
        {"topic": lopsided, "partition": 1, "replicas": [2]},
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    before = ottla.json("cluster", "reassign", str(plan), "--verify", fails_with=1)
    assert [each["arrived"] for each in before] == [False, False]
    assert ottla.json("cluster", "reassign", str(plan), "--yes")["failed"] == {}
    assert [each["arrived"] for each in ottla.json("cluster", "reassign", str(plan), "--verify")] == [True, True]
    replicas = replicas_of(ottla, lopsided)
    assert (replicas[0], replicas[1]) == ([3, 1, 2], [2])
    assert partitions_of(ottla, lopsided)[0]["leader"] == 3
    assert read_all(ottla, lopsided) == records().splitlines()


def test_moves_are_listed_and_cancelled_and_their_throttle_goes(ottla, lopsided):
    move = ("--topic", lopsided, "--partition", "0", "--replicas", "1,3")
    with started(ottla, "cluster", "reassign", *move, "--yes", "--throttle", SLOW) as reassigning:
        (moving,) = eventually(lambda: ottla.json("cluster", "reassign", "--list"), "the partition moves")
        assert (moving["partition"], moving["adding"], moving["removing"]) == (0, [3], [2])
        again = ottla.run("cluster", "rebalance", fails_with=1).stderr.decode()
        assert f"1 partition is being moved already, for example {lopsided}-0" in again
        assert throttle_settings(ottla, lopsided)
        cancelled = ottla.json("cluster", "reassign", "--cancel", "--topic", lopsided, "--partition", "0")
        assert cancelled["cancelled"] == [f"{lopsided}-0"]
        _, errors = reassigning.communicate(timeout=60)
        assert f"{lopsided}-0 was not moved: somebody else cancelled its move" in errors.decode()
    assert ottla.json("cluster", "reassign", "--list") == []
    assert replicas_of(ottla, lopsided)[0] == [1, 2]
    assert throttle_settings(ottla, lopsided) == {}


def test_a_second_ctrl_c_cancels_what_is_being_moved_and_leaves_no_throttle(ottla, lopsided):
    before = replicas_of(ottla, lopsided)
    arguments = ("cluster", "rebalance", "--yes", "--throttle", SLOW, "--parallel", "2")
    with started(ottla, *arguments) as rebalancing:
        eventually(lambda: ottla.json("cluster", "reassign", "--list"), "partitions move")
        rebalancing.send_signal(signal.SIGINT)
        assert rebalancing.stderr is not None
        line = b""
        while b"Ctrl-C cancels them" not in line:
            line = rebalancing.stderr.readline()
            assert line
        rebalancing.send_signal(signal.SIGINT)
        _, errors = rebalancing.communicate(timeout=60)
        assert rebalancing.returncode == 130
        assert re.search(r"[12] partitions? cancelled", errors.decode())
    assert ottla.json("cluster", "reassign", "--list") == []
    assert throttle_settings(ottla, lopsided) == {}
    after = replicas_of(ottla, lopsided)
    assert {partition: sorted(replicas) for partition, replicas in after.items()} == {
        partition: sorted(replicas) for partition, replicas in before.items()
    }
    assert read_all(ottla, lopsided) == records().splitlines()


def declined_at_a_terminal(ottla, *arguments: str) -> str:
    """Answer a command's question with no; return what it asked."""
    ours, theirs = pty.openpty()
    try:
        command = subprocess.Popen(
            [ottla_command(), *arguments],
            stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **ottla.environment},
        )  # fmt: skip
        os.write(ours, b"n\n")
        _, errors = command.communicate(timeout=60)
        return errors.decode()
    finally:
        os.close(ours)
        os.close(theirs)


def test_at_a_terminal_a_rebalance_asks_first(ottla, lopsided):
    assert "Move them? [y/N]" in declined_at_a_terminal(ottla, "cluster", "rebalance")
    assert set(map(tuple, replicas_of(ottla, lopsided).values())) == {(1, 2)}


def test_at_a_terminal_a_deletion_asks_and_names_the_cluster(ottla, lopsided):
    asked = declined_at_a_terminal(ottla, "topic", "delete", lopsided)
    assert f"all their records at {ottla.environment['OTTLA_BOOTSTRAP']}? [y/N]" in asked
    assert len(replicas_of(ottla, lopsided)) > 0


def test_preferred_leaders_are_elected_when_asked_for(ottla, lopsided):
    eventually(lambda: is_in_sync(ottla, lopsided), "all replicas are in sync")
    names = [TopicPartition(lopsided, index) for index in (0, 1, 2)]
    with ClusterAdmin(ottla.environment["OTTLA_BOOTSTRAP"]) as admin:
        admin.reassign(dict.fromkeys(names, (2, 1)))
    assert ottla.json("cluster", "describe")["not_led_by_preferred"] == 3

    def leaders() -> list[int]:
        return [each["leader"] for each in partitions_of(ottla, lopsided)]

    (elected,) = ottla.json("cluster", "elect-leaders", f"{lopsided}:1")
    assert (elected["partition"], elected["status"]) == (1, "elected")
    assert leaders() == [1, 2, 1, 1, 1, 1]
    assert ottla.run("cluster", "elect-leaders").stdout.count(b"elected a leader for") == 2
    assert leaders() == [2, 2, 2, 1, 1, 1]
    assert ottla.run("cluster", "elect-leaders").stdout == b"no partition needed an election\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("elect-leaders", "nowhere"), "there is no topic nowhere"),
        (("elect-leaders", "{topic}:9"), "topic {topic} has no partition 9; its partitions are 0 to 5"),
        (("decommission", "9"), "there is no broker 9 in service, and no partition has a replica on it"),
        (
            ("reassign", "--topic", "{topic}", "--partition", "0", "--replicas", "1,9"),
            "the plan does not fit this cluster: {topic}-0 cannot go to broker 9, which is not there; "
            "brokers are 1, 2, 3",
        ),
        (("reassign", "/nowhere.json"), "cannot read /nowhere.json: No such file or directory"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_is_not_there_is_named(ottla, lopsided, arguments, message):
    filled = [argument.format(topic=lopsided) for argument in arguments]
    errors = ottla.run("cluster", *filled, fails_with=1).stderr.decode()
    assert errors.startswith(f"ottla: {message.format(topic=lopsided)}")
    assert errors.count("\n") == 1


def test_a_broker_that_others_cannot_stand_in_for_is_not_decommissioned(ottla):
    ottla.run("topic", "create", "everywhere", "--replication-factor", "3")
    errors = ottla.run("cluster", "decommission", "3", "--yes", fails_with=1).stderr.decode()
    assert errors.startswith(
        "ottla: everywhere cannot do without broker 3: a partition has 3 replicas, and 2 brokers would be left"
    )
    ottla.run("topic", "delete", "everywhere")


def test_a_broker_is_emptied_stopped_and_forgotten(tmp_path: Path):
    directory = tmp_path / "cluster"
    with OttlaCluster(directory, brokers=3) as cluster:
        ottla = Ottla(cluster.bootstrap)
        ottla.run("topic", "create", "t", "--partitions", "6", "--replication-factor", "2")
        ottla.run("produce", "t", stdin=records())
        emptied = ottla.run("cluster", "decommission", "3", "--yes").stdout.decode()
        assert "broker 3 has no replicas any more" in emptied
        assert "it can be stopped" in emptied
        assert {tuple(sorted(replicas)) for replicas in replicas_of(ottla, "t").values()} == {(1, 2)}
    with OttlaCluster(directory, brokers=2) as cluster:
        ottla = Ottla(cluster.bootstrap)
        done = ottla.run("cluster", "decommission", "3", "--unregister").stdout.decode()
        assert done.endswith("unregistered broker 3\n")
        assert [each["broker"] for each in ottla.json("cluster", "describe")["brokers"]] == [1, 2]
        assert read_all(ottla, "t") == records().splitlines()
