"""What the brokers of a cluster say about it, as plain values. Source: Kafka's Metadata API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

NO_TOPIC_ID = UUID(int=0)
"""The id of a topic of a cluster that is older than topic ids (Kafka 2.8)."""
NO_CONTROLLER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """Where a broker is reached."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """A partition as a broker knows it.

    Attributes:
        leader: the leader's id, -1 if there is none.
        leader_epoch: -1 where the cluster is older than Kafka 2.1.
        replicas: the ids of the brokers that hold it.
        error: why there is no leader, if there is none.
    """

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """A topic as a broker knows it.

    Attributes:
        error: `none`, or why nothing else is known: the topic does not exist, or may not be seen.
        partitions: by their index.
    """

    name: str
    id: UUID
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata]
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """A cluster as one of its brokers knows it.

    Attributes:
        cluster_id: "" where the broker does not say it.
        controller: whom to ask for changes (a broker, which forwards them, in clusters without ZooKeeper), or
            `NO_CONTROLLER`.
        brokers: the live ones, by id.
        topics: those that were asked for, by name.
    """

    cluster_id: str
    controller: int
    brokers: Mapping[int, BrokerAddress]
    topics: Mapping[str, TopicMetadata]


def cluster_metadata(response: Any) -> ClusterMetadata:
    """Return what a response of the newest class says."""
    brokers = {
        int(each.node_id): BrokerAddress(id=int(each.node_id), host=each.host, port=int(each.port))
        for each in response.brokers
    }
    topics = {each.name: _topic(each) for each in response.topics if each.name is not None}
    return ClusterMetadata(
        cluster_id=response.cluster_id or "", controller=int(response.controller_id), brokers=brokers, topics=topics
    )


def _topic(topic: Any) -> TopicMetadata:
    partitions = {
        int(each.partition_index): PartitionMetadata(
            index=int(each.partition_index),
            leader=int(each.leader_id),
            leader_epoch=int(each.leader_epoch),
            replicas=tuple(int(replica) for replica in each.replica_nodes),
            error=each.error_code,
        )
        for each in topic.partitions
    }
    return TopicMetadata(
        name=topic.name,
        id=topic.topic_id or NO_TOPIC_ID,
        is_internal=topic.is_internal,
        partitions=partitions,
        error=topic.error_code,
    )
