"""The records of ``__transaction_state``: Kafka's, and one of our own.

A key begins with two bytes that tell the record's type, a value with two that tell its version. Values of version 0
have fixed fields; version 1 has tagged ones as well and is written from transaction version 1 on, and wherever a
tagged field says something. Version 1 of Kafka 4.2 lacks the next producer epoch, which it skips.

The record of our own keeps the *ownership number*: how often the shard was loaded, and how often a marker had to be
sent again with a later number. Markers bear it as their coordinator epoch, and logs refuse a marker with a lower one
than they have seen. It lies in the shard's log because it has to grow for ever: etcd may be put back to a snapshot,
or be written anew by `ottla recover`, while the logs remember. Who can store a later number is the shard's owner, as
every owner keeps those before it from writing. Kafka skips records of types that it does not know.

Source: `TransactionLogKey`, `TransactionLogValue` and `TransactionLog` in Kafka's transaction coordinator.
"""

import struct
from dataclasses import dataclass, replace

from ottla_core.errors import InvalidRecord
from ottla_core.wire.record_batch import HEADER_SIZE_BYTES
from ottla_group_coordinator.records.field_codec import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Field,
    Schema,
    array_of,
    nullable_array_of,
    struct_of,
)
from ottla_group_coordinator.runtime.shard_batches import RECORD_OVERHEAD_BYTES_MAX
from ottla_group_coordinator.runtime.state_machine import RecordFormat
from ottla_group_coordinator.transactions.transaction import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Partitions,
    Transaction,
)
from ottla_group_coordinator.transactions.transaction_state import (
    NEVER_STORED,
    STATE_IDS,
    STATES_BY_ID,
    TransactionState,
)

TRANSACTION_TYPE = 0
OWNERSHIP_TYPE = 30_000
"""Kafka numbers its types from 0 on."""

FIXED_VERSION = 0
TAGGED_VERSION = 1

_INT16 = struct.Struct(">h")
_VALUE_FIXED_BYTES_MAX = 128
_TOPIC_FIXED_BYTES_MAX = 16
_PARTITION_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionKey:
    """A transactional id."""

    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Some partitions of a topic."""

    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionValue:
    """What is known of a transactional id; see `Transaction`.

    Attributes:
        version: of the record; not a field of it.
        topics: the partitions; None where there can be none.
    """

    version: int = TAGGED_VERSION
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: int
    topics: tuple[TopicPartitions, ...] | None
    updated_ms: int
    start_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0
    next_producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipKey:
    """The only key of its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipValue:
    """The ownership number; an int32."""

    number: int


RecordKey = TransactionKey | OwnershipKey
RecordValue = TransactionValue | OwnershipValue

_KEY = Schema(TransactionKey, [Field("transactional_id", STRING)])
_OWNERSHIP_KEY: Schema[OwnershipKey] = Schema(OwnershipKey, [])
_OWNERSHIP_VALUE = Schema(OwnershipValue, [Field("number", INT32)])
_PARTITIONS = struct_of(TopicPartitions, Field("topic", STRING), Field("partitions", array_of(INT32)))
_VALUE = Schema(
    TransactionValue,
    [
        Field("producer_id", INT64),
        Field("previous_producer_id", INT64, since=1, default=NO_PRODUCER_ID, tag=0),
        Field("next_producer_id", INT64, since=1, default=NO_PRODUCER_ID, tag=1),
        Field("producer_epoch", INT16),
        Field("timeout_ms", INT32),
        Field("state", INT8),
        Field("topics", nullable_array_of(_PARTITIONS)),
        Field("updated_ms", INT64),
        Field("start_ms", INT64),
        Field("client_version", INT16, since=1, default=0, tag=2),
        Field("next_producer_epoch", INT16, since=1, default=NO_PRODUCER_EPOCH, tag=3),
    ],
    version_max=TAGGED_VERSION,
    flexible_since=TAGGED_VERSION,
)


def value_of(transaction: Transaction, transaction_version: int) -> TransactionValue:
    """Return what is stored of a transaction; the cluster's version says whether it may have tagged fields."""
    says_more = transaction.next_producer_id != NO_PRODUCER_ID or transaction.client_version > 0
    value = TransactionValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        timeout_ms=transaction.timeout_ms,
        state=STATE_IDS[transaction.state],
        topics=None
        if transaction.state is TransactionState.EMPTY
        else tuple(
            TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in transaction.partitions.items()
        ),
        updated_ms=transaction.updated_ms,
        start_ms=transaction.start_ms,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        client_version=transaction.client_version,
        next_producer_epoch=transaction.next_producer_epoch,
    )
    return value if transaction_version >= TAGGED_VERSION or says_more else _with_fixed_fields(value)


def transaction_of(value: TransactionValue) -> Transaction:
    """Return the transaction of a stored value."""
    return Transaction(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        timeout_ms=value.timeout_ms,
        state=STATES_BY_ID[value.state],
        partitions=_partitions(value),
        start_ms=value.start_ms,
        updated_ms=value.updated_ms,
        client_version=value.client_version,
    )


def _partitions(value: TransactionValue) -> Partitions:
    found: dict[str, set[int]] = {}
    for each in value.topics or ():
        found.setdefault(each.topic, set()).update(each.partitions)
    return {topic: tuple(sorted(indexes)) for topic, indexes in found.items()}


def record_bytes_max(transactional_id: str, partitions: Partitions) -> int:
    """Return how many bytes a batch has at most that holds just the record of a transaction with these partitions."""
    return (
        HEADER_SIZE_BYTES
        + RECORD_OVERHEAD_BYTES_MAX
        + len(transactional_id.encode())
        + _VALUE_FIXED_BYTES_MAX
        + sum(
            _TOPIC_FIXED_BYTES_MAX + len(topic.encode()) + _PARTITION_BYTES * len(indexes)
            for topic, indexes in partitions.items()
        )
    )


def encode_key(key: RecordKey) -> bytes:
    """Return a key's bytes."""
    if isinstance(key, OwnershipKey):
        return _INT16.pack(OWNERSHIP_TYPE)
    output = bytearray(_INT16.pack(TRANSACTION_TYPE))
    _KEY.encode(0, key, output)
    return bytes(output)


def encode_value(value: RecordValue) -> bytes:
    """Return a value's bytes."""
    if isinstance(value, OwnershipValue):
        output = bytearray(_INT16.pack(0))
        _OWNERSHIP_VALUE.encode(0, value, output)
    else:
        output = bytearray(_INT16.pack(value.version))
        _VALUE.encode(value.version, value, output)
    return bytes(output)


def decode_key(data: bytes) -> RecordKey | None:
    """Return a key, or None if the record is of a type to be skipped.

    Raises:
        InvalidRecord: the bytes are no key.
    """
    match _version_of(data, "key"):
        case 0:  # TRANSACTION_TYPE
            return _KEY.decode(0, data, _INT16.size)
        case 30_000:  # OWNERSHIP_TYPE
            return _OWNERSHIP_KEY.decode(0, data, _INT16.size)
    return None


def decode_value(key: RecordKey, data: bytes) -> RecordValue:
    """Return the value that belongs to a key.

    Raises:
        InvalidRecord: the bytes are no such value, or of a version or a state that is not known.
    """
    version = _version_of(data, "value")
    if isinstance(key, OwnershipKey):
        return _OWNERSHIP_VALUE.decode(version, data, _INT16.size)
    value = _VALUE.decode(version, data, _INT16.size)
    if STATES_BY_ID.get(value.state, TransactionState.DEAD) in NEVER_STORED:
        raise InvalidRecord(f"TransactionValue: no record has state {value.state}")
    return value if version == TAGGED_VERSION else _with_fixed_fields(value)


def _with_fixed_fields(value: TransactionValue) -> TransactionValue:
    return replace(value, version=FIXED_VERSION, previous_producer_id=NO_PRODUCER_ID)


TRANSACTION_RECORDS = RecordFormat(
    encode_key=encode_key, encode_value=encode_value, decode_key=decode_key, decode_value=decode_value
)
"""The format of the records of a shard of transactions."""


def _version_of(data: bytes, part: str) -> int:
    if len(data) < _INT16.size:
        raise InvalidRecord(f"the {part} of a transaction's record has {len(data)} bytes, it begins with its version")
    version: int = _INT16.unpack_from(data)[0]
    return version
