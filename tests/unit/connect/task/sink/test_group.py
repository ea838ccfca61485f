"""The consumer of a sink task: assignments, seeks, errors."""

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from ottla_connect.task.sink.group import ConsumerFailed, Group, OffsetsUnknown, raise_if_final
from ottla_sdk import TopicPartition
from ottla_sdk.kafka.hung_consumers import SILENT_TICKS_MAX, ConsumerWatch

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class ScriptedConsumer:
    """Each read does the next step of a script, which may call back, and returns its messages."""

    def __init__(self):
        self.reads = []
        self.polls = []
        self.calls = []
        self.seek_errors = 0
        self.committed_offsets = {}
        self.starts = {}
        self.positions = {}

    def subscribe(self, topics, on_assign, on_revoke, on_lost):
        self.on_assign, self.on_revoke, self.on_lost = on_assign, on_revoke, on_lost

    def consume(self, count, timeout):
        return self.reads.pop(0)() if self.reads else []

    def poll(self, timeout):
        return self.polls.pop(0)() if self.polls else None

    def assign(self, partitions):
        self.calls.append(("assign", [(each.partition, each.offset) for each in partitions]))

    def incremental_assign(self, partitions):
        self.calls.append(("incremental_assign", [each.partition for each in partitions]))

    def pause(self, partitions):
        self.calls.append(("pause", [each.partition for each in partitions]))

    def resume(self, partitions):
        self.calls.append(("resume", [each.partition for each in partitions]))

    def seek(self, place):
        if self.seek_errors:
            self.seek_errors -= 1
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.calls.append(("seek", place.partition, place.offset))

    def committed(self, partitions, timeout):
        for each in partitions:
            each.offset = self.committed_offsets.get(each.partition, OFFSET_INVALID)
        return partitions

    def get_watermark_offsets(self, place, timeout, cached):
        assert not cached
        self.calls.append(("asked", place.partition))
        return self.starts.get(place.partition, 0), 100

    def position(self, partitions):
        for each in partitions:
            each.offset = self.positions.get(each.partition, OFFSET_INVALID)
        return partitions

    def assignment(self):
        self.calls.append(("assignment",))

    def commit(self, offsets, asynchronous):
        self.calls.append(
            ("commit", [(each.partition, each.offset, each.metadata) for each in offsets], asynchronous)
        )
        return offsets

    def close(self):
        self.on_revoke(self, kafka(P0))
        self.calls.append(("close",))


class Listener:
    def __init__(self):
        self.events = []
        self.offsets = {}
        self.paused = set()
        self.error = None

    def on_assigned(self, partitions):
        self.events.append(("assigned", list(partitions)))
        if self.error:
            raise self.error
        return self.offsets

    def on_revoked(self, partitions, *, lost):
        self.events.append(("lost" if lost else "revoked", list(partitions)))

    def must_pause(self, partition):
        return partition in self.paused


def kafka(*partitions):
    return [KafkaTopicPartition(each.topic, each.partition) for each in partitions]


def message(partition, offset):
    return Message(topic="t", partition=partition, offset=offset, value=b"v")


@pytest.fixture
def parts():
    consumer, listener = ScriptedConsumer(), Listener()
    group = Group(consumer, listener, incremental=False, from_start=True, watch=ConsumerWatch())
    group.subscribe(["t"])
    return group, consumer, listener


def assigned(consumer, *partitions):
    consumer.on_assign(consumer, kafka(*partitions))
    consumer.calls.clear()


def offsets_of(messages):
    return [(each.partition(), each.offset()) for each in messages]


def test_messages_that_are_there_are_returned_at_once(parts):
    group, consumer, _ = parts
    consumer.reads = [lambda: [message(0, 1), message(0, 2)]]
    consumer.polls = [lambda: pytest.fail("there was no need to wait")]
    assert offsets_of(group.read(10, 1.0)) == [(0, 1), (0, 2)]


def test_the_first_message_is_waited_for_and_those_behind_it_come_along(parts):
    group, consumer, _ = parts
    consumer.reads = [list, lambda: [message(0, 2)]]
    consumer.polls = [lambda: message(0, 1)]
    assert offsets_of(group.read(10, 1.0)) == [(0, 1), (0, 2)]


def test_messages_of_a_partition_that_is_given_away_meanwhile_are_forgotten(parts):
    group, consumer, listener = parts
    assigned(consumer, P0, P1)

    def revoked_while_reading():
        consumer.on_revoke(consumer, kafka(P0))
        return [message(0, 2), message(1, 7)]

    consumer.reads = [list, revoked_while_reading]
    consumer.polls = [lambda: message(0, 1)]
    assert offsets_of(group.read(10, 1.0)) == [(1, 7)]
    assert listener.events[-1] == ("revoked", [P0])


def test_what_comes_after_a_rebalance_is_kept(parts):
    group, consumer, _ = parts

    def rebalanced_while_waiting():
        consumer.on_revoke(consumer, kafka(P0))
        consumer.on_assign(consumer, kafka(P0))
        return message(0, 1)

    assigned(consumer, P0)
    consumer.polls = [rebalanced_while_waiting]
    assert offsets_of(group.read(10, 1.0)) == [(0, 1)]


def test_what_the_listener_raises_is_raised_by_the_read_once(parts):
    group, consumer, listener = parts
    listener.error = ValueError("cannot open")
    consumer.polls = [lambda: consumer.on_assign(consumer, kafka(P0))]
    with pytest.raises(ValueError, match="cannot open"):
        group.read(10, 1.0)
    assert group.read(10, 0.0) == []


@pytest.mark.parametrize(("messages", "hangs"), [([], True), ([message(0, 1)], False)])
def test_a_consumer_that_gives_nothing_is_noticed(messages, hangs):
    consumer, watch = ScriptedConsumer(), ConsumerWatch()
    group = Group(consumer, Listener(), incremental=False, from_start=True, watch=watch)
    for _ in range(SILENT_TICKS_MAX):
        consumer.reads = [lambda: messages]
        group.read(1, 1.0)
        noticed = watch.tick()
    assert noticed == hangs


def test_a_listener_that_takes_its_time_is_not_taken_for_a_consumer_that_hangs():
    class SlowListener(Listener):
        def on_assigned(self, partitions):
            self.ticks = [watch.tick() for _ in range(SILENT_TICKS_MAX)]
            return super().on_assigned(partitions)

    consumer, listener, watch = ScriptedConsumer(), SlowListener(), ConsumerWatch()
    group = Group(consumer, listener, incremental=False, from_start=True, watch=watch)
    group.subscribe(["t"])
    consumer.polls = [lambda: consumer.on_assign(consumer, kafka(P0))]
    group.read(1, 1.0)
    assert not any(listener.ticks)


def test_the_listener_says_where_to_read_and_what_to_pause(parts):
    _, consumer, listener = parts
    listener.offsets = {P1: 42}
    listener.paused = {P0}
    consumer.on_assign(consumer, kafka(P0, P1))
    assert consumer.calls == [("assign", [(0, -1001), (1, 42)]), ("pause", [0])]


def test_a_partition_that_was_given_away_while_it_was_paused_is_read_when_it_is_back(parts):
    group, consumer, listener = parts
    assigned(consumer, P0, P1)
    group.pause([P0, P1])
    consumer.on_revoke(consumer, kafka(P0, P1))
    consumer.calls.clear()
    listener.paused = {P1}
    consumer.on_assign(consumer, kafka(P0, P1))
    assert consumer.calls[1:] == [("pause", [1]), ("resume", [0])]


def test_an_incremental_group_assigns_incrementally():
    consumer = ScriptedConsumer()
    Group(consumer, Listener(), incremental=True, from_start=True, watch=ConsumerWatch()).subscribe(["t"])
    consumer.on_assign(consumer, kafka(P0))
    assert consumer.calls == [("incremental_assign", [0])]


def test_only_own_partitions_are_paused_and_resumed(parts):
    group, consumer, _ = parts
    assigned(consumer, P1)
    group.pause([P0, P1])
    group.resume([P0])
    assert consumer.calls == [("pause", [1])]


def test_lost_partitions_are_told_as_lost(parts):
    _, consumer, listener = parts
    assigned(consumer, P0)
    consumer.on_lost(consumer, kafka(P0))
    assert listener.events[-1] == ("lost", [P0])


def test_the_first_offset_is_the_logs_beginning_wherever_that_is_by_now(parts):
    group, consumer, listener = parts
    listener.offsets = {P0: 0, P1: 7}
    partitions = kafka(P0, P1)
    consumer.on_assign(consumer, partitions)
    assert [each.offset for each in partitions] == [OFFSET_BEGINNING, 7]
    consumer.calls.clear()
    consumer.starts[0] = 3
    group.seek({P0: 0})
    assert consumer.calls == [("asked", 0), ("seek", 0, 3)]


def test_the_consumer_is_not_believed_where_a_partition_begins_that_is_back(parts):
    _, consumer, listener = parts
    assigned(consumer, P0)
    consumer.on_revoke(consumer, kafka(P0))
    listener.offsets = {P0: 0}
    consumer.starts[0] = 0
    consumer.on_assign(consumer, kafka(P0))
    assert consumer.calls == [("asked", 0), ("assign", [(0, 0)])]


@pytest.mark.parametrize("from_start", [True, False])
def test_a_partition_that_is_back_without_a_commit_begins_where_its_log_does_now(from_start):
    consumer, listener = ScriptedConsumer(), Listener()
    group = Group(consumer, listener, incremental=False, from_start=from_start, watch=ConsumerWatch())
    group.subscribe(["t"])
    consumer.starts = {0: 0, 1: 0}
    for consumer.committed_offsets in ({0: 5, 1: 5}, {1: 5}):
        group.committed_metadata([P0, P1])
        consumer.calls.clear()
        consumer.on_assign(consumer, kafka(P0, P1))
    start = 0 if from_start else OFFSET_INVALID
    assert consumer.calls[-1] == ("assign", [(0, start), (1, OFFSET_INVALID)])


def test_a_seek_is_done_again_when_the_consumer_knows_where_a_partition_without_a_commit_begins(parts):
    group, consumer, _ = parts
    consumer.committed_offsets = {1: 5}
    group.committed_metadata([P0, P1])
    assigned(consumer, P0, P1)
    group.seek({P0: 7})
    assert consumer.calls == [("seek", 0, 7), ("asked", 0), ("assignment",), ("seek", 0, 7)]
    consumer.calls.clear()
    group.seek({P0: 8, P1: 9})
    assert consumer.calls == [("seek", 0, 8), ("seek", 1, 9)]


def test_a_seek_is_done_once_in_a_partition_without_a_commit_that_was_read(parts):
    group, consumer, _ = parts
    group.committed_metadata([P0])
    assigned(consumer, P0)
    consumer.positions[0] = 4
    group.seek({P0: 7})
    assert consumer.calls == [("seek", 0, 7)]


def test_where_nobody_tells_how_a_log_begins_another_consumer_goes_on(parts):
    group, consumer, listener = parts
    assigned(consumer, P0)
    listener.offsets = {P0: 0}

    def nobody_tells(place, timeout, cached):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    consumer.get_watermark_offsets = nobody_tells
    with pytest.raises(OffsetsUnknown, match="where t-0 begins"):
        group.seek({P0: 0})
    consumer.polls = [lambda: consumer.on_assign(consumer, kafka(P0))]
    with pytest.raises(OffsetsUnknown, match="where t-0 begins"):
        group.read(1, 1.0)


def test_a_seek_waits_until_the_partition_is_ready(parts, monkeypatch):
    monkeypatch.setattr("ottla_connect.task.sink.group.SEEK_PAUSE_S", 0.001)
    group, consumer, _ = parts
    consumer.seek_errors = 3
    group.seek({P0: 5})
    assert consumer.calls == [("seek", 0, 5)]


def test_a_task_whose_partition_cannot_be_begun_with_tries_again_with_another_consumer(parts, monkeypatch):
    monkeypatch.setattr("ottla_connect.task.sink.group.SEEK_PAUSE_S", 0.0)
    group, consumer, _ = parts
    consumer.seek_errors = 1_000
    with pytest.raises(OffsetsUnknown, match="t-0"):
        group.seek({P0: 5})


def test_commits_are_waited_for_or_not(parts):
    group, consumer, _ = parts
    group.commit({P0: 5}, str, wait=False)
    group.commit({P1: 6}, lambda place: f"of {place.topic}", wait=True)
    assert consumer.calls == [("commit", [(0, 5, str(P0))], True), ("commit", [(1, 6, "of t")], False)]


def test_a_closing_consumer_no_longer_tells_the_listener(parts):
    group, consumer, listener = parts
    group.close()
    assert consumer.calls == [("close",)]
    assert listener.events == []


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.GROUP_MAX_SIZE_REACHED,
    ],
)
def test_what_does_not_pass_fails_the_task(code):
    with pytest.raises(ConsumerFailed):
        raise_if_final(KafkaError(code))


def test_a_consumer_that_will_never_know_where_to_begin_is_given_up_for_another():
    said = 'Failed to fetch committed offsets for 0 partition(s) in group "g": Broker: Not coordinator'
    with pytest.raises(OffsetsUnknown, match="NOT_COORDINATOR: Failed to fetch"):
        raise_if_final(KafkaError(KafkaError.NOT_COORDINATOR, said))


@pytest.mark.parametrize("code", [KafkaError._PARTITION_EOF, KafkaError._TRANSPORT, KafkaError._MAX_POLL_EXCEEDED])
def test_what_passes_does_not(code):
    raise_if_final(KafkaError(code))


def test_a_partition_that_is_back_before_the_read_ends_loses_no_records(parts):
    group, consumer, _ = parts
    assigned(consumer, P0)

    def rebalanced_while_reading():
        consumer.on_revoke(consumer, kafka(P0))
        consumer.on_assign(consumer, kafka(P0))
        return [message(0, 7)]

    consumer.reads = [rebalanced_while_reading]
    assert offsets_of(group.read(10, 0.0)) == [(0, 7)]
