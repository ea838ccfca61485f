"""The APIs of replicas through the dispatcher: what the cluster state tells, and what goes to the controller."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.alter_partition_reassignments.v0 import request as alter_reassignments_v0
from kio.schema.alter_partition_reassignments.v1 import request as alter_reassignments
from kio.schema.alter_replica_log_dirs.v2 import request as alter_directories
from kio.schema.describe_log_dirs.v4 import request as describe_directories
from kio.schema.describe_quorum.v0.request import DescribeQuorumRequest as DescribeQuorumRequestV0
from kio.schema.describe_quorum.v0.request import PartitionData as PartitionDataV0
from kio.schema.describe_quorum.v0.request import TopicData as TopicDataV0
from kio.schema.describe_quorum.v2 import request as describe_quorum
from kio.schema.elect_leaders.v2 import request as elect_leaders
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0 import request as list_reassignments
from kio.schema.types import BrokerId, TopicName
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.static.primitive import i8, i32, i32Timedelta

from ottla_core.cluster.controller_rpc.controller_api import (
    AlteredReassignment,
    ElectedLeader,
    ElectionType,
    Reassignment,
)
from ottla_core.cluster.state.model import ClusterState, ControllerLeader, Member, PartitionState, Role, Topic
from ottla_core.errors import BrokerIdNotRegistered, KafkaError, RequestTimedOut
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.broker_parts import ask, broker_of
from tests.support.broker.log_stores import CONFIG, FLIGHTS, TOPIC_ID, store_in, until
from tests.support.broker.partition_logs import append
from tests.support.groups.group_cluster import StatedFeed

TIMEOUT = i32Timedelta.parse(timedelta(seconds=5))
REVISION = 77
MOVING = PartitionState(
    topic_id=UUID(int=1),
    index=1,
    replicas=(1, 2, 3),
    isr=(1, 2),
    leader=1,
    leader_epoch=4,
    adding=(3,),
    removing=(2,),
)
STILL = replace(MOVING, index=0, replicas=(1, 2), adding=(), removing=())
TOPIC = Topic(name="t", id=UUID(int=1), partitions=(STILL, MOVING))


def controller(number: int) -> Member:
    return Member(
        role=Role.CONTROLLER,
        id=number,
        epoch=number,
        incarnation=UUID(int=number),
        rpc_address=f"[::1]:{7000 + number}",
        version="test",
    )


STATE = ClusterState(
    revision=REVISION,
    controller=ControllerLeader(id=2, epoch=9, rpc_address="[::1]:7002"),
    controllers={number: controller(number) for number in (1, 2, 3)},
    topics={"t": TOPIC},
    topics_by_id={TOPIC.id: TOPIC},
)


class Controller:
    """Answers as it is told, and notes what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    async def _answer(self, *asked: Any) -> Any:
        self.asked.append(asked)
        if isinstance(self.answer, KafkaError):
            raise self.answer
        return self.answer, REVISION

    async def elect_leaders(self, type_: ElectionType, partitions: Any, *, timeout_s: float) -> Any:
        return await self._answer(type_, partitions, timeout_s)

    async def alter_reassignments(
        self, reassignments: Any, *, allow_replication_factor_change: bool, timeout_s: float
    ) -> Any:
        return await self._answer(reassignments, allow_replication_factor_change, timeout_s)

    async def unregister_broker(self, broker_id: int, *, timeout_s: float) -> Any:
        return await self._answer(broker_id)


class Reconciler:
    """Notes which revision was waited for."""

    def __init__(self) -> None:
        self.reached: list[int] = []

    async def wait_reached(self, revision: int, timeout_s: float) -> bool:
        self.reached.append(revision)
        return True


async def through(answer: Any, request: Any) -> tuple[Any, list[Any], list[int]]:
    """The response, what the controller was asked, and the revisions that were waited for."""
    asked, reconciler = Controller(answer), Reconciler()
    broker = broker_of(StatedFeed(STATE), controller=asked, reconciler=reconciler)
    return await ask(broker, request), asked.asked, reconciler.reached


# Elections


def election(kind: int, *topics: tuple[str, int]) -> Any:
    wanted = tuple(
        elect_leaders.TopicPartitions(topic=TopicName(topic), partitions=(i32(index),)) for topic, index in topics
    )
    return elect_leaders.ElectLeadersRequest(election_type=i8(kind), topic_partitions=wanted or None, timeout=TIMEOUT)


async def test_elections_are_held_by_the_controller_and_then_waited_for() -> None:
    results = [
        ElectedLeader(topic="t", index=0),
        ElectedLeader(topic="u", index=0, error_code=ErrorCode.election_not_needed, error_message="it leads"),
        ElectedLeader(topic="t", index=1),
    ]
    response, asked, reached = await through(results, election(1, ("t", 0), ("u", 0), ("t", 1)))
    assert asked == [
        (ElectionType.UNCLEAN, [TopicPartition("t", 0), TopicPartition("u", 0), TopicPartition("t", 1)], 5.0)
    ]
    assert reached == [REVISION]
    found = {
        result.topic: [(p.partition_id, p.error_code, p.error_message) for p in result.partition_result]
        for result in response.replica_election_results
    }
    assert found == {
        "t": [(0, ErrorCode.none, None), (1, ErrorCode.none, None)],
        "u": [(0, ErrorCode.election_not_needed, "it leads")],
    }


async def test_an_election_for_all_partitions_names_none() -> None:
    _, asked, _ = await through([], election(0))
    assert asked == [(ElectionType.PREFERRED, None, 5.0)]


async def test_an_election_that_no_controller_answers_fails_for_each_partition() -> None:
    response, _, reached = await through(RequestTimedOut("nobody leads"), election(0, ("t", 0)))
    assert response.error_code is ErrorCode.request_timed_out
    (partition,) = response.replica_election_results[0].partition_result
    assert (partition.error_code, partition.error_message) == (ErrorCode.request_timed_out, "nobody leads")
    assert reached == []


# Reassignments


@pytest.mark.parametrize(
    ("module", "may_change_factor"), [(alter_reassignments_v0, True), (alter_reassignments, False)]
)
async def test_reassignments_go_to_the_controller(module: Any, may_change_factor: bool) -> None:
    flag = {} if may_change_factor else {"allow_replication_factor_change": False}
    partitions = (
        module.ReassignablePartition(partition_index=i32(0), replicas=(BrokerId(2), BrokerId(3))),
        module.ReassignablePartition(partition_index=i32(1), replicas=None),
    )
    request = module.AlterPartitionReassignmentsRequest(
        timeout=TIMEOUT, topics=(module.ReassignableTopic(name=TopicName("t"), partitions=partitions),), **flag
    )
    results = [
        AlteredReassignment(topic="t", index=0),
        AlteredReassignment(topic="t", index=1, error_code=ErrorCode.no_reassignment_in_progress),
    ]
    response, asked, reached = await through(results, request)
    wanted = [Reassignment(topic="t", index=0, replicas=(2, 3)), Reassignment(topic="t", index=1, replicas=None)]
    assert asked == [(wanted, may_change_factor, 5.0)]
    assert reached == [REVISION]
    (topic,) = response.responses
    assert [partition.error_code for partition in topic.partitions] == [
        ErrorCode.none,
        ErrorCode.no_reassignment_in_progress,
    ]


@pytest.mark.parametrize("wanted", [None, ("t", "absent")])
async def test_moving_partitions_are_listed_from_the_cluster_state(wanted: tuple[str, ...] | None) -> None:
    topics = None if wanted is None else tuple(
        list_reassignments.ListPartitionReassignmentsTopics(
            name=TopicName(name), partition_indexes=(i32(0), i32(1), i32(-1), i32(2))
        )
        for name in wanted
    )  # fmt: skip
    request = list_reassignments.ListPartitionReassignmentsRequest(timeout=TIMEOUT, topics=topics)
    response = await ask(broker_of(StatedFeed(STATE)), request)
    ((name, (partition,)),) = [(topic.name, topic.partitions) for topic in response.topics]
    assert (name, partition.partition_index, partition.replicas) == ("t", 1, (1, 2, 3))
    assert (partition.adding_replicas, partition.removing_replicas) == ((3,), (2,))


# Controllers and brokers


def quorum_request() -> Any:
    partition = describe_quorum.PartitionData(partition_index=i32(0))
    return describe_quorum.DescribeQuorumRequest(
        topics=(describe_quorum.TopicData(topic_name=TopicName("__cluster_metadata"), partitions=(partition,)),)
    )


async def test_the_registered_controllers_are_the_voters_and_the_leader_comes_first() -> None:
    response = await ask(broker_of(StatedFeed(STATE)), quorum_request())
    (partition,) = response.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (2, 9, REVISION)
    assert [(voter.replica_id, voter.log_end_offset) for voter in partition.current_voters] == [
        (2, REVISION), (1, REVISION), (3, REVISION),
    ]  # fmt: skip
    assert {node.node_id: (node.listeners[0].host, node.listeners[0].port) for node in response.nodes} == {
        number: ("::1", 7000 + number) for number in (1, 2, 3)
    }


async def test_the_first_version_of_describe_quorum_is_answered_too() -> None:
    topic = TopicDataV0(
        topic_name=TopicName("__cluster_metadata"), partitions=(PartitionDataV0(partition_index=i32(0)),)
    )
    response = await ask(broker_of(StatedFeed(STATE)), DescribeQuorumRequestV0(topics=(topic,)))
    assert response.topics[0].partitions[0].leader_id == 2


async def test_without_a_leading_controller_clients_are_told_to_ask_again() -> None:
    response = await ask(broker_of(StatedFeed(replace(STATE, controller=None))), quorum_request())
    assert response.topics[0].partitions[0].error_code is ErrorCode.leader_not_available


async def test_while_etcd_does_not_confirm_the_state_nobody_is_said_to_lead() -> None:
    response = await ask(broker_of(StatedFeed(STATE, fresh=False)), quorum_request())
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.request_timed_out, -1)
    assert "etcd does not confirm" in partition.error_message
    assert (response.error_code, partition.current_voters) == (ErrorCode.none, ())


async def test_a_leader_that_has_just_gone_is_a_voter_still() -> None:
    state = replace(STATE, controllers={1: controller(1)})
    response = await ask(broker_of(StatedFeed(state)), quorum_request())
    assert [voter.replica_id for voter in response.topics[0].partitions[0].current_voters] == [2, 1]


async def test_an_unregistration_is_the_controllers_to_refuse() -> None:
    request = UnregisterBrokerRequest(broker_id=BrokerId(9))
    response, asked, _ = await through(None, request)
    assert (response.error_code, asked) == (ErrorCode.none, [(9,)])
    response, _, _ = await through(BrokerIdNotRegistered("no broker 9"), request)
    assert (response.error_code, response.error_message) == (ErrorCode.broker_id_not_registered, "no broker 9")


# Log directories


async def test_a_replica_on_its_way_is_described_in_both_directories(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    async with store_in(first, second, move_rate=lambda: 0) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        append(log, b"value")
        broker = broker_of(StatedFeed(STATE), store=store)
        source = log.directory.parent
        target = second if source == first else first
        wanted = alter_directories.AlterReplicaLogDirTopic(name=TopicName("flights"), partitions=(i32(3), i32(4)))
        directories = (alter_directories.AlterReplicaLogDir(path=str(target), topics=(wanted,)),)
        response = await ask(broker, alter_directories.AlterReplicaLogDirsRequest(dirs=directories))
        assert [partition.error_code for partition in response.results[0].partitions] == [
            ErrorCode.none,
            ErrorCode.unknown_topic_or_partition,
        ]
        await until(lambda: any(path.name.endswith("-future") for path in target.iterdir()))
        described = await ask(broker, describe_directories.DescribeLogDirsRequest(topics=None))
        (held,), (copy,) = (
            result.topics[0].partitions
            for result in sorted(described.results, key=lambda result: result.log_dir != str(source))
        )
        assert (held.is_future_key, held.partition_size, held.offset_lag) == (False, log.size_bytes, 0)
        assert (copy.is_future_key, copy.partition_size, copy.offset_lag) == (True, 0, 1)
