"""DescribeQuorum (key 55): the controllers, told in the form of Kafka's metadata quorum (KIP-595, KIP-836, KIP-853).

Ottla's controllers keep no log of their own; the cluster's metadata is in etcd, and its revision is what comes next
to an offset. So every registered controller is shown as a voter that is at the revision this broker has seen, and the
leading one as the leader of `__cluster_metadata`. Brokers are not shown as observers: they may have the ids of
controllers, and Kafka's tools tell nodes apart by id.

A broker of Kafka passes the question on to the leading controller, and answers REQUEST_TIMED_OUT where it reaches
none (`ForwardingManager`). Here a broker answers so of the partition while etcd does not confirm what it knows: who
leads may be another one by now, or nobody. Each broker answers for itself, so whoever asks all of them hears which
are cut off.
"""

from collections.abc import Iterable
from typing import Any

from kio.schema.describe_quorum.v2.response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i64, u16

from ottla_broker.broker import Broker, Request
from ottla_broker.outcome import Parts
from ottla_core.cluster.state.model import NO_EPOCH, NO_LEADER, ClusterState, Member
from ottla_core.config import parse_address

METADATA_TOPIC = "__cluster_metadata"
METADATA_PARTITION = 0
CONTROLLER_LISTENER = "RPC"
UNKNOWN = i64(-1)
INT32_MAX = 2**31 - 1
STALE = "etcd does not confirm what this broker knows of the cluster, so it cannot tell who leads the controllers."


def handle(broker: Broker, request: Request) -> Parts:
    """Answer from the cluster state, about the metadata partition only, while that state is up to date."""
    state = broker.state
    now_ms = broker.clock.time_ms()
    topics = tuple(
        TopicData(
            topic_name=TopicName(topic.topic_name),
            partitions=tuple(
                _describe(topic.topic_name, partition, state, now_ms, is_fresh=broker.feed.is_fresh())
                for partition in topic.partitions
            ),
        )
        for topic in request.newest().topics
    )
    return request.respond(
        DescribeQuorumResponse(
            error_code=ErrorCode.none,
            error_message=None,
            topics=topics,
            nodes=tuple(_node(member) for member in state.controllers.values()),
        )
    )


def _describe(topic: str, partition: Any, state: ClusterState, now_ms: int, *, is_fresh: bool) -> PartitionData:
    index = partition.partition_index
    leader = state.controller
    if topic != METADATA_TOPIC or index != METADATA_PARTITION:
        return _refusal(index, ErrorCode.unknown_topic_or_partition, f"Only {METADATA_TOPIC}-0 has a quorum.")
    if not is_fresh:
        return _refusal(index, ErrorCode.request_timed_out, STALE)
    if leader is None:
        return _refusal(index, ErrorCode.leader_not_available, "No controller leads at present.")
    revision = i64(state.revision)
    return PartitionData(
        partition_index=index,
        error_code=ErrorCode.none,
        error_message=None,
        leader_id=BrokerId(leader.id),
        leader_epoch=i32(min(leader.epoch, INT32_MAX)),
        high_watermark=revision,
        current_voters=tuple(
            ReplicaState(
                replica_id=BrokerId(controller_id),
                replica_directory_id=None,
                log_end_offset=revision,
                last_fetch_timestamp=UNKNOWN,
                last_caught_up_timestamp=i64(now_ms) if controller_id == leader.id else UNKNOWN,
            )
            for controller_id in _leader_first(leader.id, state.controllers)
        ),
        observers=(),
    )


def _leader_first(leader_id: int, controllers: Iterable[int]) -> list[int]:
    """Return the voters; Kafka's tool takes the first of those that are equally far for the one furthest behind."""
    return [leader_id, *sorted(set(controllers) - {leader_id})]


def _refusal(index: i32, error: ErrorCode, message: str) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        error_message=message,
        leader_id=BrokerId(NO_LEADER),
        leader_epoch=i32(NO_EPOCH),
        high_watermark=UNKNOWN,
        current_voters=(),
        observers=(),
    )


def _node(member: Member) -> Node:
    host, port = parse_address(member.rpc_address)
    return Node(
        node_id=BrokerId(member.id),
        listeners=(Listener(name=CONTROLLER_LISTENER, host=host, port=u16(port)),),
    )
