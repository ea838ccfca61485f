"""Kafka's own commands for replicas, leaders, directories and controllers work against a cluster of several brokers.

Every broker has two log directories. The fourth holds nothing at first: replicas are moved there, and it leaves.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.compat.java import kafka_tools
from tests.compat.java.kafka_tools import run_tool, run_tool_anyhow
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import create_topic_request, produce_request, produced
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

SPARE = 4
BATCH_BYTES = 500_000
SLOW_BYTES_PER_SECOND = 1000
VERIFY_DEADLINE_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    with ReplicatedCluster(
        tmp_path_factory.mktemp("cluster"),
        brokers=4,
        controllers=3,
        log_directories=2,
        controller_settings={"auto.leader.rebalance.enable": "false"},
    ) as cluster:
        yield cluster


def make_topic(
    cluster: ReplicatedCluster, name: str, *replicas: tuple[int, ...], configs: dict[str, str] | None = None
) -> str:
    """A topic with these replicas, one partition each, all in sync."""
    assignments = dict(enumerate(replicas))
    request = create_topic_request(
        name, partitions=-1, replication_factor=-1, assignments=assignments, configs=configs
    )
    (created,) = cluster.ask(request).topics
    assert created.error_code is ErrorCode.none, created.error_message
    for index, broker_ids in assignments.items():
        cluster.wait_for_isr(name, set(broker_ids), index=index)
    cluster.wait_until_all_know(name)
    return name


def fill(cluster: ReplicatedCluster, topic: str, batches: int = 4) -> None:
    """Half a megabyte per batch into partition 0."""
    leader = cluster.state_of(topic).leader
    with RawClient.to(cluster.brokers[leader].bootstrap) as client:
        for _ in range(batches):
            request = produce_request(topic, batch_of([b"x" * BATCH_BYTES]).encode())
            assert produced(client.ask(request)).error_code is ErrorCode.none


def tool(cluster: ReplicatedCluster, main_class: str, *arguments: str) -> str:
    return run_tool(main_class, "--bootstrap-server", cluster.bootstrap, *arguments)


def described(cluster: ReplicatedCluster, *arguments: str) -> list[tuple[str, int]]:
    """The partitions that kafka-topics lists."""
    output = tool(cluster, kafka_tools.TOPICS, "--describe", *arguments)
    return [(topic, int(index)) for topic, index in re.findall(r"Topic: (\S+)\s+Partition: (\d+)", output)]


# kafka-topics


def test_topics_are_listed_by_the_state_of_their_replicas(cluster: ReplicatedCluster) -> None:
    three = make_topic(cluster, "three", (1, 2, 3), (2, 3, 1), configs={"min.insync.replicas": "2"})
    alone = make_topic(cluster, "alone", (3,))
    output = tool(cluster, kafka_tools.TOPICS, "--describe", "--topic", three)
    assert re.search(r"ReplicationFactor: 3\s+Configs: .*min.insync.replicas=2", output)
    assert re.search(r"Partition: 0\s+Leader: 1\s+Replicas: 1,2,3\s+Isr: [123],[123],[123]", output), output
    filters = ("--under-replicated-partitions", "--unavailable-partitions", "--at-min-isr-partitions")
    assert all(not described(cluster, name, "--topic", three) for name in filters)

    cluster.brokers[3].kill()
    cluster.wait_for_isr(three, {1, 2})
    cluster.wait_for_isr(three, {1, 2}, index=1)
    assert set(described(cluster, "--under-replicated-partitions")) >= {(three, 0), (three, 1)}
    assert set(described(cluster, "--at-min-isr-partitions")) >= {(three, 0), (three, 1)}
    assert not described(cluster, "--under-min-isr-partitions", "--topic", three)
    assert described(cluster, "--unavailable-partitions") == [(alone, 0)]

    cluster.brokers[3].start()
    cluster.wait_for_isr(three, {1, 2, 3})
    cluster.wait_for_isr(three, {1, 2, 3}, index=1)
    cluster.wait_for_isr(alone, {3})
    for name in filters[:2]:
        assert not described(cluster, name)


# kafka-reassign-partitions


def plan_of(tmp_path: Path, topic: str, *replicas: tuple[int, ...], log_dirs: list[str] | None = None) -> str:
    """A file with the replicas that the partitions are to have."""
    partitions: list[dict[str, Any]] = [
        {"topic": topic, "partition": index, "replicas": list(broker_ids)}
        for index, broker_ids in enumerate(replicas)
    ]
    if log_dirs is not None:
        partitions[0]["log_dirs"] = log_dirs
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def reassign(cluster: ReplicatedCluster, *arguments: str) -> str:
    return tool(cluster, kafka_tools.REASSIGN_PARTITIONS, *arguments)


def wait_until_verified(cluster: ReplicatedCluster, plan: str) -> str:
    """What the tool says once everything has been moved."""

    def verified() -> str:
        output = reassign(cluster, "--verify", "--reassignment-json-file", plan)
        assert "ERROR" not in output.upper(), output
        return "" if "still in progress" in output else output

    return eventually(verified, "everything is moved", within_s=VERIFY_DEADLINE_S)


def test_a_plan_is_generated(cluster: ReplicatedCluster, tmp_path: Path) -> None:
    topic = make_topic(cluster, "planned", (1, 2), (2, 3))
    (tmp_path / "topics.json").write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    output = reassign(
        cluster,
        *("--generate", "--topics-to-move-json-file", str(tmp_path / "topics.json"), "--broker-list", "3,4"),
    )
    present, proposed = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert [partition["replicas"] for partition in present["partitions"]] == [[1, 2], [2, 3]]
    assert all(sorted(partition["replicas"]) == [3, 4] for partition in proposed["partitions"])


def test_replicas_are_moved_to_another_broker(cluster: ReplicatedCluster, tmp_path: Path) -> None:
    topic = make_topic(cluster, "moved", (1, 2))
    fill(cluster, topic)
    plan = plan_of(tmp_path, topic, (SPARE, 2))
    output = reassign(cluster, "--execute", "--reassignment-json-file", plan, "--throttle", "100000000")
    assert f"Successfully started partition reassignment for {topic}-0" in output
    assert "The inter-broker throttle limit was set to 100000000 B/s" in output
    output = wait_until_verified(cluster, plan)
    assert f"Reassignment of partition {topic}-0 is completed." in output
    assert f"Clearing topic-level throttles on topic {topic}" in output
    cluster.wait_for_isr(topic, {2, SPARE})
    assert not throttles(cluster, topic)
    assert "No partition reassignments found." in reassign(cluster, "--list")


def test_a_slow_move_is_listed_and_cancelled(cluster: ReplicatedCluster, tmp_path: Path) -> None:
    topic = make_topic(cluster, "slow", (1, 2))
    fill(cluster, topic)
    plan = plan_of(tmp_path, topic, (1, 3))
    reassign(cluster, "--execute", "--reassignment-json-file", plan, "--throttle", str(SLOW_BYTES_PER_SECOND))
    listed = reassign(cluster, "--list")
    assert re.search(rf"{topic}-0: replicas: 1,3,2\. adding: 3\. removing: 2\.", listed), listed
    verified = reassign(cluster, "--verify", "--reassignment-json-file", plan)
    assert f"Reassignment of partition {topic}-0 is still in progress." in verified
    assert throttles(cluster, topic) == {
        "leader.replication.throttled.replicas": {"0:1", "0:2"},
        "follower.replication.throttled.replicas": {"0:3"},
    }
    refused = run_tool_anyhow(
        kafka_tools.REASSIGN_PARTITIONS,
        *("--bootstrap-server", cluster.bootstrap, "--execute", "--reassignment-json-file", plan),
    )
    assert "Cannot execute because there is an existing partition assignment" in refused
    output = reassign(cluster, "--cancel", "--reassignment-json-file", plan)
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in output
    assert "No partition reassignments found." in reassign(cluster, "--list")
    assert cluster.wait_for_isr(topic, {1, 2}).leader == 1
    assert not throttles(cluster, topic)
    output = reassign(cluster, "--cancel", "--reassignment-json-file", plan)
    assert "None of the specified partition reassignments are active." in output


def test_the_replication_factor_is_changed(cluster: ReplicatedCluster, tmp_path: Path) -> None:
    topic = make_topic(cluster, "wider", (1,))
    for replicas in ((1, 2, 3), (3,)):
        plan = plan_of(tmp_path, topic, replicas)
        reassign(cluster, "--execute", "--reassignment-json-file", plan)
        wait_until_verified(cluster, plan)
        cluster.wait_for_isr(topic, set(replicas))
    assert cluster.state_of(topic).leader == 3


def test_an_impossible_move_is_refused(cluster: ReplicatedCluster, tmp_path: Path) -> None:
    topic = make_topic(cluster, "stays", (1, 2))
    arguments = ("--bootstrap-server", cluster.bootstrap, "--execute", "--reassignment-json-file")
    refused = run_tool_anyhow(kafka_tools.REASSIGN_PARTITIONS, *arguments, plan_of(tmp_path, topic, (1, 99)))
    assert "Unknown broker id 99" in refused
    refused = run_tool_anyhow(kafka_tools.REASSIGN_PARTITIONS, *arguments, plan_of(tmp_path, "nowhere", (1, 2)))
    assert "nowhere" in refused
    assert cluster.wait_for_isr(topic, {1, 2})


def throttles(cluster: ReplicatedCluster, topic: str) -> dict[str, set[str]]:
    """The throttled replicas that kafka-configs shows for a topic."""
    output = tool(cluster, kafka_tools.CONFIGS, "--entity-type", "topics", "--entity-name", topic, "--describe")
    return {
        name: set(value.split(","))
        for name, value in re.findall(r"(\w+\.replication\.throttled\.replicas)=(\S*) sensitive", output)
        if value
    }


# kafka-log-dirs


def directories_of(cluster: ReplicatedCluster, broker: int, topic: str) -> dict[str, dict[str, Any]]:
    """What kafka-log-dirs shows of a topic on a broker, by directory."""
    output = tool(cluster, kafka_tools.LOG_DIRS, "--describe", "--broker-list", str(broker), "--topic-list", topic)
    (shown,) = json.loads(output.splitlines()[-1])["brokers"]
    assert shown["broker"] == broker
    return {
        directory["logDir"]: {partition["partition"]: partition for partition in directory["partitions"]}
        for directory in shown["logDirs"]
    }


def test_a_replica_is_moved_to_another_directory(cluster: ReplicatedCluster, tmp_path: Path) -> None:
    topic = make_topic(cluster, "directories", (1, 2))
    fill(cluster, topic)
    before = directories_of(cluster, 1, topic)
    assert len(before) == 2
    (source,) = [path for path, partitions in before.items() if partitions]
    (target,) = set(before) - {source}
    size = before[source][f"{topic}-0"]["size"]
    assert size > 4 * BATCH_BYTES

    plan = plan_of(tmp_path, topic, (1, 2), log_dirs=[target, "any"])
    slow = ("--replica-alter-log-dirs-throttle", str(SLOW_BYTES_PER_SECOND))
    output = reassign(cluster, "--execute", "--reassignment-json-file", plan, *slow)
    assert f"Successfully started moving log directory to {target} for replica {topic}-0 with broker 1" in output
    during = directories_of(cluster, 1, topic)
    assert during[target][f"{topic}-0"]["isFuture"]
    assert during[target][f"{topic}-0"]["offsetLag"] > 0
    assert "still in progress" in reassign(cluster, "--verify", "--reassignment-json-file", plan)

    fill(cluster, topic, 1)
    output = reassign(
        cluster,
        *("--execute", "--reassignment-json-file", plan, "--replica-alter-log-dirs-throttle", "500000000"),
        "--additional",
    )
    output = wait_until_verified(cluster, plan)
    assert f"Reassignment of replica {topic}-0-1 completed successfully." in output
    after = directories_of(cluster, 1, topic)
    assert not after[source]
    assert not after[target][f"{topic}-0"]["isFuture"]
    assert after[target][f"{topic}-0"]["size"] > 5 * BATCH_BYTES
    fill(cluster, topic, 1)


def test_a_replica_comes_to_the_directory_it_was_wanted_in(cluster: ReplicatedCluster, tmp_path: Path) -> None:
    topic = make_topic(cluster, "wanted", (1, 2))
    target = max(directories_of(cluster, SPARE, topic))
    plan = plan_of(tmp_path, topic, (1, SPARE), log_dirs=["any", target])
    output = reassign(cluster, "--execute", "--reassignment-json-file", plan)
    assert f"Successfully started moving log directory to {target} for replica {topic}-0" in output
    assert f"Reassignment of replica {topic}-0-{SPARE} completed successfully." in wait_until_verified(cluster, plan)
    assert f"{topic}-0" in directories_of(cluster, SPARE, topic)[target]


# kafka-leader-election


def elect(cluster: ReplicatedCluster, kind: str, topic: str) -> str:
    return tool(cluster, kafka_tools.LEADER_ELECTION, "--election-type", kind, "--topic", topic, "--partition", "0")


def test_the_preferred_leader_is_elected_again(cluster: ReplicatedCluster) -> None:
    topic = make_topic(cluster, "preferred", (1, 2, 3))
    cluster.brokers[1].kill()
    assert cluster.wait_for_other_leader(topic, 1) in {2, 3}
    arguments = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    refused = run_tool_anyhow(kafka_tools.LEADER_ELECTION, "--bootstrap-server", cluster.bootstrap, *arguments)
    assert "PreferredLeaderNotAvailableException" in refused
    cluster.brokers[1].start()
    assert cluster.wait_for_isr(topic, {1, 2, 3}).leader != 1
    output = elect(cluster, "preferred", topic)
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in output
    assert cluster.state_of(topic).leader == 1
    assert f"Valid replica already elected for partitions {topic}-0" in elect(cluster, "preferred", topic)
    tool(cluster, kafka_tools.LEADER_ELECTION, "--election-type", "preferred", "--all-topic-partitions")


def test_an_unclean_leader_is_elected_on_demand(cluster: ReplicatedCluster) -> None:
    topic = make_topic(cluster, "unclean", (2, 3))
    assert f"Valid replica already elected for partitions {topic}-0" in elect(cluster, "unclean", topic)
    cluster.brokers[3].kill()
    cluster.wait_for_isr(topic, {2})
    cluster.brokers[2].kill()
    eventually(lambda: cluster.state_of(topic).leader == -1, f"nobody leads {topic}")
    cluster.brokers[3].start()
    assert cluster.state_of(topic).leader == -1
    output = elect(cluster, "unclean", topic)
    assert f"Successfully completed leader election (UNCLEAN) for partitions {topic}-0" in output
    assert cluster.state_of(topic).leader == 3
    cluster.brokers[2].start()
    cluster.wait_for_isr(topic, {2, 3})


# kafka-broker-api-versions, kafka-metadata-quorum, kafka-cluster


def test_every_broker_tells_what_it_serves(cluster: ReplicatedCluster) -> None:
    output = tool(cluster, kafka_tools.BROKER_API_VERSIONS)
    for number, broker in cluster.brokers.items():
        assert f"{broker.bootstrap} (id: {number} rack: null" in output
    for api in ("AlterReplicaLogDirs(34)", "ElectLeaders(43)", "AlterPartitionReassignments(45)"):
        assert output.count(f"{api}: ") == len(cluster.brokers)
    for api in ("ListPartitionReassignments(46)", "DescribeQuorum(55)", "UnregisterBroker(64)"):
        assert output.count(f"{api}: ") == len(cluster.brokers)


def test_the_controllers_are_described_as_a_quorum(cluster: ReplicatedCluster) -> None:
    status = tool(cluster, kafka_tools.METADATA_QUORUM, "describe", "--status")
    (leader,) = re.findall(r"LeaderId:\s+(\d)", status)
    assert re.search(r"MaxFollowerLag:\s+0\n", status)
    voters = re.findall(r'\{"id": (\d), "endpoints": \["RPC://127.0.0.1:\d+"\]\}', status)
    assert sorted(voters) == ["1", "2", "3"], status
    replication = tool(cluster, kafka_tools.METADATA_QUORUM, "describe", "--replication")
    rows = dict(re.findall(r"^(\d)\s.*\s(Leader|Follower)\s*$", replication, re.MULTILINE))
    assert rows == {number: "Leader" if number == leader else "Follower" for number in "123"}


def test_a_broker_that_has_left_is_unregistered(cluster: ReplicatedCluster, tmp_path: Path) -> None:
    assert re.search(r"Cluster ID: \S{22}", tool_of_cluster(cluster, "cluster-id"))
    refused = run_tool_anyhow(
        kafka_tools.CLUSTER, "unregister", "--bootstrap-server", cluster.bootstrap, "--id", str(SPARE)
    )
    assert "is no longer registered" not in refused
    for topic in ("moved", "wanted"):
        plan = plan_of(tmp_path, topic, (1, 2))
        reassign(cluster, "--execute", "--reassignment-json-file", plan)
        wait_until_verified(cluster, plan)
    cluster.brokers[SPARE].stop()
    eventually(
        lambda: "is no longer registered" in tool_anyhow(cluster, "unregister", "--id", str(SPARE)),
        f"broker {SPARE} is unregistered",
    )
    refused = tool_anyhow(cluster, "unregister", "--id", "99")
    assert "BrokerIdNotRegisteredException" in refused


def tool_of_cluster(cluster: ReplicatedCluster, command: str, *arguments: str) -> str:
    return run_tool(kafka_tools.CLUSTER, command, "--bootstrap-server", cluster.bootstrap, *arguments)


def tool_anyhow(cluster: ReplicatedCluster, command: str, *arguments: str) -> str:
    return run_tool_anyhow(kafka_tools.CLUSTER, command, "--bootstrap-server", cluster.bootstrap, *arguments)
