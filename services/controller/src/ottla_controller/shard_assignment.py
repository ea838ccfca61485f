"""Which coordinator owns which shard, that is, which partition of a sharded topic. Pure.

Each topic is shared out by itself, as its shards cost as much as each other, and those of another topic may not.

A coordinator owns a shard under the registration that it was given it with. So a shard changes when its owner is not
registered any more, or is registered under another epoch (it was away, and back before anybody looked: it has
forgotten the shard, and keeps it as a new owner would). To take a shard over costs its new owner the reading of it.
Hence shards move only from an owner that has gone, or to even out: then all coordinators own equally many, or one
more, and as few shards move as that allows.

Each change is a new ownership with a later producer epoch, or with a new producer id once an id's epochs have run
out. The new owner writes a batch under it before it reads the shard, and from then on the log refuses the former one.
An etcd that was restored from a backup counts epochs anew which the log has seen already. Then the log refuses the
owner, and that registers anew with the epoch that it was refused for: the next ownership's is later.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ottla_core.cluster.state.model import NO_COORDINATOR, NO_EPOCH, ClusterState, Member, Shard, Topic
from ottla_core.shards import SHARDED_TOPICS, TRANSACTION_TOPIC
from ottla_core.topic_partition import TopicPartition

NO_PRODUCER_ID = -1
PRODUCER_EPOCH_MAX = 2**15 - 1

Coordinators = Mapping[int, Member]


def needs_examination(former: ClusterState | None, new: ClusterState) -> bool:
    """Return whether a change of state can have made an assignment wrong."""
    return (
        former is None
        or former.coordinators is not new.coordinators
        or former.shards is not new.shards
        or former.features is not new.features
        or any(former.topics.get(topic) is not new.topics.get(topic) for topic in SHARDED_TOPICS)
    )


def sharded_topics(state: ClusterState) -> list[Topic]:
    """Return the topics of which coordinators are to own partitions.

    Those of `__transaction_state` are owned from the level on at which every coordinator knows them: one of before
    would take them for partitions of `__consumer_offsets`. Until then it is a topic like others, if there is one.
    """
    return [
        state.topics[name]
        for name in SHARDED_TOPICS
        if name in state.topics and (name != TRANSACTION_TOPIC or state.features.has_transactions)
    ]


def reassigned_shards(
    topic: str, shard_count: int, shards: Mapping[TopicPartition, Shard], coordinators: Coordinators
) -> list[Shard]:
    """Return the shards of a topic to write, as they shall be.

    They keep the `revision` of those they replace, for compare-and-set. Those that need a producer id that was never
    used have `NO_PRODUCER_ID`; see `with_producer_ids`. A shard that never had an owner stays unwritten until there
    is one.

    Args:
        topic: one that is sharded.
        shard_count: how many partitions it has.
        shards: those of all topics as they are.
        coordinators: the live ones.
    """
    present = {index: shard for (its_topic, index), shard in shards.items() if its_topic == topic}
    owners = _owners(shard_count, present, coordinators)
    epoch_floor = max((coordinator.producer_epoch_floor for coordinator in coordinators.values()), default=-1)
    changed: list[Shard] = []
    for index, owner in enumerate(owners):
        shard = present.get(index)
        epoch = coordinators[owner].epoch if owner != NO_COORDINATOR else NO_EPOCH
        if shard is None:
            if owner != NO_COORDINATOR:
                changed.append(_first_ownership(TopicPartition(topic, index), owner, epoch))
        elif (shard.coordinator, shard.coordinator_epoch) != (owner, epoch):
            changed.append(_next_ownership(shard, owner, epoch, epoch_floor))
    return changed


def with_producer_ids(shards: Iterable[Shard], producer_ids: Sequence[int]) -> list[Shard]:
    """Return the shards with the ids filled in, of which there must be one for each `NO_PRODUCER_ID`."""
    remaining = iter(producer_ids)
    return [
        replace(shard, producer_id=next(remaining)) if shard.producer_id == NO_PRODUCER_ID else shard
        for shard in shards
    ]


def _first_ownership(topic_partition: TopicPartition, owner: int, owner_epoch: int) -> Shard:
    return Shard(
        topic_partition=topic_partition,
        coordinator=owner,
        coordinator_epoch=owner_epoch,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=0,
    )


def _next_ownership(shard: Shard, owner: int, owner_epoch: int, epoch_floor: int) -> Shard:
    moved = replace(shard, coordinator=owner, coordinator_epoch=owner_epoch)
    last_epoch = max(shard.producer_epoch, epoch_floor)
    if last_epoch >= PRODUCER_EPOCH_MAX:
        return replace(moved, producer_id=NO_PRODUCER_ID, producer_epoch=0)
    return replace(moved, producer_epoch=last_epoch + 1)


def _owners(shard_count: int, present: Mapping[int, Shard], coordinators: Coordinators) -> list[int]:
    """Return the id of each shard's owner by index; `NO_COORDINATOR` for all if no coordinator is live."""
    if not coordinators:
        return [NO_COORDINATOR] * shard_count
    owned: dict[int, list[int]] = {coordinator: [] for coordinator in coordinators}
    homeless: list[int] = []
    for index in range(shard_count):
        shard = present.get(index)
        owned.get(shard.coordinator if shard else NO_COORDINATOR, homeless).append(index)
    shares = _shares(shard_count, {coordinator: len(indexes) for coordinator, indexes in owned.items()})
    for coordinator, indexes in owned.items():
        # What its owner has to read again in any case costs nothing to move, so it is what stays last.
        epoch = coordinators[coordinator].epoch
        indexes.sort(key=lambda index: (present[index].coordinator_epoch != epoch, index))
        homeless += indexes[shares[coordinator] :]
        del indexes[shares[coordinator] :]
    for index in sorted(homeless):
        with_room = [coordinator for coordinator in owned if len(owned[coordinator]) < shares[coordinator]]
        owned[min(with_room, key=lambda coordinator: (len(owned[coordinator]), coordinator))].append(index)
    owner_of = {index: coordinator for coordinator, indexes in owned.items() for index in indexes}
    return [owner_of[index] for index in range(shard_count)]


def _shares(shard_count: int, owned_count: Mapping[int, int]) -> dict[int, int]:
    """Return how many shards each coordinator shall own: those that own most now get what does not divide evenly."""
    share, remainder = divmod(shard_count, len(owned_count))
    by_size = sorted(owned_count, key=lambda coordinator: (-owned_count[coordinator], coordinator))
    return {coordinator: share + (rank < remainder) for rank, coordinator in enumerate(by_size)}
