"""Records of transactions, byte for byte as Kafka's generated classes write them, and one of our own."""

import struct

import pytest

from ottla_core.errors import InvalidRecord
from ottla_group_coordinator.transactions.records import (
    OwnershipKey,
    OwnershipValue,
    TopicPartitions,
    TransactionKey,
    TransactionValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    transaction_of,
    value_of,
)
from ottla_group_coordinator.transactions.transaction import Transaction
from ottla_group_coordinator.transactions.transaction_state import TransactionState

KEY = TransactionKey(transactional_id="pay")
FIXED = (
    struct.pack(">hqhib", 0, 7, 3, 60_000, 1)
    + struct.pack(">ih", 1, 1)
    + b"p"
    + struct.pack(">iii", 2, 0, 5)
    + struct.pack(">qq", 1_700_000_000_123, 1_700_000_000_001)
)
TAGGED = (
    struct.pack(">hqhib", 1, 7, 3, 60_000, 1)
    + b"\x02\x02p\x03"
    + struct.pack(">ii", 0, 5)
    + b"\x00"
    + struct.pack(">qq", 1_700_000_000_123, 1_700_000_000_001)
)
ONGOING = {
    "producer_id": 7,
    "producer_epoch": 3,
    "timeout_ms": 60_000,
    "state": 1,
    "topics": (TopicPartitions(topic="p", partitions=(0, 5)),),
    "updated_ms": 1_700_000_000_123,
    "start_ms": 1_700_000_000_001,
}


@pytest.mark.parametrize(
    ("value", "data"),
    [
        pytest.param(TransactionValue(version=0, **ONGOING), FIXED, id="version 0"),
        pytest.param(TransactionValue(**ONGOING), TAGGED + b"\x00", id="version 1, all tagged fields as by default"),
        pytest.param(
            TransactionValue(**ONGOING, previous_producer_id=6, next_producer_id=9, client_version=2),
            TAGGED
            + b"\x03\x00\x08"
            + struct.pack(">q", 6)
            + b"\x01\x08"
            + struct.pack(">q", 9)
            + b"\x02\x02\x00\x02",
            id="version 1 with Kafka 4.2's tagged fields",
        ),
        pytest.param(
            TransactionValue(**ONGOING, next_producer_id=9, next_producer_epoch=4),
            TAGGED + b"\x02\x01\x08" + struct.pack(">q", 9) + b"\x03\x02\x00\x04",
            id="version 1 with the next epoch",
        ),
        pytest.param(
            TransactionValue(
                version=0,
                producer_id=7,
                producer_epoch=0,
                timeout_ms=1,
                state=0,
                topics=None,
                updated_ms=2,
                start_ms=-1,
            ),
            struct.pack(">hqhib", 0, 7, 0, 1, 0) + struct.pack(">iqq", -1, 2, -1),
            id="version 0, empty: no array at all",
        ),
        pytest.param(
            TransactionValue(
                producer_id=7, producer_epoch=0, timeout_ms=1, state=0, topics=None, updated_ms=2, start_ms=-1
            ),
            struct.pack(">hqhib", 1, 7, 0, 1, 0) + b"\x00" + struct.pack(">qq", 2, -1) + b"\x00",
            id="version 1, empty",
        ),
    ],
)
def test_values_are_kafkas(value: TransactionValue, data: bytes) -> None:
    assert encode_value(value) == data
    assert decode_value(KEY, data) == value


def test_keys_are_kafkas() -> None:
    assert encode_key(KEY) == b"\x00\x00\x00\x03pay"
    assert decode_key(b"\x00\x00\x00\x03pay") == KEY


def test_the_ownership_number_has_a_type_that_kafka_does_not_know() -> None:
    key = encode_key(OwnershipKey())
    assert key == struct.pack(">h", 30_000)
    assert decode_key(key) == OwnershipKey()
    assert decode_value(OwnershipKey(), encode_value(OwnershipValue(number=5))) == OwnershipValue(number=5)


def test_keys_of_types_to_come_are_skipped() -> None:
    assert decode_key(b"\x00\x01\x00\x01x") is None


def test_tagged_fields_to_come_are_skipped() -> None:
    later = TAGGED + b"\x01\x09\x02ab"
    assert decode_value(KEY, later) == TransactionValue(**ONGOING)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x00\x02" + FIXED[2:], id="a version to come"),
        pytest.param(FIXED[:-1], id="cut"),
        pytest.param(FIXED + b"x", id="too long"),
        pytest.param(FIXED[:16] + b"\x08" + FIXED[17:], id="no such state"),
        pytest.param(FIXED[:16] + b"\x06" + FIXED[17:], id="a state that is never stored"),
    ],
)
def test_what_is_no_value_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        decode_value(KEY, data)


def test_fields_that_version_0_lacks_have_it_written_in_version_1() -> None:
    transaction = Transaction(
        producer_id=7,
        producer_epoch=32767,
        next_producer_id=9,
        client_version=2,
        timeout_ms=1,
        state=TransactionState.PREPARE_ABORT,
        updated_ms=2,
    )
    assert value_of(transaction, 0).version == 1
    assert transaction_of(value_of(transaction, 0)) == transaction
