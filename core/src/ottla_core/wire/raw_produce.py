"""ProduceRequest and ProduceResponse, versions 3 to 13, as a producer of finished batches writes and reads them.

The batches stay where they are: a request is a list of pieces of memory. Version 13 names topics by their ids, so
nothing is written into a topic that was created anew under the same name.

Source of the layouts: Kafka's ProduceRequest.json and ProduceResponse.json.
"""

import struct
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.errors import InvalidRequest, InvalidResponse
from ottla_core.wire.bounds import ITEMS_MAX, read_unsigned_varint, skip_tagged_fields
from ottla_core.wire.primitives import INT16, INT32, NO_TAGGED_FIELDS, array_length, string, unsigned_varint
from ottla_core.wire.produce_request import FIRST_FLEXIBLE_VERSION, FIRST_VERSION_BY_TOPIC_ID
from ottla_core.wire.record_batch import Buffer
from ottla_core.wire.response_values import error_code_of, topic_id_of

PRODUCE_KEY: Final = 0
OLDEST_VERSION: Final = 3
NEWEST_VERSION: Final = 13
ALL_IN_SYNC_REPLICAS: Final = -1
NO_ERROR: Final = ErrorCode.none
"""Looked up once: an attribute of an enumeration takes longer than one of a module."""
_FIRST_VERSION_WITH_LOG_START: Final = 5
_FIRST_VERSION_WITH_MESSAGES: Final = 8

_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_TOPIC_ID = struct.Struct("16s")
_PRODUCED_V3 = struct.Struct(">ihqq")
_PRODUCED_V5 = struct.Struct(">ihqqq")

_ONE_TOPIC = struct.Struct(">ibb16sb")
"""How a response of version 13 begins that has one topic with fewer than 127 partitions."""
_ONE_TOPIC_END = struct.Struct(">bib")
_ONE_TOPIC_PARTITIONS_MAX: Final = 0x7F - 1
_SIZES_KEPT_MAX: Final = 4096
"""Most producers fill batches up to a size, so that these sizes are few."""
_NO_TAGS, _ONE, _NOTHING_MORE = 0, 2, b"\1\0\0"
_FIRST = itemgetter(0)
_ACCEPTED = struct.Struct(">ihqqq3s")
"""What a flexible version says of a batch that was accepted, by all brokers that follow Kafka's layout."""

TopicKey = str | UUID
"""A topic's name, or in version 13 its id."""


class ProduceOutcome(NamedTuple):
    """What became of one partition's batch.

    Attributes:
        topic: as it was named in the request.
        partition: its number.
        error_code: of this partition.
        base_offset: offset of the first record; of the earlier append, if the batch repeats one; -1 if unknown.
        log_append_time_ms: -1 if the topic keeps the producer's timestamps.
        error_message: what the broker says besides, from version 8 on.
    """

    topic: TopicKey
    partition: int
    error_code: ErrorCode
    base_offset: int
    log_append_time_ms: int
    error_message: str | None


def produce_request_body(
    version: int,
    timeout_ms: int,
    batches: Mapping[TopicKey, Collection[tuple[int, Buffer]]],
    *,
    acks: int = ALL_IN_SYNC_REPLICAS,
    transactional_id: str | None = None,
) -> list[Buffer]:
    """Return what follows the header of a request, in pieces.

    Args:
        version: of the API.
        timeout_ms: how long the broker may wait for in-sync replicas.
        batches: by topic, each partition's number and its one batch.
        acks: who has to have written before the answer.
        transactional_id: of the batches' producer, if they belong to a transaction.
    """
    flexible = version >= FIRST_FLEXIBLE_VERSION
    pieces: list[Buffer] = [
        string(transactional_id, flexible=flexible)
        + _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)
        + array_length(len(batches), flexible=flexible)
    ]
    end = NO_TAGGED_FIELDS if flexible else b""
    pack, size_of = INT32.pack, _flexible_size if flexible else INT32.pack
    for topic, partitions in batches.items():
        assert isinstance(topic, UUID) == (version >= FIRST_VERSION_BY_TOPIC_ID), f"v{version} names topics otherwise"
        key = topic.bytes if isinstance(topic, UUID) else string(topic, flexible=flexible)
        before = key + array_length(len(partitions), flexible=flexible)
        for partition, batch in partitions:
            pieces += (before + pack(partition) + size_of(len(batch)), batch)
            before = end
        pieces.append(before + end)
    pieces.append(end)
    return pieces


@lru_cache(_SIZES_KEPT_MAX)
def _flexible_size(size: int) -> bytes:
    return unsigned_varint(size + 1)


def read_accepted_in_order(
    frame: memoryview, topic: UUID, partitions: Sequence[tuple[int, Buffer]]
) -> tuple[Sequence[int], int] | None:
    """Return the base offset of each batch, and the first one's log append time, if a response is the usual one.

    That is a response of version 13 to a request for one topic, in the order of that request, in which all batches
    were accepted. Nearly all are, so it is compared column by column, without a step of the interpreter for each.

    Args:
        frame: from its correlation id on.
        topic: the id of the request's only topic.
        partitions: of the request, one at least, with their batches.

    Returns:
        None if it is another response.
    """
    count = len(partitions)
    end = _ONE_TOPIC.size + count * _ACCEPTED.size
    if len(frame) != end + _ONE_TOPIC_END.size or count > _ONE_TOPIC_PARTITIONS_MAX:
        return None
    _, tags, topics, topic_id, announced = _ONE_TOPIC.unpack_from(frame)
    if tags != _NO_TAGS or topics != _ONE or announced != count + 1 or topic_id != topic.bytes:
        return None
    found, errors, base_offsets, append_times_ms, _, rests = zip(
        *_ACCEPTED.iter_unpack(frame[_ONE_TOPIC.size : end]), strict=True
    )
    if found != tuple(map(_FIRST, partitions)) or any(errors) or rests.count(_NOTHING_MORE) != count:
        return None
    return base_offsets, append_times_ms[0]


def read_produce_response(frame: memoryview, version: int) -> list[ProduceOutcome]:
    """Return the outcomes that a frame holds, from its correlation id on.

    Raises:
        InvalidResponse: the bytes are no such response.
    """
    try:
        return _read(frame, version)
    except (IndexError, struct.error):
        raise InvalidResponse(f"ProduceResponse v{version} ends before it is complete") from None
    except UnicodeDecodeError:
        raise InvalidResponse(f"ProduceResponse v{version} has a string that is not UTF-8") from None
    except InvalidRequest as error:  # what the shared primitives raise
        raise InvalidResponse(f"malformed ProduceResponse v{version}: {error.message}") from None


def _read(frame: memoryview, version: int) -> list[ProduceOutcome]:
    flexible = version >= FIRST_FLEXIBLE_VERSION
    position = INT32.size
    if flexible:
        position = skip_tagged_fields(frame, position)
    outcomes: list[ProduceOutcome] = []
    topic_count, position = _read_count(frame, position, flexible=flexible)
    for _ in range(topic_count):
        topic: TopicKey | None
        if version >= FIRST_VERSION_BY_TOPIC_ID:
            topic = topic_id_of(*_TOPIC_ID.unpack_from(frame, position))
            position += _TOPIC_ID.size
        else:
            topic, position = _read_string(frame, position, flexible=flexible)
        if topic is None:
            raise InvalidResponse("a topic of a ProduceResponse has no name")
        count, position = _read_count(frame, position, flexible=flexible)
        accepted = _read_accepted(frame, position, count, topic) if flexible else []
        outcomes += accepted
        position += len(accepted) * _ACCEPTED.size
        for _ in range(count - len(accepted)):
            outcome, position = _read_outcome(frame, position, version, topic)
            outcomes.append(outcome)
        if flexible:
            position = skip_tagged_fields(frame, position)
    INT32.unpack_from(frame, position)  # how long the broker wants not to be asked; it mutes us by itself
    return outcomes


def _read_accepted(frame: memoryview, position: int, count: int, topic: TopicKey) -> list[ProduceOutcome]:
    """Return the outcomes of a topic up to the first that is not the usual one."""
    accepted: list[ProduceOutcome] = []
    size = min(count, (len(frame) - position) // _ACCEPTED.size) * _ACCEPTED.size
    make = tuple.__new__  # the class's own constructor is one more call, for every batch
    for found in _ACCEPTED.iter_unpack(frame[position : position + size]):
        partition, error, base_offset, append_time_ms, _, rest = found
        if error or rest != _NOTHING_MORE:
            break
        accepted.append(make(ProduceOutcome, (topic, partition, NO_ERROR, base_offset, append_time_ms, None)))
    return accepted


def _read_outcome(frame: memoryview, position: int, version: int, topic: TopicKey) -> tuple[ProduceOutcome, int]:
    message = None
    if version >= _FIRST_VERSION_WITH_LOG_START:
        partition, error, base_offset, append_time_ms, _ = _PRODUCED_V5.unpack_from(frame, position)
        position += _PRODUCED_V5.size
    else:
        partition, error, base_offset, append_time_ms = _PRODUCED_V3.unpack_from(frame, position)
        position += _PRODUCED_V3.size
    if version >= _FIRST_VERSION_WITH_MESSAGES:
        flexible = version >= FIRST_FLEXIBLE_VERSION
        count, position = _read_count(frame, position, flexible=flexible)
        reasons = []
        for _ in range(count):
            reason, position = _read_string(frame, position + INT32.size, flexible=flexible)
            if reason:
                reasons.append(reason)
            if flexible:
                position = skip_tagged_fields(frame, position)
        message, position = _read_string(frame, position, flexible=flexible)
        message = message or (reasons[0] if reasons else None)
        if flexible:
            position = skip_tagged_fields(frame, position)
    code = error_code_of(error)
    return ProduceOutcome(topic, partition, code, base_offset, append_time_ms, message), position


def _read_size(frame: memoryview, position: int) -> tuple[int, int]:
    size, position = read_unsigned_varint(frame, position)
    return size - 1, position


def _read_count(frame: memoryview, position: int, *, flexible: bool) -> tuple[int, int]:
    if flexible:
        count, position = _read_size(frame, position)
    else:
        (count,) = INT32.unpack_from(frame, position)
        position += INT32.size
    if count > min(ITEMS_MAX, len(frame) - position):
        raise InvalidResponse(f"{count} items are announced in a ProduceResponse, which cannot follow")
    return max(count, 0), position


def _read_string(frame: memoryview, position: int, *, flexible: bool) -> tuple[str | None, int]:
    if flexible:
        size, position = _read_size(frame, position)
    else:
        (size,) = INT16.unpack_from(frame, position)
        position += INT16.size
    if size < 0:
        return None, position
    end = position + size
    if end > len(frame):
        raise InvalidResponse(f"a string of {size} bytes, {len(frame) - position} follow")
    return str(frame[position:end], "utf-8"), end
