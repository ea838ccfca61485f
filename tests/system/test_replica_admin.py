"""The APIs that move replicas, elect leaders and describe controllers, as far as a single broker shows them.

Everything here holds for the reference Kafka as well (`OTTLA_TEST_REFERENCE=1`), which has a single node of id 1 too.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.alter_replica_log_dirs.v2 import request as alter_directories
from kio.schema.describe_log_dirs.v4 import request as describe_directories
from kio.schema.describe_quorum.v2 import request as describe_quorum
from kio.schema.elect_leaders.v0.request import ElectLeadersRequest as ElectLeadersRequestV0
from kio.schema.elect_leaders.v0.request import TopicPartitions as TopicPartitionsV0
from kio.schema.elect_leaders.v2 import request as elect_leaders
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0 import request as list_reassignments
from kio.schema.types import BrokerId, TopicName
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.static.primitive import i8, i32, i32Timedelta

from tests.conftest import TopicFactory
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import reassign_request

pytestmark = pytest.mark.slow

NODE = 1
NOWHERE = TopicName("there-is-no-such-topic")
TIMEOUT = i32Timedelta.parse(timedelta(seconds=10))
PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient.to(bootstrap) as connected:
        yield connected


# ElectLeaders


def elect(client: RawClient, kind: int, *wanted: tuple[str, int]) -> Any:
    partitions = tuple(
        elect_leaders.TopicPartitions(topic=TopicName(topic), partitions=(i32(index),)) for topic, index in wanted
    )
    return client.ask(
        elect_leaders.ElectLeadersRequest(
            election_type=i8(kind), topic_partitions=partitions or None, timeout=TIMEOUT
        )
    )


def election_errors(response: Any) -> list[ErrorCode]:
    return [
        partition.error_code for topic in response.replica_election_results for partition in topic.partition_result
    ]


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_a_partition_that_has_its_leader_needs_no_election(
    client: RawClient, new_topic: TopicFactory, kind: int
) -> None:
    topic = new_topic()
    response = elect(client, kind, (topic, 0), (NOWHERE, 0), (topic, 7))
    assert response.error_code is ErrorCode.none
    found = {
        (result.topic, partition.partition_id): partition.error_code
        for result in response.replica_election_results
        for partition in result.partition_result
    }
    assert found == {
        (topic, 0): ErrorCode.election_not_needed,
        (NOWHERE, 0): ErrorCode.unknown_topic_or_partition,
        (topic, 7): ErrorCode.unknown_topic_or_partition,
    }


def test_an_election_for_all_leaves_out_those_that_need_none(client: RawClient, new_topic: TopicFactory) -> None:
    new_topic()
    response = elect(client, PREFERRED)
    assert response.error_code is ErrorCode.none
    assert election_errors(response) == []


def test_an_unknown_kind_of_election_is_refused(client: RawClient, new_topic: TopicFactory) -> None:
    assert elect(client, 7, (new_topic(), 0)).error_code is ErrorCode.invalid_request


def test_the_first_version_elects_the_preferred_leader(client: RawClient, new_topic: TopicFactory) -> None:
    wanted = TopicPartitionsV0(topic=TopicName(new_topic()), partitions=(i32(0),))
    response = client.ask(ElectLeadersRequestV0(topic_partitions=(wanted,), timeout=TIMEOUT))
    assert election_errors(response) == [ErrorCode.election_not_needed]


# AlterPartitionReassignments and ListPartitionReassignments


def reassign(client: RawClient, topic: str, *replicas: tuple[int, ...] | None, may_change_factor: bool = True) -> Any:
    return client.ask(reassign_request(topic, *replicas, may_change_factor=may_change_factor))


def reassignment_errors(response: Any) -> list[ErrorCode]:
    assert response.error_code is ErrorCode.none
    return [partition.error_code for topic in response.responses for partition in topic.partitions]


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ((NODE,), ErrorCode.none),
        ((NODE, 99), ErrorCode.invalid_replica_assignment),
        ((), ErrorCode.invalid_replica_assignment),
        ((NODE, NODE), ErrorCode.invalid_replica_assignment),
        ((-1,), ErrorCode.invalid_replica_assignment),
        (None, ErrorCode.no_reassignment_in_progress),
    ],
)
def test_what_is_wrong_with_a_reassignment_is_told(
    client: RawClient, new_topic: TopicFactory, replicas: tuple[int, ...] | None, error: ErrorCode
) -> None:
    assert reassignment_errors(reassign(client, new_topic(), replicas)) == [error]


def test_each_partition_of_a_reassignment_is_answered(client: RawClient, new_topic: TopicFactory) -> None:
    topic = new_topic(partitions=2)
    assert reassignment_errors(reassign(client, topic, (NODE,), None, (NODE,))) == [
        ErrorCode.none,
        ErrorCode.no_reassignment_in_progress,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert reassignment_errors(reassign(client, NOWHERE, (NODE,))) == [ErrorCode.unknown_topic_or_partition]


def test_a_factor_that_must_not_change_does_not(client: RawClient, new_topic: TopicFactory) -> None:
    response = reassign(client, new_topic(), (NODE,), may_change_factor=False)
    assert reassignment_errors(response) == [ErrorCode.none]
    assert response.allow_replication_factor_change is False


def test_nothing_is_listed_where_nothing_moves(client: RawClient, new_topic: TopicFactory) -> None:
    topics = tuple(
        list_reassignments.ListPartitionReassignmentsTopics(name=TopicName(topic), partition_indexes=(i32(0), i32(9)))
        for topic in (new_topic(), NOWHERE)
    )
    for wanted in (None, topics):
        response = client.ask(list_reassignments.ListPartitionReassignmentsRequest(timeout=TIMEOUT, topics=wanted))
        assert (response.error_code, response.topics) == (ErrorCode.none, ())


# AlterReplicaLogDirs and DescribeLogDirs


def move_to(client: RawClient, directory: str, topic: str) -> list[ErrorCode]:
    moved = alter_directories.AlterReplicaLogDirTopic(name=TopicName(topic), partitions=(i32(0),))
    response = client.ask(
        alter_directories.AlterReplicaLogDirsRequest(
            dirs=(alter_directories.AlterReplicaLogDir(path=directory, topics=(moved,)),)
        )
    )
    return [partition.error_code for result in response.results for partition in result.partitions]


def directories_with(client: RawClient, topic: str) -> list[Any]:
    wanted = describe_directories.DescribableLogDirTopic(topic=TopicName(topic), partitions=(i32(0),))
    return list(client.ask(describe_directories.DescribeLogDirsRequest(topics=(wanted,))).results)


def test_a_replica_may_be_moved_where_it_is(client: RawClient, new_topic: TopicFactory) -> None:
    topic = new_topic()
    (directory,) = directories_with(client, topic)
    assert move_to(client, directory.log_dir, topic) == [ErrorCode.none]
    (again,) = directories_with(client, topic)
    assert [(partition.is_future_key, partition.offset_lag) for partition in again.topics[0].partitions] == [
        (False, 0)
    ]


def test_a_replica_is_not_moved_to_what_is_no_log_directory(client: RawClient, new_topic: TopicFactory) -> None:
    assert move_to(client, "/there/is/no/such/directory", new_topic()) == [ErrorCode.log_dir_not_found]


def test_a_partition_that_does_not_exist_cannot_be_moved(client: RawClient, new_topic: TopicFactory) -> None:
    (directory,) = directories_with(client, new_topic())
    assert move_to(client, directory.log_dir, NOWHERE) == [ErrorCode.unknown_topic_or_partition]
    assert move_to(client, directory.log_dir, "t" * 240) == [ErrorCode.invalid_topic_exception]


# DescribeQuorum and UnregisterBroker


def quorum_of(client: RawClient, topic: str, index: int) -> Any:
    partition = describe_quorum.PartitionData(partition_index=i32(index))
    wanted = describe_quorum.TopicData(topic_name=TopicName(topic), partitions=(partition,))
    return client.ask(describe_quorum.DescribeQuorumRequest(topics=(wanted,)))


def test_the_controller_is_described_as_a_quorum_of_one(client: RawClient) -> None:
    response = quorum_of(client, "__cluster_metadata", 0)
    assert response.error_code is ErrorCode.none
    (topic,) = response.topics
    (partition,) = topic.partitions
    assert (topic.topic_name, partition.partition_index) == ("__cluster_metadata", 0)
    assert (partition.error_code, partition.leader_id) == (ErrorCode.none, NODE)
    assert partition.leader_epoch > 0
    assert partition.high_watermark > 0
    (voter,) = partition.current_voters
    assert voter.replica_id == NODE
    assert voter.log_end_offset >= partition.high_watermark
    assert voter.last_caught_up_timestamp > 0
    (node,) = response.nodes
    assert node.node_id == NODE
    assert len(node.listeners) == 1


@pytest.mark.parametrize(("topic", "index"), [("__cluster_metadata", 1), ("other", 0)])
def test_nothing_else_has_a_quorum(client: RawClient, topic: str, index: int) -> None:
    (partition,) = quorum_of(client, topic, index).topics[0].partitions
    assert partition.error_code is ErrorCode.unknown_topic_or_partition


def test_a_broker_that_never_was_cannot_be_unregistered(client: RawClient) -> None:
    response = client.ask(UnregisterBrokerRequest(broker_id=BrokerId(99)))
    assert response.error_code is ErrorCode.broker_id_not_registered
