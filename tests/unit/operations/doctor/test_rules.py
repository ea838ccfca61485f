"""What `ottla doctor` finds in facts: each cause once, the worst first, with a command that exists."""

import threading
from typing import Any

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import BrokerView, ClusterView, PartitionView
from ottla_operations.doctor.findings import Facts, Harm
from ottla_operations.doctor.gathering import within_deadline
from ottla_operations.doctor.rules import findings
from tests.documents.named_commands import refusal

ROOM = [(900 << 30, 1000 << 30)]


def facts(*partitions: PartitionView, brokers: int = 3, **others: Any) -> Facts:
    there = {each: BrokerView(each, "127.0.0.1", 9091 + each, None) for each in range(1, brokers + 1)}
    view = ClusterView("id", there, {each.name: each for each in partitions})
    return Facts(**{"view": view, "disks": dict.fromkeys(there, ROOM), **others})


def partition(index: int, leader: int | None, replicas: tuple[int, ...], in_sync: tuple[int, ...]) -> PartitionView:
    return PartitionView(TopicPartition("t", index), leader, replicas, in_sync)


def rules_of(seen: Facts) -> list[str]:
    found = findings(seen)
    ours = [each.remedy for each in found if each.remedy.startswith("ottla ")]
    assert [refusal(each.split()[1:]) for each in ours] == [None] * len(ours)
    return [each.rule for each in found]


def test_nothing_is_wrong_with_a_healthy_cluster() -> None:
    assert rules_of(facts(partition(0, 1, (1, 2, 3), (1, 2, 3)))) == []


def test_a_broker_that_is_away_is_told_once_with_what_follows() -> None:
    seen = facts(partition(0, 1, (1, 2, 3), (1, 2)), partition(1, None, (3,), (3,)), brokers=2)

    (found,) = findings(seen)
    assert (found.rule, found.harm) == ("broker-away", Harm.UNAVAILABLE)
    assert "1 partition without a leader (t-1), 1 partition with a copy less" in found.what


def test_a_broker_that_does_not_answer_explains_its_partitions() -> None:
    seen = facts(partition(0, 1, (1, 2), (1,)), brokers=2)

    assert rules_of(facts(partition(0, 1, (1, 2), (1,)), brokers=2, disks={1: ROOM})) == ["broker-silent"]
    assert rules_of(seen) == ["under-replicated-partitions"]


def test_an_offline_partition_comes_before_a_scarce_disk() -> None:
    seen = facts(partition(0, None, (1, 2), ()), brokers=2, disks={1: ROOM, 2: [(1 << 30, 100 << 30)]})

    assert rules_of(seen) == ["offline-partitions", "disk-fills"]


def test_brokers_on_one_full_disk_are_one_finding() -> None:
    (found,) = findings(facts(brokers=2, disks={each: [(0, 100 << 30)] for each in (1, 2)}))

    assert (found.rule, found.where) == ("disk-full", "disk of broker 1, 2")


def test_a_failed_task_is_told_and_one_that_is_starting_is_not() -> None:
    status = {
        "name": "files",
        "connector": {"state": "RUNNING"},
        "tasks": [{"id": 0, "state": "FAILED", "trace": "no such file\nat"}, {"id": 1, "state": "UNASSIGNED"}],
    }

    assert rules_of(facts(connectors=[status])) == ["connector-fails"]


def test_a_source_that_never_answers_is_given_up() -> None:
    silent: list[str] = []
    never = threading.Event()

    assert within_deadline(never.wait, "it", silent, within_s=0.01) is None
    assert silent == ["it: no answer within 0 s"]
    never.set()


def test_a_flow_that_fails_is_told_and_one_that_is_paused_is_not() -> None:
    flows = [
        {"name": "west->east", "state": "FAILED", "reason": "west does not answer"},
        {"name": "east->west", "state": "PAUSED", "reason": ""},
    ]

    (found,) = findings(facts(flows=flows))
    assert (found.rule, found.where, found.what) == ("flow-stands-still", "flow west->east", "west does not answer")
