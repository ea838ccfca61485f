"""From a stored end to a marker in every partition, over real streams, whatever brokers do and whoever is owner."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from structlog.testing import capture_logs

from ottla_core import background, slices
from ottla_core.cluster.state.model import NO_LEADER, Recovery, Topic
from ottla_core.shards import GROUP_TOPIC, TRANSACTION_TOPIC
from ottla_core.topic_partition import TopicPartition
from ottla_group_coordinator.markers import marker_messages, marker_sender
from ottla_group_coordinator.markers.marker_messages import Item, markers_write
from ottla_group_coordinator.markers.marker_sender import MarkerSender
from ottla_group_coordinator.markers.pending_end import PAUSE_MAX_MS, PendingEnd
from ottla_group_coordinator.runtime import shard_runtime
from ottla_group_coordinator.transactions.shard_state import NUMBER_MAX
from ottla_group_coordinator.transactions.transaction import Identity
from ottla_proto.gen.ottla import group_relay_pb2 as pb
from tests.support.eventually_async import eventually_async
from tests.support.groups.coordinator_under_test import CoordinatorUnderTest, assign, be_stuck, shard_of
from tests.support.groups.group_cluster import BROKER_EPOCH, StatedFeed, group_topic
from tests.support.transactions.marking_broker import Marker, MarkingBroker
from tests.support.transactions.transaction_scene import features, topic_of

Start = Callable[..., Any]
P0, P1, Q0 = TopicPartition("p", 0), TopicPartition("p", 1), TopicPartition("q", 0)
SHARD = TopicPartition(TRANSACTION_TOPIC, 0)
PAUSES = (20, 40, 80, 160, 320, PAUSE_MAX_MS)


@pytest.fixture
async def coordinator(feed: StatedFeed, start: Start) -> CoordinatorUnderTest:
    """A coordinator in a cluster with two topics, both led by broker 1."""
    transactions = replace(group_topic(2), name=TRANSACTION_TOPIC)
    topics = {topic.name: topic for topic in (transactions, topic_of("p", 2), topic_of("q", 1))}
    feed.publish(topics={**feed.state.topics, **topics}, features=features(2))
    coordinator: CoordinatorUnderTest = await start(settings={"offsets.commit.timeout.ms": 30_000})
    return coordinator


async def own(coordinator: CoordinatorUnderTest, feed: StatedFeed, producer_epoch: int = 0) -> None:
    """Let the coordinator own the shard."""
    assign(feed, shard_of(coordinator, topic=TRANSACTION_TOPIC, producer_epoch=producer_epoch))
    table = coordinator.coordinator.transaction_shards
    await eventually_async(
        lambda: (runtime := table.get(SHARD)) is not None and runtime.status.value == "serving", "the shard is served"
    )


@pytest.fixture
async def broker(feed: StatedFeed, coordinator: CoordinatorUnderTest, connect: Start) -> MarkingBroker:
    """The broker that leads everything."""
    broker: MarkingBroker = await connect(MarkingBroker(1, BROKER_EPOCH), coordinator)
    await own(coordinator, feed)
    return broker


async def begin(broker: MarkingBroker, *partitions: TopicPartition, id_: str = "t", producer_id: int = 7) -> Identity:
    identity = await broker.init(id_, producer_id)
    assert await broker.add(id_, identity, *partitions) == "none"
    return identity


async def completes(
    broker: MarkingBroker, state: str = "CompleteCommit", id_: str = "t", *, within_s: float = 30
) -> None:
    await eventually_async(lambda: broker.states(id_)[-1:] == [state], f"{id_} is {state}", within_s=within_s)


async def test_markers_leave_before_the_producer_is_told_that_the_end_is_decided(broker: MarkingBroker) -> None:
    identity = await begin(broker, P0)
    broker.arrived.clear()
    assert await broker.end("t", identity) == "none"
    assert broker.arrived == ["log_append", "markers_write", "group_response"]


async def test_that_a_transaction_is_complete_is_stored_with_what_the_producer_asks_next(
    broker: MarkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_runtime, "LINGER_S", 3600)
    identity = await begin(broker, P0)
    assert await broker.end("t", identity) == "none"
    await eventually_async(lambda: bool(broker.partitions.markers[P0]), "the marker is written")
    append_count = broker.append_count
    assert await broker.add("t", Identity(7, 1), P1) == "none"
    assert broker.append_count == append_count + 1
    assert broker.states("t")[-3:] == ["PrepareCommit", "CompleteCommit", "Ongoing"]


async def test_every_partition_gets_its_marker_and_the_transaction_is_complete(broker: MarkingBroker) -> None:
    identity = await begin(broker, P0, P1, Q0)
    assert await broker.end("t", identity) == "none"
    await completes(broker)

    expected = [Marker(7, 1, is_commit=True, number=1, version=2)]
    assert dict(broker.partitions.markers) == {P0: expected, P1: expected, Q0: expected}
    assert await broker.add("t", Identity(7, 1), P1) == "none"
    assert await broker.end("t", Identity(7, 1), committed=False) == "none"
    await completes(broker, "CompleteAbort")
    assert broker.partitions.markers[P1][-1] == Marker(7, 2, is_commit=False, number=1, version=2)


async def test_no_marker_is_sent_and_nothing_answered_before_the_end_is_stored(broker: MarkingBroker) -> None:
    identity = await begin(broker, P0)
    broker.appends.clear()
    count = broker.append_count
    ending = broker.end_later("t", identity)
    await eventually_async(lambda: broker.append_count > count, "the end is to be stored")
    assert (broker.marker_messages, ending.is_answered) == ([], False)

    broker.appends.set()
    assert (await ending.response()).error_code is ErrorCode.none
    await completes(broker)


async def test_the_client_is_answered_while_markers_are_on_their_way(broker: MarkingBroker) -> None:
    identity = await begin(broker, P0)
    broker.writes.clear()
    assert await broker.end("t", identity) == "none"
    adding = asyncio.create_task(broker.add("t", Identity(7, 1), P0))  # which waits for them
    broker.writes.set()
    assert await adding == "none"
    assert broker.states("t")[-2:] == ["CompleteCommit", "Ongoing"]


async def test_markers_of_many_transactions_travel_together(
    broker: MarkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marker_messages, "MARKERS_PER_MESSAGE_MAX", 20)
    monkeypatch.setattr(marker_sender, "MESSAGES_IN_FLIGHT_MAX", 2)
    identities = {
        f"t-{number}": await begin(broker, P0, id_=f"t-{number}", producer_id=number) for number in range(60)
    }
    broker.writes.clear()
    ended = [broker.end_later(id_, identity) for id_, identity in identities.items()]
    assert {(await each.response()).error_code for each in ended} == {ErrorCode.none}
    await eventually_async(lambda: len(broker.marker_messages) == 2, "the brokers has as many messages as it may")
    broker.writes.set()
    for id_ in identities:
        await completes(broker, id_=id_)
    assert max(broker.marker_messages) == 20
    assert len(broker.marker_messages) < 12
    assert len(broker.partitions.markers[P0]) == 60


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_server_error,
        ErrorCode.corrupt_message,
        ErrorCode.invalid_producer_epoch,
    ],
)
async def test_what_is_refused_is_sent_again(broker: MarkingBroker, error: ErrorCode) -> None:
    identity = await begin(broker, P0, P1)
    broker.marker_errors.extend([error, ErrorCode.none, error])
    assert await broker.end("t", identity) == "none"
    await completes(broker)
    assert {partition: len(markers) for partition, markers in broker.partitions.markers.items()} == {P0: 1, P1: 1}


async def test_a_partition_that_takes_too_long_holds_up_no_other_one(
    broker: MarkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marker_sender, "MESSAGES_IN_FLIGHT_MAX", 1)
    slow, both = await begin(broker, P0), await begin(broker, P0, Q0, id_="u", producer_id=8)
    other = await begin(broker, P1, id_="v", producer_id=9)
    broker.marker_errors.append(ErrorCode.request_timed_out)
    broker.slow.add(P0)
    assert await broker.end("t", slow) == "none"
    await eventually_async(lambda: not broker.marker_errors, "the partition was too slow once")
    assert await broker.end("u", both) == "none"
    assert await broker.end("v", other) == "none"
    await completes(broker, id_="v", within_s=10)
    await eventually_async(lambda: Q0 in broker.partitions.markers, "the other partition has its marker")
    assert broker.states("u")[-1] == "PrepareCommit"

    broker.slow_writes.set()
    await completes(broker)
    await completes(broker, id_="u")
    # In time again: what is next travels together.
    count = len(broker.marker_messages)
    next_one = Identity(8, both.epoch + 1)
    assert await broker.add("u", next_one, P0, Q0) == "none"
    assert await broker.end("u", next_one) == "none"
    await eventually_async(lambda: broker.states("u").count("CompleteCommit") == 2, "it is complete")
    assert len(broker.marker_messages) == count + 1


async def test_each_result_is_taken_for_the_partition_that_it_is_of(feed: StatedFeed, broker: MarkingBroker) -> None:
    feed.publish(topics={**feed.state.topics, "p": topic_of("p", 8), "q": topic_of("q", 8)})
    partitions = [TopicPartition(name, index) for index in range(8) for name in ("p", "q")]
    identity = await begin(broker, *partitions)
    broker.refused_once = {partition for partition in partitions if partition.topic == "q"}
    assert await broker.end("t", identity) == "none"
    await completes(broker)
    assert {name: len(broker.partitions.markers[name]) for name in partitions} == dict.fromkeys(partitions, 1)


@pytest.mark.parametrize("error", [ErrorCode.unsupported_for_message_format, ErrorCode.policy_violation])
async def test_a_partition_that_can_have_no_transaction_needs_no_marker(
    broker: MarkingBroker, error: ErrorCode
) -> None:
    identity = await begin(broker, P0)
    broker.marker_errors.append(error)
    assert await broker.end("t", identity) == "none"
    await completes(broker)
    assert not broker.partitions.markers


async def test_a_number_that_a_log_refuses_is_passed_by(broker: MarkingBroker) -> None:
    """As after a loss of the shard's newest records: the log of a partition remembers more."""
    broker.partitions.write(P0, Marker(7, 0, is_commit=True, number=50, version=2))
    identity = await begin(broker, P0)
    assert await broker.end("t", identity) == "none"
    await completes(broker)
    assert broker.partitions.markers[P0][-1].number >= 50


async def test_a_shard_serves_on_when_ownership_numbers_have_run_out(
    coordinator: CoordinatorUnderTest, feed: StatedFeed, broker: MarkingBroker
) -> None:
    runtime = coordinator.coordinator.transaction_shards.get(SHARD)
    assert runtime is not None
    assert runtime.shard is not None
    runtime.shard.ownership_number = NUMBER_MAX - 2
    broker.partitions.write(P0, Marker(7, 0, is_commit=True, number=NUMBER_MAX, version=0))
    identity = await begin(broker, P0)
    assert await broker.end("t", identity, version=3) == "none"
    await completes(broker)
    assert broker.partitions.markers[P0][-1].number == NUMBER_MAX

    await own(coordinator, feed, producer_epoch=1)
    assert await broker.add("t", identity, Q0) == "none"
    assert await broker.end("t", identity, version=3) == "none"
    await eventually_async(lambda: Q0 in broker.partitions.markers, "the next owner has sent its marker")


async def test_a_marker_says_which_topic_of_a_name_is_meant(feed: StatedFeed, broker: MarkingBroker) -> None:
    identity = await begin(broker, P0)
    broker.marker_errors.append(ErrorCode.inconsistent_topic_id)
    assert await broker.end("t", identity) == "none"
    await completes(broker)
    assert broker.topic_ids == [feed.state.topics["p"].id] * 2


@pytest.mark.parametrize("version", [3, 5])
async def test_a_marker_in_doubt_cannot_end_the_next_transaction(
    coordinator: CoordinatorUnderTest, feed: StatedFeed, broker: MarkingBroker, connect: Start, version: int
) -> None:
    """The stream ends before an answer. Where the epoch stays the same, what is sent again has a later number.

    So the log refuses the first marker, should it be written after the second.
    """
    identity = await begin(broker, P0)
    broker.answers_markers = False
    broker.writes.clear()
    assert await broker.end("t", identity, version=version) == "none"
    await eventually_async(lambda: broker.marker_messages, "the marker is on its way")
    # Another stream in place of the first one, whose markers are still to be written.
    successor = MarkingBroker(1, BROKER_EPOCH, broker.partitions)
    successor.logs, successor.other_logs = broker.logs, broker.other_logs
    await connect(successor, coordinator)
    await completes(broker)

    late = Marker(7, identity.epoch, is_commit=True, number=1, version=0)
    (written,) = broker.partitions.markers[P0]
    if version < 5:
        assert written == replace(late, number=2)
        assert broker.partitions.write(P0, late) is ErrorCode.transaction_coordinator_fenced
    else:
        assert written == Marker(7, identity.epoch + 1, is_commit=True, number=1, version=2)


async def test_a_new_leader_is_asked_though_the_former_one_never_answers(
    coordinator: CoordinatorUnderTest, feed: StatedFeed, broker: MarkingBroker, connect: Start
) -> None:
    identity = await begin(broker, P0, Q0)
    broker.writes.clear()
    assert await broker.end("t", identity) == "none"
    await eventually_async(lambda: broker.marker_messages, "the marker is on its way")
    other = await connect(MarkingBroker(2, BROKER_EPOCH), coordinator)
    feed.publish(topics={**feed.state.topics, "p": topic_of("p", 2, leader=2), "q": topic_of("q", 1, leader=2)})
    await completes(broker, within_s=marker_sender.ANSWER_TIMEOUT_S / 2)
    assert other.partitions.markers.keys() == {P0, Q0}


async def test_a_leader_without_a_stream_is_waited_for(
    coordinator: CoordinatorUnderTest, feed: StatedFeed, broker: MarkingBroker, connect: Start
) -> None:
    feed.publish(topics={**feed.state.topics, "p": topic_of("p", 2, leader=2)})
    identity = await begin(broker, P0, Q0)
    assert await broker.end("t", identity) == "none"
    await eventually_async(lambda: broker.partitions.markers.keys() == {Q0}, "the other partition has its marker")
    assert broker.states("t")[-1] == "PrepareCommit"
    other = await connect(MarkingBroker(2, BROKER_EPOCH), coordinator)
    await completes(broker)
    assert other.partitions.markers.keys() == {P0}


async def test_what_cannot_be_sent_is_tried_ever_less_often_whatever_else_is_written(
    coordinator: CoordinatorUnderTest, feed: StatedFeed, broker: MarkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.publish(topics={**feed.state.topics, "q": topic_of("q", 1, leader=NO_LEADER)})
    attempts = []

    def noted(pending: PendingEnd) -> list[TopicPartition]:
        if pending.order.end.transactional_id == "t":
            attempts.append(pending.pause_ms)
        return due(pending)

    due = PendingEnd.due
    monkeypatch.setattr(PendingEnd, "due", noted)
    stuck, other = await begin(broker, Q0), await begin(broker, P0, id_="u", producer_id=8)
    assert await broker.end("t", stuck) == "none"
    while PAUSE_MAX_MS not in attempts:
        assert await broker.end("u", other) == "none"
        await completes(broker, id_="u")
        other = Identity(8, other.epoch + 1)
        assert await broker.add("u", other, P0) == "none"
    assert len(set(attempts)) == len(PAUSES), "each attempt is later than the one before"
    assert attempts.index(PAUSE_MAX_MS) <= 2 * len(PAUSES)

    feed.publish(topics={**feed.state.topics, "q": topic_of("q", 1)})
    await completes(broker)


async def test_many_ends_that_are_due_at_once_leave_time_to_others(
    coordinator: CoordinatorUnderTest, feed: StatedFeed, broker: MarkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.publish(topics={**feed.state.topics, "q": topic_of("q", 1, leader=NO_LEADER)})
    ids = [f"t-{number}" for number in range(8)]
    identities = [await begin(broker, Q0, id_=id_, producer_id=number) for number, id_ in enumerate(ids)]
    for id_, identity in zip(ids, identities, strict=True):
        assert await broker.end(id_, identity) == "none"
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0)
    turn, turns = 0, []

    def noted(sender: MarkerSender, pending: PendingEnd) -> None:
        turns.append(turn)
        queue(sender, pending)

    queue = MarkerSender._queue
    monkeypatch.setattr(MarkerSender, "_queue", noted)
    feed.publish(topics={**feed.state.topics, "q": topic_of("q", 1)})
    while len(turns) < len(ids) and turn < 10_000:
        turn += 1
        await asyncio.sleep(0)
    assert len(set(turns[: len(ids)])) == len(ids), "one at a time"
    for id_ in ids:
        await completes(broker, id_=id_)


async def test_any_broker_takes_the_markers_of_groups(
    coordinator: CoordinatorUnderTest, feed: StatedFeed, broker: MarkingBroker
) -> None:
    groups = feed.state.topics[GROUP_TOPIC]
    led_elsewhere = tuple(replace(each, leader=9) for each in groups.partitions)
    feed.publish(topics={**feed.state.topics, GROUP_TOPIC: replace(groups, partitions=led_elsewhere)})
    identity = await begin(broker, TopicPartition(GROUP_TOPIC, 3))
    assert await broker.end("t", identity) == "none"
    await completes(broker)
    assert broker.partitions.markers.keys() == {TopicPartition(GROUP_TOPIC, 3)}


@pytest.fixture
def grace(monkeypatch: pytest.MonkeyPatch, coordinator: CoordinatorUnderTest) -> None:
    """A topic counts as deleted at once."""
    monkeypatch.setattr(coordinator.coordinator.markers, "_unknown_topic_grace_s", 0.1)


@pytest.mark.usefixtures("grace")
async def test_markers_of_deleted_topics_are_dropped(
    coordinator: CoordinatorUnderTest, feed: StatedFeed, broker: MarkingBroker
) -> None:
    identity = await begin(broker, P0, Q0, TopicPartition("p", 7))
    gone = feed.state.topics["q"]
    topics = {name: topic for name, topic in feed.state.topics.items() if name != "q"}
    feed.publish(topics=topics, deleted_topics={gone.id: feed.state.revision})
    assert await broker.end("t", identity) == "none"
    await completes(broker)
    assert broker.partitions.markers.keys() == {P0}
    assert coordinator.coordinator.markers.counts.dropped == 2


@pytest.mark.usefixtures("grace")
async def test_a_topic_that_is_merely_missing_gets_its_markers_when_it_is_back(
    feed: StatedFeed, broker: MarkingBroker
) -> None:
    identity = await begin(broker, P0, Q0)
    missing = feed.state.topics["q"]
    topics = {name: topic for name, topic in feed.state.topics.items() if name != "q"}
    feed.publish(topics=topics, incomplete_topics=frozenset({"q"}))
    assert await broker.end("t", identity) == "none"
    await eventually_async(lambda: P0 in broker.partitions.markers, "the other partition has its marker")
    # One that was never there counts as deleted by now.
    other = await begin(broker, TopicPartition("unknown", 0), id_="u", producer_id=8)
    assert await broker.end("u", other) == "none"
    await completes(broker, id_="u")
    assert broker.states("t")[-1] == "PrepareCommit"

    feed.publish(topics={**feed.state.topics, "q": missing}, incomplete_topics=frozenset())
    await completes(broker)
    assert Q0 in broker.partitions.markers


@pytest.mark.usefixtures("grace")
async def test_a_topic_whose_deletion_was_not_seen_keeps_no_transaction_from_ending(
    feed: StatedFeed, broker: MarkingBroker
) -> None:
    """As when a listing lacks it, since etcd has forgotten the deletion before it could be told."""
    identity = await begin(broker, P0, Q0)
    feed.publish(topics={name: topic for name, topic in feed.state.topics.items() if name != "q"})
    assert await broker.end("t", identity) == "none"
    await completes(broker)
    assert broker.partitions.markers.keys() == {P0}


@pytest.mark.usefixtures("grace")
async def test_a_topic_that_a_recovery_has_not_found_is_waited_for_and_warned_of(
    coordinator: CoordinatorUnderTest, feed: StatedFeed, broker: MarkingBroker
) -> None:
    identity = await begin(broker, P0, Q0)
    missing = feed.state.topics["q"]
    others = {name: topic for name, topic in feed.state.topics.items() if name != "q"}
    feed.publish(topics=others, recovery=Recovery(number=coordinator.clock.time_ms()))
    with capture_logs() as lines:
        assert await broker.end("t", identity) == "none"
        await eventually_async(
            lambda: any(line["log_level"] == "warning" and line["partition"] == "q-0" for line in lines), "a warning"
        )
    assert broker.states("t")[-1] == "PrepareCommit"

    feed.publish(topics={**others, "q": missing})
    await completes(broker)
    assert Q0 in broker.partitions.markers


async def test_the_next_owner_sends_what_is_decided_again_and_the_former_ones_markers_are_refused(
    coordinator: CoordinatorUnderTest, feed: StatedFeed, broker: MarkingBroker
) -> None:
    identity = await begin(broker, P0)
    broker.writes.clear()
    assert await broker.end("t", identity, version=3) == "none"
    await eventually_async(lambda: len(broker.marker_messages) == 1, "the first owner has sent its marker")
    await own(coordinator, feed, producer_epoch=1)
    await eventually_async(lambda: len(broker.marker_messages) == 2, "the second owner has sent its marker")
    broker.writes.set()
    await completes(broker)

    assert [marker.number for marker in broker.partitions.markers[P0]][-1] == 2
    late = Marker(7, identity.epoch, is_commit=True, number=1, version=0)
    assert broker.partitions.write(P0, late) is ErrorCode.transaction_coordinator_fenced
    assert broker.states("t") == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]


async def test_a_shard_that_has_failed_sends_its_markers_again(
    coordinator: CoordinatorUnderTest, broker: MarkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_runtime, "RELOAD_PAUSE_S", 0.01)
    identity = await begin(broker, P0)
    broker.writes.clear()
    assert await broker.end("t", identity) == "none"
    await eventually_async(lambda: len(broker.marker_messages) == 1, "the marker is on its way")
    runtime = coordinator.coordinator.transaction_shards.get(SHARD)
    assert runtime is not None
    assert runtime.shard is not None
    runtime.shard.settings = None  # type: ignore[assignment]  # what a rule looks at next
    with pytest.raises(AssertionError):
        await broker.init("new", 9)
    await eventually_async(lambda: len(broker.marker_messages) == 2, "the marker is sent anew")
    broker.writes.set()
    await completes(broker)
    await eventually_async(lambda: len(coordinator.coordinator.markers) == 0, "nothing is left to do")


async def test_markers_that_could_not_be_sent_for_an_unexpected_reason_are_sent_again(
    broker: MarkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [RuntimeError("unexpected"), RuntimeError("and again")]

    def fails_at_first(items: Sequence[Item], topics: Mapping[str, Topic]) -> pb.MarkersWrite:
        if failures:
            raise failures.pop(0)
        return markers_write(items, topics)

    monkeypatch.setattr(marker_sender, "markers_write", fails_at_first)
    identity = await begin(broker, P0, P1)
    with capture_logs() as lines:
        assert await broker.end("t", identity) == "none"
        await completes(broker)
    assert sum(line.get("task") == "sending of markers" for line in lines) == 2
    assert set(broker.partitions.markers) == {P0, P1}


@pytest.mark.parametrize(
    ("what", "version"),
    [
        pytest.param("leader_of", 2, id="looking for a leader"),
        pytest.param("Item", 2, id="queueing"),
        pytest.param("result_of", 2, id="taking a result"),
        pytest.param("MarkersWritten", 2, id="telling the shard"),
        pytest.param("NumberWanted", 0, id="asking the shard for a number"),
    ],
)
async def test_an_end_is_tried_again_after_an_unexpected_failure(
    feed: StatedFeed, broker: MarkingBroker, monkeypatch: pytest.MonkeyPatch, what: str, version: int
) -> None:
    feed.publish(features=features(version))
    failures = [RuntimeError("unexpected"), RuntimeError("and again")]
    real = getattr(marker_sender, what)

    def fails_at_first(*arguments: Any, **named: Any) -> Any:
        if failures:
            raise failures.pop(0)
        return real(*arguments, **named)

    monkeypatch.setattr(marker_sender, what, fails_at_first)
    identity = await begin(broker, P0, P1)
    if what == "NumberWanted":
        broker.partitions.write(P0, Marker(7, 0, is_commit=True, number=5, version=0))
    counted = background.failures["end of a transaction"]
    with capture_logs() as lines:
        assert await broker.end("t", identity) == "none"
        await completes(broker)
    unexpected = [line for line in lines if line.get("task") == "end of a transaction"]
    assert len(unexpected) == 2
    assert all(line["transactional_id"] == "t" and line["exc_info"] for line in unexpected)
    assert background.failures["end of a transaction"] == counted + 2
    assert set(broker.partitions.markers) == {P0, P1}


async def test_a_completion_that_cannot_be_stored_yet_is_told_again(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    transactions = replace(group_topic(2), name=TRANSACTION_TOPIC)
    feed.publish(topics={**feed.state.topics, transactions.name: transactions, "p": topic_of("p", 2)})
    coordinator = await start(settings={"offsets.commit.timeout.ms": 30_000})
    broker = await connect(MarkingBroker(1, BROKER_EPOCH), coordinator)
    await own(coordinator, feed)
    identity = await begin(broker, P0)
    broker.writes.clear()
    assert await broker.end("t", identity) == "none"
    count = broker.append_count
    broker.appends.clear()
    broker.writes.set()
    await eventually_async(lambda: broker.append_count > count, "the completion is to be stored")
    await be_stuck(coordinator.coordinator.transaction_shards.get(SHARD))
    broker.appends.set()
    await completes(broker)
    assert broker.states("t").count("CompleteCommit") == 1
    await eventually_async(lambda: len(coordinator.coordinator.markers) == 0, "nothing is left to do")
