"""`ottla cluster rebalance` and `decommission` on a simulated cluster, in cases that a real one hardly gets into."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from ottla.commands import cluster_rebalance
from ottla.main import main
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster import movement
from tests.unit.operations.cluster.simulated_cluster import SimulatedCluster

NAMES = [TopicPartition("t", index) for index in range(6)]


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def cluster(monkeypatch) -> SimulatedCluster:
    made = SimulatedCluster(dict.fromkeys(NAMES, (1, 2)), brokers=(1, 2, 3))
    made.polls_to_move = 1
    monkeypatch.setattr(cluster_rebalance, "cluster_admin", lambda bootstrap, properties: made)
    monkeypatch.setattr(movement, "POLL_S", 0.0)
    return made


@pytest.fixture
def ottla(monkeypatch, capsys) -> Run:
    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["ottla", "cluster", *arguments])
        code = main()
        written = capsys.readouterr()
        return Done(code, written.out, written.err)

    return run


def test_a_rebalance_leaves_out_what_is_offline(cluster, ottla):
    for name in NAMES[:5]:
        cluster.partitions[name] = replace(cluster.partitions[name], leader=None)
    document = json.loads(ottla("rebalance", "--json").stdout)
    assert {each["partition"] for each in document["plan"]["partitions"]} <= {5}


def test_a_rebalance_says_that_a_broker_is_away(cluster, ottla):
    cluster.partitions[NAMES[0]] = replace(cluster.partitions[NAMES[0]], replicas=(1, 9))
    done = ottla("rebalance", "--yes")
    assert done.returncode == 0
    assert done.stderr.startswith("Broker 9 is away and is left out of this; its replicas stay as they are.")
    assert 9 in cluster.partitions[NAMES[0]].replicas


def test_a_rebalance_that_is_carried_out_for_a_program_prints_plan_and_result_as_one_document(cluster, ottla):
    done = ottla("rebalance", "--yes", "--json")
    document = json.loads(done.stdout)
    assert document["copies"] == 4
    assert len(document["moved"]) == len(document["plan"]["partitions"])
    assert document["failed"] == {}


def test_a_partition_that_is_refused_makes_the_command_fail_and_is_named(cluster, ottla):
    refused = TopicPartition("t", 3)
    cluster.refused[refused] = "not now"
    done = ottla("decommission", "1", "--yes")
    assert done.returncode == 1
    assert "ottla: t-3 was not moved: not now\n" in done.stderr
    assert "has no replicas any more" not in done.stdout


def test_what_is_offline_keeps_a_broker_from_being_decommissioned(cluster, ottla):
    cluster.partitions[NAMES[2]] = replace(cluster.partitions[NAMES[2]], leader=None)
    done = ottla("decommission", "2", "--yes")
    assert done.returncode == 1
    assert done.stderr.startswith("ottla: t-2 is offline, so it cannot be copied off broker 2; bring back one of ")


def test_a_lost_broker_is_replaced_and_forgotten_at_once(cluster, ottla):
    del cluster.brokers[2]
    done = ottla("decommission", "2", "--yes", "--unregister")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("unregistered broker 2\n")
    assert cluster.unregistered == [2]
    assert {partition.replicas for partition in cluster.partitions.values()} == {(1, 3)}


def test_partitions_that_come_to_a_broker_while_it_is_emptied_are_moved_as_well(cluster, ottla, monkeypatch):
    late = TopicPartition("u", 0)
    reassign = cluster.reassign

    def reassign_and_create(targets):
        if late not in cluster.partitions:
            cluster.partitions[late] = replace(cluster.partitions[NAMES[0]], name=late, replicas=(2, 3), leader=2)
        return reassign(targets)

    monkeypatch.setattr(cluster, "reassign", reassign_and_create)
    assert json.loads(ottla("decommission", "2", "--yes", "--json").stdout)["empty"]
    assert set(cluster.partitions[late].replicas) == {1, 3}


def test_without_a_yes_nothing_is_moved_where_nobody_can_be_asked(cluster, ottla):
    assert ottla("decommission", "2").returncode == 0
    assert set(json.loads(ottla("decommission", "2", "--json").stdout)) >= {"plan", "copies", "brokers"}
    assert {partition.replicas for partition in cluster.partitions.values()} == {(1, 2)}
