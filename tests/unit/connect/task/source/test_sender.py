"""Records on their way from a source to the cluster."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla_connect.task.control import WantedState
from ottla_connect.task.measures import ErrorMeasures, TaskMeasures
from ottla_connect.task.pipeline.converters import Converters, WrongCount
from ottla_connect.task.pipeline.error_handler import ErrorHandler, Interrupted, ToleranceExceeded
from ottla_connect.task.pipeline.errors import ErrorPolicy
from ottla_connect.task.pipeline.transform_chain import Step, TransformChain
from ottla_connect.task.source.sender import ProducerFailed, Sender
from ottla_sdk import Converter, DataError, Header, Role, SourceRecord, Transform


class FakeProducer:
    """Has room for so many records; acknowledges what it is told to, when it is polled."""

    def __init__(self, room: int = 1000) -> None:
        self.room = room
        self.sent: list[tuple] = []
        self.waiting: list[tuple] = []
        self.polls = 0
        self.on_poll = lambda: None
        self.refuse_at_once: KafkaError | None = None

    def produce(self, topic, value, key, partition, callback, on_delivery=None, timestamp=0, headers=None):
        if len(self.waiting) >= self.room:
            raise BufferError
        if value == b"large":
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if self.refuse_at_once is not None:
            raise KafkaException(self.refuse_at_once)
        self.sent.append((topic, value, key, partition, timestamp, headers))
        self.waiting.append((callback, Message(topic=topic, partition=0, key=key, value=value)))

    def poll(self, timeout):
        self.polls += 1
        self.on_poll()

    def acknowledge(self, count=1, error=None):
        for _ in range(count):
            callback, message = self.waiting.pop(0)
            callback(error, message)

    def purge(self):
        pass

    def flush(self, timeout):
        self.acknowledge(len(self.waiting), KafkaError(KafkaError._PURGE_QUEUE))

    def __len__(self):
        return len(self.waiting)


class Text(Converter):
    def serialize(self, topic, schema, value, headers=()):
        if value == "bad":
            raise DataError("bad")
        return None if value is None else str(value).encode()

    def deserialize(self, topic, data, headers=()):
        raise AssertionError


class Miscounting(Text):
    """Leaves out the last of several records, or tells one twice."""

    role = Role.VALUE
    more = -1

    def serialize_many(self, topic, schemas, values):
        results = super().serialize_many(topic, schemas, values)
        return [*results, results[0]] if self.more > 0 else results[:-1]


class DropOdd(Transform):
    def apply(self, record):
        return None if record.value % 2 else record.replaced(topic="even")


class FakeControl:
    now = WantedState.WORKING

    def wanted_state(self):
        return self.now

    def await_change(self, timeout_s=None):
        self.now = WantedState.WORKING


class Parts:
    def __init__(self, *, room=1000, tolerant=False, transforms=(), value=Text, control=None, producer=None):
        self.producer = FakeProducer(room)
        self.control = control or FakeControl()
        self.topics: list[str] = []
        self.measures = TaskMeasures("source")
        handler = ErrorHandler(
            task="t-0",
            policy=ErrorPolicy(tolerant=tolerant),
            measures=self.measures.errors,
            wait=lambda seconds: False,
            described=str,
        )
        self.sender = Sender(
            make_producer=producer or self.make,
            converters=Converters(Text(), value(), Text()),
            chain=TransformChain([Step(each) for each in transforms], handler),
            handler=handler,
            control=self.control,
            measures=self.measures,
            on_topic=self.topics.append,
        )

    def make(self, on_error):
        self.on_error = on_error
        return self.producer

    def committable(self):
        return {each.partition["p"]: each.offset["o"] for each in self.sender.take_committable().values()}


def record(value, *, partition=0, offset=None, **more):
    return SourceRecord(
        topic="t",
        value=value,
        source_partition={"p": partition},
        source_offset={"o": value if offset is None else offset},
        **more,
    )


def test_records_are_converted_and_sent_in_order():
    parts = Parts()
    parts.sender.send([record(1, key="k", partition=0, timestamp_ms=5), record(2, headers=(Header("h", 7),))])
    assert parts.producer.sent == [
        ("t", b"1", b"k", -1, 5, None),
        ("t", b"2", None, -1, 0, [("h", b"7")]),
    ]


def test_offsets_are_committable_once_all_records_up_to_there_are_acknowledged():
    parts = Parts()
    parts.sender.send([record(1), record(2)])
    parts.producer.acknowledge()
    assert parts.committable() == {}
    parts.producer.acknowledge()
    assert parts.committable() == {0: 2}


def test_source_partitions_are_told_apart_though_they_alternate():
    parts = Parts()
    parts.sender.send([record(value, partition=value % 2) for value in range(6)])
    parts.producer.acknowledge(5)
    assert parts.committable() == {0: 4}
    parts.producer.acknowledge()
    assert parts.committable() == {1: 5}


def test_a_topic_is_announced_once_before_its_first_record():
    parts = Parts()
    parts.sender.send([record(1), record(2)])
    parts.sender.send([record(3)])
    assert parts.topics == ["t"]


def test_records_that_a_transform_drops_count_as_done():
    parts = Parts(transforms=[DropOdd()])
    parts.sender.send([record(0), record(1)])
    assert [each[0] for each in parts.producer.sent] == ["even"]
    assert parts.committable() == {}
    parts.producer.acknowledge()
    assert parts.committable() == {0: 1}


def test_only_dropped_records_move_the_offset_too():
    parts = Parts(transforms=[DropOdd()])
    parts.sender.send([record(1), record(3)])
    assert parts.committable() == {0: 3}


def test_a_bad_record_fails_the_task_but_not_what_was_sent_before():
    parts = Parts()
    with pytest.raises(ToleranceExceeded, match="VALUE_CONVERTER"):
        parts.sender.send([record(1), record("bad", offset=2), record(3)])
    parts.producer.acknowledge()
    assert parts.committable() == {0: 1}


def test_a_bad_record_is_skipped_where_errors_are_tolerated():
    parts = Parts(tolerant=True)
    parts.sender.send([record(1), record("bad", offset=2), record(3)])
    parts.producer.acknowledge(2)
    assert parts.committable() == {0: 3}
    assert parts.measures.errors.skipped == 1


def test_a_full_queue_is_waited_for():
    parts = Parts(room=1)
    parts.producer.on_poll = lambda: parts.producer.acknowledge(len(parts.producer.waiting))
    parts.sender.send([record(value) for value in range(4)])
    assert [each[1] for each in parts.producer.sent] == [b"0", b"1", b"2", b"3"]
    parts.producer.acknowledge()
    assert parts.committable() == {0: 3}


class Impatient(FakeControl):
    """Lets a task wait for a while, and then ends it."""

    looks = 20

    def wanted_state(self):
        self.looks -= 1
        return WantedState.WORKING if self.looks > 0 else WantedState.STOPPING


def smaller_than_a_record(on_error):
    return Producer(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "message.max.bytes": 10_000_000,
            "queue.buffering.max.kbytes": 1024,
            "error_cb": on_error,
            "log_level": 0,
        }
    )


@pytest.mark.parametrize("is_alike", [False, True])
def test_a_record_for_which_the_queue_never_has_room_is_a_bad_one(is_alike):
    parts = Parts(tolerant=True, control=Impatient(), producer=smaller_than_a_record)
    if is_alike:
        parts.sender._topics.add("t")
    parts.sender.send([record("x" * 5_000_000, offset=1)])
    assert parts.committable() == {0: 1}
    assert parts.measures.errors.skipped == 1


def test_a_record_for_which_the_queue_never_has_room_fails_a_task_that_tolerates_no_errors():
    parts = Parts(control=Impatient(), producer=smaller_than_a_record)
    with pytest.raises(ToleranceExceeded, match=r"buffer\.memory"):
        parts.sender.send([record("x" * 5_000_000, offset=1)])


def test_nothing_is_sent_without_a_lease():
    parts = Parts(room=1)

    def on_poll():
        if parts.producer.waiting:
            parts.producer.acknowledge()
            parts.control.now = WantedState.UNLEASED
        assert len(parts.producer.sent) == 1 or parts.control.now is WantedState.WORKING

    parts.producer.on_poll = on_poll
    parts.sender.send([record(0), record(1)])
    assert len(parts.producer.sent) == 2
    assert parts.producer.polls == 2


def test_a_task_that_is_to_stop_does_not_wait_for_room_and_commits_only_what_it_has_sent():
    parts = Parts(room=1)
    parts.control.now = WantedState.STOPPING
    with pytest.raises(Interrupted):
        parts.sender.send([record(0), record(1)])
    parts.producer.acknowledge()
    assert parts.committable() == {0: 0}


def test_a_record_that_the_brokers_refuse_fails_the_task():
    parts = Parts()
    parts.sender.send([record(1), record(2)])
    parts.producer.acknowledge(error=KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    parts.producer.acknowledge()
    with pytest.raises(ProducerFailed, match="MSG_SIZE_TOO_LARGE"):
        parts.sender.serve()
    assert parts.committable() == {}


def test_a_record_that_the_brokers_refuse_is_skipped_where_errors_are_tolerated():
    parts = Parts(tolerant=True)
    parts.sender.send([record(1)])
    parts.producer.acknowledge(error=KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    parts.sender.serve()
    assert parts.committable() == {0: 1}
    assert parts.measures.given == 0


def test_a_record_that_the_producer_itself_refuses_goes_by_the_same_rules():
    parts = Parts(tolerant=True)
    parts.producer.refuse_at_once = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    parts.sender.send([record(1)])
    assert parts.committable() == {0: 1}
    strict = Parts()
    strict.producer.refuse_at_once = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(ToleranceExceeded, match="KAFKA_PRODUCE"):
        strict.sender.send([record(1)])


def test_a_fatal_error_of_the_producer_fails_the_task_whatever_is_tolerated():
    parts = Parts(tolerant=True)
    parts.on_error(KafkaError(KafkaError._FATAL, "fenced", fatal=True))
    with pytest.raises(ProducerFailed, match="fenced"):
        parts.sender.serve()


def test_readings_tell_what_is_acknowledged_and_what_waits():
    parts = Parts()
    parts.sender.send([record(value) for value in range(3)])
    parts.producer.acknowledge()
    parts.sender.serve()
    assert (parts.measures.given, parts.measures.active) == (1, 2)
    assert parts.measures.errors == ErrorMeasures()


def test_a_record_that_is_refused_once_there_is_room_goes_by_the_same_rules():
    parts = Parts(room=1, tolerant=True)
    parts.sender.send([record(1)])
    parts.producer.refuse_at_once = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    parts.producer.on_poll = parts.producer.acknowledge
    parts.sender.send([record(2)])
    assert parts.committable() == {0: 2}


def test_what_the_end_purges_is_neither_committable_nor_a_bad_record():
    parts = Parts(tolerant=True)
    parts.sender.send([record(1)])
    parts.sender.close()
    assert parts.committable() == {}
    assert parts.measures.errors == ErrorMeasures()


@pytest.fixture
def known_topic():
    """Parts that have sent a first record to the topic, for tests of those that follow at once."""

    def make(**options):
        parts = Parts(**options)
        parts.sender.send([record(0)])
        parts.producer.acknowledge(len(parts.producer.waiting))
        assert parts.committable() == {0: 0}
        return parts

    return make


def values(parts):
    return [each[1] for each in parts.producer.sent[1:]]


def test_records_with_nothing_but_keys_and_values_are_sent_in_order(known_topic):
    parts = known_topic()
    parts.sender.send([record(1, key="a"), record(2, key=None), record(3)])
    assert [each[1:4] for each in parts.producer.sent[1:]] == [(b"1", b"a", -1), (b"2", None, -1), (b"3", None, -1)]
    parts.producer.acknowledge(2)
    assert parts.committable() == {}
    parts.producer.acknowledge()
    assert parts.committable() == {0: 3}


@pytest.mark.parametrize(
    "other",
    [
        record(2, timestamp_ms=5),
        record(2, headers=(Header("h", "x"),)),
        record(2, partition=1),
        record(2).replaced(partition=7),
        record(2).replaced(topic="u"),
    ],
)
def test_records_that_differ_in_more_are_sent_in_order_too(known_topic, other):
    parts = known_topic()
    parts.sender.send([record(1), other, record(3)])
    assert values(parts) == [b"1", b"2", b"3"]


@pytest.mark.parametrize(("more", "returned"), [(-1, 2), (1, 4)])
def test_a_converter_that_returns_too_few_or_too_many_results_sends_and_commits_nothing(known_topic, more, returned):
    parts = known_topic(tolerant=True, value=Miscounting)
    parts.sender._converters.value.more = more
    with pytest.raises(WrongCount, match=rf"Miscounting as value\.converter .* {returned} .* 3 records of topic t;"):
        parts.sender.send([record(1), record(2), record(3)])
    assert values(parts) == []
    assert parts.committable() == {}


def test_a_bad_record_among_many_fails_the_task_but_not_what_is_before_it(known_topic):
    parts = known_topic()
    with pytest.raises(ToleranceExceeded):
        parts.sender.send([record(1), record("bad", offset=2), record(3)])
    assert values(parts) == [b"1"]
    parts.producer.acknowledge()
    assert parts.committable() == {0: 1}


def test_a_record_too_large_among_many_is_skipped_where_errors_are_tolerated(known_topic):
    parts = known_topic(tolerant=True)
    parts.sender.send([record(1), record("large", offset=2), record(3)])
    assert values(parts) == [b"1", b"3"]
    parts.producer.acknowledge(2)
    assert parts.committable() == {0: 3}
    assert parts.measures.errors.skipped == 1


def test_a_record_too_large_among_many_fails_the_task_and_what_is_before_it_is_committed(known_topic):
    parts = known_topic()
    with pytest.raises(ToleranceExceeded, match="KAFKA_PRODUCE"):
        parts.sender.send([record(1), record("large", offset=2), record(3)])
    assert values(parts) == [b"1"]
    parts.producer.acknowledge()
    assert parts.committable() == {0: 1}


def test_when_the_queue_becomes_full_the_rest_waits_for_room_in_order(known_topic):
    parts = known_topic(room=3)
    parts.producer.on_poll = lambda: parts.producer.acknowledge(len(parts.producer.waiting))
    parts.sender.send([record(value) for value in range(1, 8)])
    assert values(parts) == [b"%d" % value for value in range(1, 8)]
    parts.producer.acknowledge(len(parts.producer.waiting))
    assert parts.committable() == {0: 7}


def test_many_records_are_committable_slice_by_slice(known_topic):
    parts = known_topic(room=10_000)
    parts.sender.send([record(value) for value in range(1, 2502)])
    parts.producer.acknowledge(1000)
    assert parts.committable() == {0: 1000}
    parts.producer.acknowledge(1501)
    assert parts.committable() == {0: 2501}


def test_a_task_that_is_to_stop_leaves_what_has_no_room_yet(known_topic):
    parts = known_topic(room=2)
    parts.control.now = WantedState.STOPPING
    with pytest.raises(Interrupted):
        parts.sender.send([record(value) for value in range(1, 6)])
    parts.producer.acknowledge(2)
    assert parts.committable() == {0: 2}
