"""Consumed messages become the records that a sink is given."""

import pytest
from confluent_kafka import KafkaError, Message

from ottla_connect.task.measures import ErrorMeasures
from ottla_connect.task.pipeline.converters import Converters, WrongCount
from ottla_connect.task.pipeline.error_handler import ErrorHandler, ToleranceExceeded
from ottla_connect.task.pipeline.errors import ErrorPolicy
from ottla_connect.task.pipeline.transform_chain import Step, TransformChain
from ottla_connect.task.sink.conversion import SinkConversion
from ottla_connect.task.sink.positions import Positions
from ottla_sdk import Converter, DataError, Header, Role, SchemaAndValue, SinkRecord, Transform
from ottla_sdk.schema import STRING


class Text(Converter):
    calls = 0

    def serialize(self, topic, schema, value, headers=()):
        return None if value is None else value.encode()

    def deserialize(self, topic, data, headers=()):
        self.calls += 1
        if data == b"bad":
            raise DataError("bad")
        return SchemaAndValue(None, None) if data is None else SchemaAndValue(STRING, data.decode())


class Unreadable(Text):
    def deserialize(self, topic, data, headers=()):
        raise DataError("not JSON")


class Miscounting(Text):
    """Leaves out the last of several records, or tells one twice."""

    more = -1

    def deserialize_many(self, topic, data):
        results = super().deserialize_many(topic, data)
        return [*results, results[0]] if self.more > 0 else results[:-1]


class Route(Transform):
    def apply(self, record):
        if record.value == "drop":
            return None
        return record.replaced(topic=f"to-{record.topic}")


class Failures:
    def __init__(self):
        self.seen = []

    def report(self, failure):
        self.seen.append((failure.original.offset(), failure.stage.value))


def converters_of(value):
    converters = Converters(Text(), value(), Text())
    for role, converter in zip(Role, (converters.key, converters.value, converters.header), strict=True):
        converter.role = role
    return converters


class Parts:
    def __init__(self, *, tolerant=False, transforms=(), keep=False, value=Text):
        self.positions = Positions()
        self.failures = Failures()
        self.errors = []
        handler = ErrorHandler(
            task="t-0",
            policy=ErrorPolicy(tolerant=tolerant),
            measures=ErrorMeasures(),
            wait=lambda seconds: False,
            described=str,
            reporters=(self.failures,),
        )
        self.conversion = SinkConversion(
            converters=converters_of(value),
            chain=TransformChain([Step(each) for each in transforms], handler),
            handler=handler,
            keep_messages=keep,
            on_error=self.errors.append,
        )

    def convert(self, *messages):
        return self.conversion.convert(messages, self.positions)

    def ends(self):
        self.positions.put()
        return {(each.topic, each.partition): offset for each, offset in self.positions._put.items()}


def message(offset, value=b"v", *, topic="t", partition=0, key=None, headers=None, timestamp=(1, 77), error=None):
    return Message(
        topic=topic,
        partition=partition,
        offset=offset,
        key=key,
        value=value,
        headers=headers,
        timestamp=timestamp,
        error=error,
    )


def test_a_message_becomes_a_record_with_everything_it_has():
    (record,) = Parts().convert(message(5, b"value", key=b"key", partition=3, headers=[("h", b"x"), ("n", None)]))
    assert record == SinkRecord(
        topic="t",
        partition=3,
        key="key",
        key_schema=STRING,
        value="value",
        value_schema=STRING,
        timestamp_ms=77,
        headers=(Header("h", "x", STRING), Header("n", None, None)),
        offset=5,
        original_topic="t",
        original_partition=3,
    )


def test_many_messages_without_headers_become_the_same_records():
    messages = [message(offset, b"%d" % offset, partition=offset % 2) for offset in range(4)]
    parts = Parts()
    one_by_one = [Parts().convert(each)[0] for each in messages]
    assert parts.convert(*messages) == one_by_one
    assert parts.ends() == {("t", 0): 3, ("t", 1): 4}


def test_a_tombstone_has_no_value_and_timestamps_may_be_unknown_or_the_brokers():
    tombstone, appended = Parts().convert(message(1, None, timestamp=(0, -1)), message(2, timestamp=(2, 5)))
    assert (tombstone.value, tombstone.value_schema, tombstone.timestamp_ms) == (None, None, None)
    assert (appended.timestamp_ms, appended.timestamp_is_append_time) == (5, True)


def test_topics_may_be_mixed():
    parts = Parts()
    records = parts.convert(message(1, topic="a"), message(8, topic="b"), message(2, topic="a"))
    assert [(each.topic, each.offset) for each in records] == [("a", 1), ("a", 2), ("b", 8)]
    assert parts.ends() == {("a", 0): 3, ("b", 0): 9}


def test_a_bad_record_fails_the_task():
    with pytest.raises(ToleranceExceeded, match="VALUE_CONVERTER"):
        Parts().convert(message(1), message(2, b"bad"))


def test_a_bad_record_is_skipped_where_errors_are_tolerated_and_its_offset_passed():
    parts = Parts(tolerant=True)
    records = parts.convert(message(1), message(2, b"bad"), message(3, key=b"bad"), message(4), message(5, b"bad"))
    assert [each.offset for each in records] == [1, 4]
    assert parts.failures.seen == [(2, "VALUE_CONVERTER"), (3, "KEY_CONVERTER"), (5, "VALUE_CONVERTER")]
    assert parts.ends() == {("t", 0): 6}


def test_a_bad_header_is_a_bad_record():
    parts = Parts(tolerant=True)
    assert parts.convert(message(1, headers=[("h", b"bad")])) == []
    assert parts.failures.seen == [(1, "HEADER_CONVERTER")]


def test_a_trace_context_that_was_written_past_the_converters_is_read_past_them():
    context = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03"
    parts = Parts()
    parts.conversion._converters = Converters(Text(), Text(), Unreadable())
    (record,) = parts.convert(message(1, headers=[("traceparent", context)]))
    assert record.headers == (Header("traceparent", context.decode()),)
    with pytest.raises(ToleranceExceeded):
        parts.convert(message(2, headers=[("traceparent", b"something else")]))


def test_transforms_change_and_drop_records_and_the_origin_stays():
    parts = Parts(transforms=[Route()])
    (record,) = parts.convert(message(1), message(2, b"drop"))
    assert (record.topic, record.origin) == ("to-t", ("t", 0))
    assert parts.ends() == {("t", 0): 3}


def test_errors_among_the_messages_are_passed_on():
    parts = Parts()
    records = parts.convert(message(1), message(-1, error=KafkaError(KafkaError._MAX_POLL_EXCEEDED)))
    assert len(records) == 1
    assert [each.code() for each in parts.errors] == [KafkaError._MAX_POLL_EXCEEDED]
    assert parts.convert() == []


def test_a_record_that_keeps_its_message_still_has_it_behind_a_transform():
    parts = Parts(transforms=[Route()], keep=True)
    original = message(1, b"exactly this", headers=[("h", b"x")])
    (record,) = parts.convert(original)
    assert parts.conversion.message_of(record) is original


def test_a_record_without_its_message_is_converted_back():
    parts = Parts()
    (record,) = parts.convert(message(1, b"value", key=b"key", partition=2, headers=[("h", b"x")]))
    found = parts.conversion.message_of(record)
    assert (found.topic(), found.partition(), found.offset()) == ("t", 2, 1)
    assert (found.key(), found.value(), found.headers()) == (b"key", b"value", [("h", b"x")])


@pytest.mark.parametrize(("more", "returned"), [(-1, 2), (1, 4)])
def test_a_converter_that_returns_too_few_or_too_many_results_fails_the_task_whatever_is_tolerated(more, returned):
    parts = Parts(tolerant=True, value=Miscounting)
    parts.conversion._converters.value.more = more
    with pytest.raises(WrongCount, match=rf"Miscounting as value\.converter .* {returned} .* 3 records of topic t;"):
        parts.convert(message(0), message(1), message(2))
