"""Offsets in transactions against a model that compares positions, whatever ends when, is loaded or compacted."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.offset_delete.v0.request import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic

from ottla_core.wire import group_responses as api
from ottla_core.wire.conversion import message_of
from ottla_core.wire.transaction_responses import TXN_OFFSET_COMMIT
from ottla_group_coordinator.records import OffsetCommitKey, decode_key
from ottla_group_coordinator.runtime.turn import TransactionProducer, VerificationGuard
from tests.support.groups.shard_under_test import (
    InTransaction,
    Marked,
    ShardUnderTest,
    Stored,
    cluster_of,
    commit_request,
)
from tests.support.groups.transactional_offsets import Producer, end, txn_commit, txn_commit_request

GROUPS, PRODUCERS, PARTITIONS = ("g", "g", "g", "h"), (70, 71), (0, 0, 1)
Place = tuple[str, int]


@dataclass
class Model:
    """What Kafka's OffsetMetadataManager keeps: each offset with the position of its record."""

    position: int = 0
    offsets: dict[Place, tuple[int, int]] = field(default_factory=dict)
    pending: dict[int, dict[Place, tuple[int, int]]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)

    def commit(self, place: Place, offset: int) -> None:
        self.position += 1
        self.offsets[place] = self.position, offset

    def write(self, producer_id: int, place: Place, offset: int) -> None:
        self.position += 1
        self.pending.setdefault(producer_id, {})[place] = self.position, offset

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        for place, written in self.pending.pop(producer_id, {}).items():
            if is_commit and written > self.offsets.get(place, (0, 0)):
                self.offsets[place] = written

    def forget(self, place: Place) -> None:
        self.offsets.pop(place, None)
        for pending in self.pending.values():
            pending.pop(place, None)

    def unstable(self) -> set[Place]:
        return {place for pending in self.pending.values() for place in pending}


@dataclass
class World:
    """The shard beside the model.

    Attributes:
        guards: that were answered and not used.
        void: those of them that do not stand any more.
    """

    shard: ShardUnderTest = field(default_factory=lambda: ShardUnderTest(state=cluster_of({"orders": (1, 2)})))
    model: Model = field(default_factory=Model)
    guards: dict[Producer, int] = field(default_factory=dict)
    void: set[int] = field(default_factory=set)
    offset: int = 0

    def producer(self, id_: int) -> Producer:
        return Producer(id_, self.model.epochs.get(id_, 0))

    def make_void(self, producer_ids: Iterable[int]) -> None:
        """Take note that transactions have ended, or begun, so that guards do not stand any more."""
        self.void |= {guard for producer, guard in self.guards.items() if producer.id in producer_ids}

    def is_open(self, producer: Producer) -> bool:
        """Whether the shard knows a transaction of the producer."""
        return self.shard.shard.transaction_producers.is_open(TransactionProducer(*producer))

    def check(self) -> None:
        """Both agree on offsets, and on what is not settled."""
        offsets, pending = self.shard.shard.offsets, self.shard.shard.pending_offsets
        found = {
            (group, place[1]): value.offset
            for group in offsets.group_ids
            for place, value in offsets.of_group(group).items()
        }
        assert found == {place: offset for place, (_, offset) in self.model.offsets.items()}
        assert {(group, place[1]) for group in pending.group_ids for place in pending.of_group(group)} == (
            self.model.unstable()
        )


def commit(world: World, group: str, _producer_id: int, partition: int, _flag: bool) -> None:
    world.offset += 1
    request = commit_request(9, group, {("orders", partition): world.offset})
    world.shard.ask(api.OFFSET_COMMIT, 9, request)
    world.model.commit((group, partition), world.offset)


def write(world: World, group: str, producer_id: int, partition: int, _flag: bool) -> None:
    world.offset += 1
    place = "orders", partition
    assert txn_commit(world.shard, world.producer(producer_id), group, {place: world.offset}) == {place: "none"}
    world.model.write(producer_id, (group, partition), world.offset)
    world.make_void([producer_id])


def begin(world: World, group: str, producer_id: int, partition: int, _flag: bool) -> None:
    """A broker asks for a guard, which it may use later, or never."""
    producer = world.producer(producer_id)
    request = txn_commit_request(producer, group, {("orders", partition): 0})
    if not world.is_open(producer):
        answer = world.shard.ask(TXN_OFFSET_COMMIT, 5, request)
        assert isinstance(answer, VerificationGuard)
        world.guards[producer] = answer.number


def use_guard(world: World, group: str, producer_id: int, partition: int, _flag: bool) -> None:
    """A broker comes back with a guard, late as may be: it is taken only where nothing has ended since."""
    producer = world.producer(producer_id)
    if producer not in world.guards:
        return
    world.offset += 1
    request = txn_commit_request(producer, group, {("orders", partition): world.offset})
    guard = world.guards.pop(producer)
    is_taken = world.is_open(producer) or guard not in world.void
    answer = world.shard.ask(TXN_OFFSET_COMMIT, 5, request, verification_guard=guard)
    assert isinstance(answer, VerificationGuard) != is_taken
    if is_taken:
        world.model.write(producer_id, (group, partition), world.offset)


def end_raising(world: World, _group: str, producer_id: int, _partition: int, is_commit: bool) -> None:
    former = world.producer(producer_id)
    following = Producer(producer_id, former.epoch + 1)
    assert end(world.shard, (following, is_commit)) == ["none"]
    world.model.epochs[producer_id] = following.epoch
    world.model.end(producer_id, is_commit=is_commit)
    world.make_void([producer_id])
    stale = txn_commit(world.shard, former, "g", {("orders", 0): 1_000_000})
    assert stale == {("orders", 0): "invalid_producer_epoch"}


def end_legacy(world: World, _group: str, producer_id: int, _partition: int, is_commit: bool) -> None:
    producer = world.producer(producer_id)
    assert end(world.shard, (producer, is_commit), transaction_version=1) == ["none"]
    world.model.end(producer_id, is_commit=is_commit)
    world.make_void([producer_id])


def mark_late(world: World, _group: str, producer_id: int, _partition: int, is_commit: bool) -> None:
    """The marker of the transaction before comes again."""
    producer = world.producer(producer_id)
    if producer.epoch:
        expected = "invalid_producer_epoch" if world.is_open(producer) else "none"
        assert end(world.shard, (producer, is_commit)) == [expected]


def delete(world: World, group: str, _producer_id: int, partition: int, _flag: bool) -> None:
    topics = (
        OffsetDeleteRequestTopic(
            name="orders", partitions=(OffsetDeleteRequestPartition(partition_index=partition),)
        ),
    )
    world.shard.ask_with(api.OFFSET_DELETE, 0, group_id=group, topics=topics)
    world.model.forget((group, partition))


def delete_group(world: World, group: str, _producer_id: int, _partition: int, _flag: bool) -> None:
    request = message_of(load_request_schema(api.DELETE_GROUPS, 2), groups_names=(group,))
    world.shard.ask(api.DELETE_GROUPS, 2, request)
    for partition in set(PARTITIONS):
        world.model.forget((group, partition))


def restart(world: World, _group: str, _producer_id: int, _partition: int, is_compacted: bool) -> None:
    if is_compacted:
        world.shard.log = compacted(world.shard.log)
    world.shard.restart()
    world.make_void(PRODUCERS)


def compacted(log: list[Stored]) -> list[Stored]:
    """What compaction leaves: the last record of each key, up to the first transaction that is open.

    Records of aborted transactions go, and markers none of whose records are left, unless they are the last that
    tells of their producer's epoch.
    """
    decided: dict[int, tuple[int, bool]] = {}
    open_: dict[int, list[int]] = {}
    last_of_producer: dict[int, int] = {}
    for number, stored in enumerate(log):
        if isinstance(stored, InTransaction):
            open_.setdefault(stored.producer.id, []).append(number)
            last_of_producer[stored.producer.id] = number
        elif isinstance(stored, Marked):
            producer_id = stored.marker.producer_id
            last_of_producer[producer_id] = number
            decided |= dict.fromkeys(open_.pop(producer_id, []), (number, stored.marker.is_commit))
    end_ = min((numbers[0] for numbers in open_.values()), default=len(log))
    last: dict[bytes, int] = {}
    for number, stored in enumerate(log[:end_]):
        if not isinstance(stored, Marked) and decided.get(number, (0, True))[1]:
            last[stored[0]] = number
    kept = set(last.values())
    needed = {decided[number][0] for number in kept if number in decided} | set(last_of_producer.values())
    return [
        stored
        for number, stored in enumerate(log)
        if number >= end_ or number in kept or (isinstance(stored, Marked) and number in needed)
    ]


EVENTS = (
    commit, write, write, write, begin, use_guard, end_raising, end_legacy, mark_late, delete, delete_group, restart,
)  # fmt: skip
steps = st.lists(
    st.tuples(
        st.sampled_from(EVENTS),
        st.sampled_from(GROUPS),
        st.sampled_from(PRODUCERS),
        st.sampled_from(PARTITIONS),
        st.booleans(),
    ),
    max_size=60,
)


@given(steps)
def test_the_last_record_wins_that_counts_and_the_log_tells_all_of_it(happening: list[Any]) -> None:
    check_history(happening)


@pytest.mark.parametrize("seed", range(8))
def test_so_it_is_in_long_histories(seed: int) -> None:
    source = random.Random(seed)
    check_history(
        [
            (source.choice(EVENTS), source.choice(GROUPS), source.choice(PRODUCERS), source.choice(PARTITIONS), flag)
            for flag in source.choices((True, False), k=200)
        ]
    )


def check_history(happening: list[Any]) -> None:
    """Let events happen to a shard and to the model."""
    world = World()
    for event, *arguments in happening:
        event(world, *arguments)
        world.check()
        world.model.epochs |= {
            producer_id: state.epoch
            for producer_id in PRODUCERS
            if (state := world.shard.shard.transaction_producers.get(producer_id)) is not None
        }
    live = describe(world.shard.shard)
    world.shard.restart()
    assert describe(world.shard.shard) == live
    world.shard.log = compacted(world.shard.log)
    world.shard.restart()
    assert describe(world.shard.shard)[:2] == live[:2]


def describe(shard: Any) -> tuple[Any, ...]:
    """What a shard knows of offsets and transactions."""
    offsets = {group: dict(shard.offsets.of_group(group)) for group in shard.offsets.group_ids}
    pending = {
        group: {
            place: (set(ids), list(shard.pending_offsets.values_of(group, place))) for place, ids in places.items()
        }
        for group in shard.pending_offsets.group_ids
        for places in (shard.pending_offsets.of_group(group),)
    }
    return offsets, pending, {id_: shard.transaction_producers.get(id_) for id_ in PRODUCERS}


def test_compaction_in_the_model_keeps_what_counts() -> None:
    world = World()
    for event, producer_id, flag in (
        (commit, 70, True),
        (write, 70, True),
        (end_raising, 70, False),
        (commit, 70, True),
    ):
        event(world, "g", producer_id, 0, flag)
    kept = compacted(world.shard.log)
    assert [type(stored) for stored in kept] == [Marked, tuple]
    key = decode_key(kept[1][0])  # type: ignore[arg-type]
    assert isinstance(key, OffsetCommitKey)
