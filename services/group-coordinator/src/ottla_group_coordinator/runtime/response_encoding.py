"""Writing responses: by kio's writers, and those that coordinators write most by hand. Pure.

A Heartbeat's response is a handful of bytes, as an EndTxn's is; an OffsetCommit's is an error code per partition, as
is an AddPartitionsToTxn's. kio's writers, which look at every field's type, would take a quarter of the time that
such a request costs. What is unusual in them (a throttle time, topics named by id) goes the ordinary way. Source:
Kafka's schemas of the responses.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

from ottla_core.wire.group_responses import HEARTBEAT, OFFSET_COMMIT
from ottla_core.wire.messages import LENGTH_PREFIX_SIZE, MessageCodec
from ottla_core.wire.primitives import NO_TAGGED_FIELDS
from ottla_core.wire.transaction_responses import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FIRST_BATCHED_ADD_PARTITIONS,
    FIRST_EPOCH_BUMPING_END_TXN,
)

FIRST_FLEXIBLE_HEARTBEAT = 4
FIRST_FLEXIBLE_OFFSET_COMMIT = 8
FIRST_FLEXIBLE_END_TXN = 3
FIRST_FLEXIBLE_ADD_PARTITIONS = 3
FIRST_THROTTLED_OFFSET_COMMIT = 3
FIRST_OFFSET_COMMIT_WITH_TOPIC_IDS = 10
SHORT_LENGTH_MAX = 126
"""The longest that an unsigned varint of one byte can say, as it says one more."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_PARTITION = struct.Struct(">ih")
_TAGGED_PARTITION = struct.Struct(">ihx")
_PREFIX = struct.Struct(">ii")
_IDENTITY = struct.Struct(">qhx")
_NO_THROTTLE = bytes(4)


def encode_response(codec: MessageCodec, api_key: int, api_version: int, correlation_id: int, response: Any) -> bytes:
    """Return a whole frame.

    Args:
        codec: of the API and the version that was asked for.
        api_key: the API.
        api_version: the version.
        correlation_id: the request's.
        response: of any version of its class.
    """
    write = _BY_HAND.get(api_key)
    body = None if write is None or getattr(response, "throttle_time", None) else write(api_version, response)
    if body is None:
        return codec.encode_response(correlation_id, response)
    return _PREFIX.pack(LENGTH_PREFIX_SIZE + len(body), correlation_id) + body


def _heartbeat(version: int, response: Any) -> bytes:
    code: bytes = _INT16.pack(response.error_code)
    if version >= FIRST_FLEXIBLE_HEARTBEAT:
        return NO_TAGGED_FIELDS + _NO_THROTTLE + code + NO_TAGGED_FIELDS
    return _NO_THROTTLE + code if version > 0 else code


def _offset_commit(version: int, response: Any) -> bytes | None:
    if version >= FIRST_OFFSET_COMMIT_WITH_TOPIC_IDS:
        return None
    if version >= FIRST_FLEXIBLE_OFFSET_COMMIT:
        return _flexible_offset_commit(response)
    output = bytearray(_NO_THROTTLE if version >= FIRST_THROTTLED_OFFSET_COMMIT else b"")
    output += _INT32.pack(len(response.topics))
    for topic in response.topics:
        name = topic.name.encode()
        output += _INT16.pack(len(name))
        output += name
        output += _INT32.pack(len(topic.partitions))
        for partition in topic.partitions:
            output += _PARTITION.pack(partition.partition_index, partition.error_code)
    return bytes(output)


def _flexible_offset_commit(response: Any) -> bytes | None:
    if len(response.topics) > SHORT_LENGTH_MAX:
        return None
    output = bytearray(NO_TAGGED_FIELDS + _NO_THROTTLE)
    output.append(len(response.topics) + 1)
    for topic in response.topics:
        name = topic.name.encode()
        if len(name) > SHORT_LENGTH_MAX or len(topic.partitions) > SHORT_LENGTH_MAX:
            return None
        output.append(len(name) + 1)
        output += name
        output.append(len(topic.partitions) + 1)
        for partition in topic.partitions:
            output += _TAGGED_PARTITION.pack(partition.partition_index, partition.error_code)
        output += NO_TAGGED_FIELDS
    output += NO_TAGGED_FIELDS
    return bytes(output)


def _end_txn(version: int, response: Any) -> bytes:
    code: bytes = _INT16.pack(response.error_code)
    if version < FIRST_FLEXIBLE_END_TXN:
        return _NO_THROTTLE + code
    if version < FIRST_EPOCH_BUMPING_END_TXN:
        return NO_TAGGED_FIELDS + _NO_THROTTLE + code + NO_TAGGED_FIELDS
    identity = _IDENTITY.pack(response.producer_id, response.producer_epoch)
    return NO_TAGGED_FIELDS + _NO_THROTTLE + code + identity


def _add_partitions_to_txn(version: int, response: Any) -> bytes | None:
    if version < FIRST_FLEXIBLE_ADD_PARTITIONS:
        return _fixed_add_partitions_to_txn(response)
    if version < FIRST_BATCHED_ADD_PARTITIONS or len(response.results_by_transaction) > SHORT_LENGTH_MAX:
        return None
    output = bytearray(NO_TAGGED_FIELDS + _NO_THROTTLE)
    output += _INT16.pack(response.error_code)
    output.append(len(response.results_by_transaction) + 1)
    for result in response.results_by_transaction:
        transactional_id = result.transactional_id.encode()
        if len(transactional_id) > SHORT_LENGTH_MAX or len(result.topic_results) > SHORT_LENGTH_MAX:
            return None
        output.append(len(transactional_id) + 1)
        output += transactional_id
        output.append(len(result.topic_results) + 1)
        for topic in result.topic_results:
            name = topic.name.encode()
            if len(name) > SHORT_LENGTH_MAX or len(topic.results_by_partition) > SHORT_LENGTH_MAX:
                return None
            output.append(len(name) + 1)
            output += name
            output.append(len(topic.results_by_partition) + 1)
            for partition in topic.results_by_partition:
                output += _TAGGED_PARTITION.pack(partition.partition_index, partition.partition_error_code)
            output += NO_TAGGED_FIELDS
        output += NO_TAGGED_FIELDS
    output += NO_TAGGED_FIELDS
    return bytes(output)


def _fixed_add_partitions_to_txn(response: Any) -> bytes:
    output = bytearray(_NO_THROTTLE)
    output += _INT32.pack(len(response.results_by_topic_v3_and_below))
    for topic in response.results_by_topic_v3_and_below:
        name = topic.name.encode()
        output += _INT16.pack(len(name))
        output += name
        output += _INT32.pack(len(topic.results_by_partition))
        for partition in topic.results_by_partition:
            output += _PARTITION.pack(partition.partition_index, partition.partition_error_code)
    return bytes(output)


_BY_HAND: Mapping[int, Callable[[int, Any], bytes | None]] = {
    HEARTBEAT: _heartbeat,
    OFFSET_COMMIT: _offset_commit,
    END_TXN: _end_txn,
    ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
}
"""Writers of what follows the correlation id; None where the ordinary way is to be taken."""
