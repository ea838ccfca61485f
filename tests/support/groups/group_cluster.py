"""Cluster states with coordinators and shards, and a feed that shows them to a broker."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from ottla_core.cluster.state.features import FinalizedFeatures, newest_features
from ottla_core.cluster.state.model import ClusterState, Endpoint, Member, PartitionState, Role, Shard, Topic
from ottla_core.shards import GROUP_TOPIC, TRANSACTION_TOPIC
from ottla_core.topic_partition import TopicPartition

BROKER = 1
BROKER_EPOCH = 70
LISTENER = "PLAINTEXT"
PRODUCER_ID = 1000
GROUP_TOPIC_ID = UUID(int=99)
TRANSACTION_TOPIC_ID = UUID(int=98)

Listener = Callable[[ClusterState, ClusterState], None]


class StatedFeed:
    """Stands for the watch on etcd: the test says what the state is, and whether etcd confirms it."""

    def __init__(self, state: ClusterState, *, fresh: bool = True) -> None:
        self.state = state
        self._fresh = fresh
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def is_fresh(self) -> bool:
        return self._fresh

    def publish(self, **changes: Any) -> None:
        former = self.state
        self.state = replace(former, revision=former.revision + 1, **changes)
        for listener in tuple(self._listeners):
            listener(former, self.state)


def broker_member(broker_id: int, *, epoch: int = BROKER_EPOCH, listener: str = LISTENER) -> Member:
    """A broker that clients reach at a port that tells its id."""
    return Member(
        role=Role.BROKER,
        id=broker_id,
        epoch=epoch,
        incarnation=UUID(int=broker_id),
        rpc_address="127.0.0.1:1",
        version="test",
        endpoints=(Endpoint(listener=listener, host=f"host-{broker_id}", port=9000 + broker_id),),
    )


def group_topic(shard_count: int) -> Topic:
    """`__consumer_offsets`, led by the broker."""
    partitions = tuple(
        PartitionState(
            topic_id=GROUP_TOPIC_ID,
            index=index,
            replicas=(BROKER,),
            isr=(BROKER,),
            leader=BROKER,
            leader_epoch=0,
            leader_broker_epoch=BROKER_EPOCH,
        )
        for index in range(shard_count)
    )
    return Topic(name=GROUP_TOPIC, id=GROUP_TOPIC_ID, partitions=partitions)


def group_shard(index: int) -> TopicPartition:
    """The name of a shard of groups."""
    return TopicPartition(GROUP_TOPIC, index)


def shards_of(owners: Iterable[Member], shard_count: int, *, producer_epoch: int = 0) -> dict[TopicPartition, Shard]:
    """Every shard with an owner, in turn."""
    members = tuple(owners)
    return {
        group_shard(index): Shard(
            topic_partition=group_shard(index),
            coordinator=members[index % len(members)].id,
            coordinator_epoch=members[index % len(members)].epoch,
            producer_id=PRODUCER_ID + index,
            producer_epoch=producer_epoch,
        )
        for index in range(shard_count)
    }


def group_state(*coordinators: Member, shard_count: int = 4, brokers: Iterable[int] = (BROKER,)) -> ClusterState:
    """A cluster in which these coordinators own the shards."""
    topic = group_topic(shard_count)
    return ClusterState(
        revision=1,
        brokers={broker_id: broker_member(broker_id) for broker_id in brokers},
        coordinators={member.id: member for member in coordinators},
        topics={topic.name: topic},
        topics_by_id={topic.id: topic},
        shards=shards_of(coordinators, shard_count) if coordinators else {},
    )


def with_transactions(state: ClusterState, *owners: Member, shard_count: int = 2, **more: Any) -> ClusterState:
    """The same cluster at the newest level of features, with `__transaction_state` and owners of its shards."""
    partitions = tuple(replace(each, topic_id=TRANSACTION_TOPIC_ID) for each in group_topic(shard_count).partitions)
    topic = Topic(name=TRANSACTION_TOPIC, id=TRANSACTION_TOPIC_ID, partitions=partitions)
    members = owners or tuple(state.coordinators.values())
    shards = {
        TopicPartition(TRANSACTION_TOPIC, shard.partition): replace(
            each, topic_partition=TopicPartition(TRANSACTION_TOPIC, shard.partition)
        )
        for shard, each in shards_of(members, shard_count).items()
    }
    return replace(
        state,
        features=FinalizedFeatures(levels=newest_features(), epoch=1),
        coordinators={**state.coordinators, **{member.id: member for member in members}},
        topics={**state.topics, topic.name: topic},
        topics_by_id={**state.topics_by_id, topic.id: topic},
        shards={**state.shards, **shards},
        **more,
    )
