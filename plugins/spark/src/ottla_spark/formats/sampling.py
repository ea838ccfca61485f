"""The latest records of a topic, for users who want to know their form.

They are read by a consumer of their own, which belongs to no group: a job of Spark would cost seconds for what is a
few fetches.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ottla_spark.datasource.errors import MissingTopic, new_client
from ottla_spark.datasource.options import Assigned, Names, Topics, read_options
from ottla_spark.datasource.refusals import failure

ASK_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 30.0
SAMPLE_BYTES_MAX = 64 * 1024 * 1024
FIRST_TIMEOUT_S = 5.0
FETCH_COUNT = 500
_UNCOMMITTED = {"isolation.level": "read_uncommitted"}
WIDENING = 20
"""How many times further back is looked, as long as nothing was found: compaction leaves gaps."""

_WANTED = ("subscribe", "subscribepattern", "assign", "groupidprefix")
_END = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's own codes are named so, and documented
_UNKNOWN = (KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)  # noqa: SLF001
_SETTINGS: Mapping[str, str | int | bool] = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "log_level": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was found.

    Attributes:
        topics: the topics that were looked at.
        keys: those of the records that have one.
        values: likewise.
        mean_bytes: of a record's key, value and headers; 0 if there are no records.
    """

    topics: tuple[str, ...]
    keys: tuple[bytes, ...]
    values: tuple[bytes, ...]
    mean_bytes: int = 0


def latest_records(options: Mapping[str, str], count: int) -> Sample:
    """Return about the latest records of the topics that a query would read, from all partitions alike.

    Args:
        options: as of the data source; where a query starts and ends is not looked at.
        count: how many records there are to be at most.

    Raises:
        InvalidConfig: the options are wrong.
        MissingTopic: there is no such topic.
        ClusterUnreachable, ReadRefused, ReadFailed: brokers do not answer, or not to us.
    """
    reading = read_options(_wanted(options), kind="stream")
    with _consumer({**reading.consumer_settings, **_SETTINGS}) as consumer:
        bounds = _bounds(consumer, _partitions(consumer, reading.topics))
        messages = _latest(consumer, bounds, count)
    return Sample(
        topics=tuple(sorted({topic for topic, _ in bounds})),
        keys=tuple(key for each in messages if isinstance(key := each.key(), bytes)),
        values=tuple(value for each in messages if isinstance(value := each.value(), bytes)),
        mean_bytes=sum(map(_size_bytes, messages)) // max(len(messages), 1),
    )


def first_records(options: Mapping[str, str], count: int) -> list[Message] | None:
    """Return the first records of the topics that a query would read, partition after partition.

    Args:
        options: as of `latest_records`.
        count: how many; there are fewer only if the topics have no more.

    Returns:
        None if they did not come in time.

    Raises:
        MissingTopic, ClusterUnreachable, ReadRefused, ReadFailed: as of `latest_records`.
    """
    reading = read_options(_wanted(options), kind="stream")
    found: list[Message] = []
    with _consumer({**_UNCOMMITTED, **reading.consumer_settings, **_SETTINGS}) as consumer:
        for partition, (low, high) in _bounds(consumer, _partitions(consumer, reading.topics)).items():
            if low < high and len(found) < count:
                deadline = time.monotonic() + FIRST_TIMEOUT_S
                found += _read(consumer, {partition: (low, high)}, count - len(found), FIRST_TIMEOUT_S)
                if time.monotonic() >= deadline:
                    return None
    return found


def _wanted(options: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in options.items() if key.lower() in _WANTED or key.lower().startswith("kafka.")}


def _size_bytes(message: Message) -> int:
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return len(message.key() or b"") + len(message) + sum(len(name) + len(value or b"") for name, value in headers)


@contextmanager
def _consumer(settings: Mapping[str, str | int | bool]) -> Iterator[Consumer]:
    consumer = new_client(Consumer, dict(settings))
    try:
        yield consumer
    except KafkaException as error:
        raise failure(error.args[0], "records to infer a schema from cannot be read") from None
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topics: Topics) -> list[tuple[str, int]]:
    if isinstance(topics, Assigned):
        return sorted(topics.partitions)
    there = {
        name: sorted(found.partitions)
        for name, found in consumer.list_topics(timeout=ASK_TIMEOUT_S).topics.items()
        if found.error is None
    }
    if isinstance(topics, Names):
        names = sorted(topics.names)
    else:
        names = sorted(name for name in there if not name.startswith("__") and re.fullmatch(topics.regex, name))
        if not names:
            raise MissingTopic(f"no topic has a name that matches {topics.regex}")
    if missing := [name for name in names if name not in there]:
        raise MissingTopic(f"there is no topic {', '.join(missing)}")
    return [(name, partition) for name in names for partition in there[name]]


def _bounds(consumer: Consumer, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
    bounds = {}
    for topic, partition in partitions:
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), ASK_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() in _UNKNOWN:
                raise MissingTopic(f"there is no partition {partition} of a topic {topic}") from None
            raise
        bounds[topic, partition] = low, high
    return bounds


def _latest(consumer: Consumer, bounds: Mapping[tuple[str, int], tuple[int, int]], count: int) -> list[Message]:
    filled = {each: (low, high) for each, (low, high) in bounds.items() if low < high}
    back = -(-count // max(len(filled), 1))
    while filled:
        messages = _read(
            consumer, {each: (max(low, high - back), high) for each, (low, high) in filled.items()}, count
        )
        if any(each.value() is not None for each in messages) or all(
            high - back <= low for low, high in filled.values()
        ):
            return messages
        back *= WIDENING
    return []


def _read(
    consumer: Consumer,
    ranges: Mapping[tuple[str, int], tuple[int, int]],
    count: int,
    timeout_s: float = READ_TIMEOUT_S,
) -> list[Message]:
    consumer.assign([TopicPartition(topic, partition, start) for (topic, partition), (start, _) in ranges.items()])
    unfinished = set(ranges)
    found: list[Message] = []
    size_bytes = 0
    deadline = time.monotonic() + timeout_s
    while unfinished and len(found) < count and size_bytes < SAMPLE_BYTES_MAX and time.monotonic() < deadline:
        for message in consumer.consume(min(FETCH_COUNT, count), 1.0):
            partition = (message.topic() or "", message.partition() or 0)
            error = message.error()
            if error is not None:
                if error.code() != _END:
                    raise KafkaException(error)
                unfinished.discard(partition)
                continue
            if (message.offset() or 0) >= ranges[partition][1] - 1:
                unfinished.discard(partition)
            found.append(message)
            size_bytes += len(message)
    return found[:count]
