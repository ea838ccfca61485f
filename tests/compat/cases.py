"""What every client must be able to do, written once: the messages, the ways to publish them, the comparison.

A client's own folder has a `client.py` that fulfils `ClientUnderTest` and a short suite that walks these cases.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import fetch_request, fetched
from tests.support.messages.record_batches import codec_numbers

PARTITIONS = 3
LARGE_VALUE_BYTES = 900 * 1024
# In the order of their numbers in a batch's attributes.
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_TIMESTAMP_MS = 1_700_000_000_000

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One record as a client publishes it and reads it back.

    Attributes:
        timestamp_ms: None lets the client stamp it.
        offset: None until it was read back.
    """

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    partition: int = 0
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishCase:
    """A way to publish a set of messages."""

    name: str
    codec: str
    idempotent: bool
    messages: tuple[Message, ...]


class ClientUnderTest(Protocol):
    """What a client's folder wraps its client in.

    Attributes:
        sets_timestamps: whether the client lets its user choose a record's timestamp.
    """

    sets_timestamps: bool

    def can_publish(self, message: Message) -> bool:
        """Whether the client has a way to publish this message."""

    def publish(self, bootstrap: str, topic: str, case: PublishCase) -> None:
        """Publishes every message of the case to its partition and waits for all acknowledgements."""

    def read(self, bootstrap: str, topic: str, partition: int, count: int) -> list[Message]:
        """Reads `count` messages of one partition from its beginning, without a group."""

    def beginning_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        """The partition's first offset."""

    def end_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        """The offset that the next record will get."""

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """The first offset whose timestamp is at or after this one; None if there is none."""


def varied_messages() -> tuple[Message, ...]:
    """Every combination of present, empty and null parts, spread over the partitions."""
    shapes = (
        Message(key=b"carrier", value=b'{"flight": 1545}'),
        Message(key=None, value=b"no key"),
        Message(key=b"tombstone", value=None),
        Message(key=None, value=None),
        Message(key="Schlüssel".encode(), value="Überflug ✈".encode()),
        Message(key=b"with headers", value=b"v", headers=(("trace", b"0af7"), ("trace", b"again"), ("empty", b""))),
        Message(key=b"null header", value=b"v", headers=(("nothing", None),)),
        Message(key=b"empty value", value=b""),
        Message(key=b"binary", value=bytes(range(1, 256)) * 20),
        *(Message(key=b"bulk", value=f"line {number}".encode() * 10) for number in range(60)),
    )
    return tuple(
        replace(shape, partition=index % PARTITIONS, timestamp_ms=START_TIMESTAMP_MS + 1000 * index)
        for index, shape in enumerate(shapes)
    )


def large_message() -> tuple[Message, ...]:
    """One record of 900 KB, which compresses badly enough to stay large."""
    pattern = bytes((index * index + index // 251) % 256 for index in range(8192))
    value = (pattern * (LARGE_VALUE_BYTES // len(pattern) + 1))[:LARGE_VALUE_BYTES]
    return (Message(key=b"large", value=value, timestamp_ms=START_TIMESTAMP_MS),)


PUBLISH_CASES = (
    *(
        PublishCase(name=f"{codec}{suffix}", codec=codec, idempotent=idempotent, messages=varied_messages())
        for codec in CODECS
        for idempotent, suffix in ((True, "-idempotent"), (False, ""))
    ),
    PublishCase(name="900-kb", codec="none", idempotent=True, messages=large_message()),
    PublishCase(name="900-kb-zstd", codec="zstd", idempotent=False, messages=large_message()),
)


def case_name(case: PublishCase) -> str:
    """For pytest's ids."""
    return case.name


def fitted_to(client: ClientUnderTest, case: PublishCase) -> PublishCase:
    """The case without what this client has no way to express when publishing."""
    messages = case.messages
    if not client.sets_timestamps:
        messages = tuple(replace(message, timestamp_ms=None) for message in messages)
    return replace(case, messages=tuple(message for message in messages if client.can_publish(message)))


def publish_and_read_back(
    publisher: ClientUnderTest, reader: ClientUnderTest, bootstrap: str, topic: str, case: PublishCase
) -> None:
    """One client publishes, one reads each partition back; the content and the order must be equal."""
    case = fitted_to(publisher, case)
    before_ms = int(time.time() * 1000)
    publisher.publish(bootstrap, topic, case)
    for partition in range(PARTITIONS):
        sent = [message for message in case.messages if message.partition == partition]
        received = reader.read(bootstrap, topic, partition, len(sent)) if sent else []
        assert_equal_content(sent, received, before_ms=before_ms)
        if sent:
            assert_stored_with(bootstrap, topic, partition, codec=case.codec)


def assert_equal_content(sent: Sequence[Message], received: Sequence[Message], *, before_ms: int) -> None:
    """Compares what one partition was given with what it gave back, offsets counting from 0."""
    assert [message.offset for message in received] == list(range(len(sent)))
    for expected, actual in zip(sent, received, strict=True):
        timestamp_ms = expected.timestamp_ms
        if timestamp_ms is None:
            assert actual.timestamp_ms is not None
            assert before_ms <= actual.timestamp_ms <= time.time() * 1000 + 1
            timestamp_ms = actual.timestamp_ms
        assert actual == replace(expected, timestamp_ms=timestamp_ms, offset=actual.offset)


def assert_stored_with(bootstrap: str, topic: str, partition: int, *, codec: str) -> None:
    """Looks at the stored batches: a client that misses an API may leave compression out without a word.

    A batch that would not shrink is left as it is by some clients.
    """
    with RawClient.to(bootstrap) as client:
        answer = fetched(client.ask(fetch_request(topic, 0, partition=partition, bytes_max=4 << 20)))
    used = {CODECS[number] for number in codec_numbers(answer.records)}
    assert codec in used, f"published with {codec} and stored with {used}"
    assert used <= {codec, "none"}


def check_offsets_by_time(publisher: ClientUnderTest, reader: ClientUnderTest, bootstrap: str, topic: str) -> None:
    """Beginning, end, and the first offset at or after a time, on partition 0 of an empty topic."""
    assert (reader.beginning_offset(bootstrap, topic, 0), reader.end_offset(bootstrap, topic, 0)) == (0, 0)
    case = fitted_to(publisher, PUBLISH_CASES[0])
    publisher.publish(bootstrap, topic, case)
    times_ms = [message.timestamp_ms or 0 for message in case.messages if message.partition == 0]
    assert reader.beginning_offset(bootstrap, topic, 0) == 0
    assert reader.end_offset(bootstrap, topic, 0) == len(times_ms)
    for offset, time_ms in list(enumerate(times_ms))[::7]:
        assert reader.offset_at(bootstrap, topic, 0, time_ms) == offset
        assert reader.offset_at(bootstrap, topic, 0, time_ms - 1) == offset
    assert reader.offset_at(bootstrap, topic, 0, 0) == 0
    assert reader.offset_at(bootstrap, topic, 0, times_ms[-1] + 1) is None
