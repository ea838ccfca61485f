"""Offsets in transactions, from a broker's stream to the log and back: stored once and in order, and loaded again."""

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest

from ottla_core.wire.control_records import TransactionMarker, marker_batch
from ottla_core.wire.record_batch import (
    BATCH_LENGTH_MIN,
    NO_SEQUENCE,
    RecordBatchHeader,
    pack_header,
    parse_header,
)
from ottla_core.wire.records import Record, encode_batch
from tests.support.eventually_async import eventually_async
from tests.support.groups.coordinator_under_test import (
    FLIGHTS,
    CoordinatorUnderTest,
    assign,
    commit,
    commit_code,
    committed,
    fetch,
    fetched,
    shard_of,
)
from tests.support.groups.fake_relay_broker import FakeRelayBroker
from tests.support.groups.group_cluster import BROKER_EPOCH, StatedFeed, group_shard
from tests.support.groups.transactional_offsets import (
    NEWEST,
    NEWEST_MARKERS,
    A,
    B,
    Producer,
    marker_codes,
    markers_request,
    txn_commit_request,
)

Start = Callable[..., Any]
NOW_MS = 1_700_000_000_000


@pytest.fixture
async def coordinator(start: Start) -> CoordinatorUnderTest:
    coordinator: CoordinatorUnderTest = await start()
    return coordinator


@pytest.fixture
async def broker(feed: StatedFeed, coordinator: CoordinatorUnderTest, connect: Start) -> FakeRelayBroker:
    """A broker at which shard 0 is served."""
    broker: FakeRelayBroker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    return broker


def request_of(producer: Producer, group: str, offset: int, partition: int = 0) -> Any:
    return txn_commit_request(producer, group, {(FLIGHTS.name, partition): offset})


async def write(broker: FakeRelayBroker, producer: Producer, group: str, offset: int, partition: int = 0) -> None:
    """Commit in a transaction as a broker has it done the first time."""
    request = request_of(producer, group, offset, partition)
    guard = await broker.ask_later(0, NEWEST, request).guard()
    assert commit_code(await broker.ask(0, NEWEST, request, verification_guard=guard)) == "none"


def markers(*ends: tuple[Producer, bool], **values: Any) -> Any:
    return markers_request(*ends, partitions=(0,), **values)


async def end(broker: FakeRelayBroker, producer: Producer, *, is_commit: bool = True) -> list[str]:
    following = Producer(producer.id, producer.epoch + 1)
    return marker_codes(await broker.ask(0, NEWEST_MARKERS, markers((following, is_commit))))


async def ask_together(broker: FakeRelayBroker, coordinator: CoordinatorUnderTest, *requests: Any) -> list[Any]:
    """Ask while another round is being stored, so that all are taken in the next; return the responses."""
    broker.appends.clear()
    count = broker.append_count
    first = broker.ask_later(0, 8, commit("other", 1))
    await eventually_async(lambda: broker.append_count > count, "a round is being stored")
    runtime = coordinator.coordinator.shards.get(group_shard(0))
    assert runtime is not None
    asked = [broker.ask_later(0, request.__version__, request) for request in requests]
    await eventually_async(lambda: len(runtime._queue) == len(asked), "the requests wait for the next round")
    broker.appends.set()
    assert commit_code(await first.response()) == "none"
    return [await each.response() for each in asked]


def kinds(broker: FakeRelayBroker) -> list[str]:
    """The batches of the log behind the fence."""
    return [kind_of(header) for header, _ in broker.logs[0].batches[1:]]


def kind_of(header: RecordBatchHeader) -> str:
    if header.is_transactional:
        assert header.base_sequence == NO_SEQUENCE
        return f"{'marker' if header.is_control else 'records'} {header.producer_id}:{header.producer_epoch}"
    return "own" if header.record_count else "empty"


async def test_an_offset_counts_once_its_transaction_is_committed(broker: FakeRelayBroker) -> None:
    await write(broker, A, "group", 5)
    assert await committed(broker, "group") == {}
    assert await end(broker, A) == ["none"]
    assert await committed(broker, "group") == {0: 5}
    assert kinds(broker) == ["records 70:0", "empty", "marker 70:1", "empty"]


async def test_all_is_appended_in_the_order_in_which_it_was_decided(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest
) -> None:
    for producer in (A, B):
        await write(broker, producer, "group", 1)
    written = len(kinds(broker))
    await ask_together(
        broker,
        coordinator,
        request_of(A, "group", 2),
        request_of(A, "group", 3),
        request_of(B, "group", 4),
        commit("other", 2),
        commit("other", 3),
        request_of(B, "group", 5),
        markers((Producer(A.id, 1), True)),
    )

    assert kinds(broker)[written:] == [
        "own", "records 70:0", "records 71:0", "own", "records 71:0", "marker 70:1", "empty",
    ]  # fmt: skip
    assert [header.record_count for header, _ in broker.logs[0].batches[1 + written :]] == [1, 2, 1, 2, 1, 1, 0]
    assert await committed(broker, "group") == {0: 3}


async def test_an_append_whose_answer_was_lost_is_stored_once(
    feed: StatedFeed, coordinator: CoordinatorUnderTest
) -> None:
    broker = FakeRelayBroker(1, BROKER_EPOCH)
    assign(feed, shard_of(coordinator))
    async with broker.connected(coordinator.address):
        await coordinator.serves()
        await write(broker, A, "group", 5)
        broker.answers_appends = False
        asked = broker.ask_later(0, NEWEST_MARKERS, markers((Producer(A.id, 1), True)))
        await eventually_async(lambda: "marker 70:1" in kinds(broker), "the marker is stored")
        assert not asked.is_answered
    broker.answers_appends = True
    async with broker.connected(coordinator.address):
        assert await committed(broker, "group") == {0: 5}
        assert await end(broker, A) == ["none"], "the coordinator of the transaction asks again"
    assert kinds(broker) == ["records 70:0", "empty", "marker 70:1", "empty"]


@pytest.mark.parametrize("cut_after", [0, 1, 2, 3])
async def test_an_append_that_was_cut_off_comes_to_the_same_when_it_is_repeated(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest, feed: StatedFeed, cut_after: int
) -> None:
    for producer, partition in ((A, 0), (B, 1)):
        await write(broker, producer, "group", 1, partition)
    broker.cut_after = cut_after
    responses = await ask_together(
        broker,
        coordinator,
        markers((Producer(A.id, 1), True)),
        request_of(B, "group", 4, 1),
        request_of(B, "group", 5, 1),
        markers((Producer(B.id, 1), True)),
        commit("other", 2),
    )
    assert broker.cut_after is None

    assert marker_codes(responses[0]) == marker_codes(responses[3]) == ["none"]
    expected = {"group": {0: 1, 1: 5}, "other": {0: 2}}
    assert {group: await committed(broker, group) for group in expected} == expected
    assign(feed, shard_of(coordinator, producer_epoch=1))
    await coordinator.serves()
    assert {group: await committed(broker, group) for group in expected} == expected


async def test_nothing_in_an_append_follows_what_has_ended_its_producers_transaction(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest
) -> None:
    await write(broker, A, "group", 1)
    former = len(kinds(broker))
    await ask_together(
        broker,
        coordinator,
        request_of(A, "group", 2),
        markers((Producer(A.id, 1), True)),
        markers((Producer(A.id, 2), False), (Producer(B.id, 0), False)),
    )

    assert kinds(broker)[former + 1 :] == [
        "records 70:0", "empty", "marker 70:1", "empty", "marker 70:2", "marker 71:0", "empty",
    ]  # fmt: skip


async def test_what_the_log_refuses_for_good_costs_the_round_and_no_more(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest
) -> None:
    await write(broker, A, "group", 5)
    broker.logs[0].transaction_epochs[B.id] = 9  # which no owner can know: the log has no batch of it
    ends = ((Producer(A.id, 1), True), (Producer(B.id, 3), True))
    assert marker_codes(await broker.ask(0, NEWEST_MARKERS, markers(*ends))) == ["unknown_server_error"] * 2
    await coordinator.serves()
    assert coordinator.sequences_lost == 0
    assert await committed(broker, "group") == {0: 5}, "the marker before the refused one is in the log"
    await write(broker, Producer(A.id, 1), "group", 6)
    assert kinds(broker) == ["records 70:0", "empty", "marker 70:1", "empty", "records 70:1", "empty"]


async def test_a_marker_that_is_there_already_is_confirmed_only_by_the_owner(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest
) -> None:
    await write(broker, A, "group", 5)
    await end(broker, A)
    reads = len(broker.read_offsets)
    assert await end(broker, A) == ["none"]
    assert len(broker.read_offsets) == reads + 1, "nobody else has written since"


async def test_the_next_owner_knows_pending_offsets_and_epochs_and_no_guards(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest, feed: StatedFeed
) -> None:
    await write(broker, A, "group", 5)
    await write(broker, B, "group", 6, 1)
    await end(broker, B)
    guard = await broker.ask_later(0, NEWEST, request_of(Producer(72), "group", 7)).guard()
    assign(feed, shard_of(coordinator, producer_epoch=1))
    await coordinator.serves()

    unstable = fetched(await broker.ask(0, 8, stable_fetch("group")))
    assert unstable == ("none", {1: 6}), "a partition that has nothing committed yet is not among all that have"
    asked = broker.ask_later(0, NEWEST, request_of(Producer(72), "group", 7), verification_guard=guard)
    assert await asked.guard() != guard
    again = await broker.ask_later(0, NEWEST, request_of(B, "group", 8)).guard()
    stale = await broker.ask(0, NEWEST, request_of(B, "group", 8), verification_guard=again)
    assert commit_code(stale) == "invalid_producer_epoch"
    assert commit_code(await broker.ask(0, NEWEST, request_of(A, "group", 9))) == "none", "its transaction is open"
    assert await end(broker, A) == ["none"]
    assert await committed(broker, "group") == {0: 9, 1: 6}


def stable_fetch(group: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=fetch(group).groups, require_stable=True)


async def test_batches_without_records_and_other_control_batches_are_loaded(
    feed: StatedFeed, coordinator: CoordinatorUnderTest, connect: Start
) -> None:
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    log = broker.logs[0]
    emptied = encode_batch([Record(0, NOW_MS, b"", None)], producer_id=70, producer_epoch=4, is_transactional=True)
    log.put(without_records(emptied))
    other = encode_batch(
        [Record(0, NOW_MS, b"\0\0\0\5", b"\0\0")],
        producer_id=71,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    damaged = encode_batch(
        [Record(0, NOW_MS, b"\0", b"")], producer_id=71, producer_epoch=0, is_transactional=True, is_control=True
    )
    log.put(other, damaged, without_records(marker_batch_of(72, 6)), marker_batch_of(73, 8))
    assign(feed, shard_of(coordinator))
    await coordinator.serves()

    runtime = coordinator.coordinator.shards.get(group_shard(0))
    assert runtime is not None
    assert runtime.shard is not None
    producers = runtime.shard.transaction_producers
    known = {
        id_: (state.epoch, state.is_open) for id_ in (70, 71, 72, 73) if (state := producers.get(id_)) is not None
    }
    assert known == {70: (4, False), 72: (6, False), 73: (8, False)}
    assert coordinator.coordinator.counts.unreadable_records == 1


def marker_batch_of(producer_id: int, epoch: int) -> bytes:
    marker = TransactionMarker(producer_id=producer_id, producer_epoch=epoch, is_commit=True, coordinator_epoch=0)
    return marker_batch(marker, NOW_MS)


def without_records(batch: bytes) -> bytes:
    """What compaction leaves of the last batch of a producer."""
    header = parse_header(batch)._replace(batch_length=BATCH_LENGTH_MIN, record_count=0)
    return pack_header(header, b"")
