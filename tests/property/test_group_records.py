"""Any records of groups come back as they were; any garbage gives a typed error and nothing else."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from ottla_core.errors import InvalidRecord
from ottla_core.wire.record_batch import HEADER_SIZE_BYTES
from ottla_core.wire.records import Record, encode_batch
from ottla_group_coordinator.records import (
    RecordKey,
    RecordValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from ottla_group_coordinator.records.offset_commit import (
    OFFSET_COMMIT_KEY,
    OFFSET_COMMIT_VALUE,
    OffsetCommitKey,
    OffsetCommitValue,
    record_bytes_max,
)
from tests.support.groups.group_records import KEYS, VALUES, records


@given(records)
def test_records_round_trip(record: tuple[RecordKey, RecordValue]) -> None:
    key, value = record
    assert decode_key(encode_key(key)) == key
    assert decode_value(key, encode_value(value)) == value


@given(st.one_of(list(KEYS.values())), st.binary(max_size=60))
def test_garbage_gives_typed_errors_only(key: RecordKey, garbage: bytes) -> None:
    with suppress(InvalidRecord):
        decode_key(garbage)
    with suppress(InvalidRecord):
        decode_value(key, garbage)
    with suppress(InvalidRecord):
        decode_value(key, b"\0\0" + garbage)


@given(records, st.data())
def test_damage_gives_typed_errors_only(record: tuple[RecordKey, RecordValue], data: st.DataObject) -> None:
    key, value = record
    for encoded, decode in ((encode_key(key), decode_key), (encode_value(value), lambda b: decode_value(key, b))):
        damaged = bytearray(encoded[: data.draw(st.integers(0, len(encoded)))])
        for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        with suppress(InvalidRecord):
            decode(bytes(damaged))


@given(KEYS[OffsetCommitKey], VALUES[OffsetCommitKey])
def test_the_fast_way_to_read_offsets_agrees_with_the_schema(key: OffsetCommitKey, value: OffsetCommitValue) -> None:
    assert OFFSET_COMMIT_KEY.decode(0, encode_key(key), 2) == decode_key(encode_key(key))
    encoded = encode_value(value)
    assert OFFSET_COMMIT_VALUE.decode(value.version, encoded, 2) == decode_value(key, encoded)


@given(st.lists(st.tuples(KEYS[OffsetCommitKey], st.none() | VALUES[OffsetCommitKey]), min_size=1, max_size=5))
def test_offsets_take_no_more_room_in_a_batch_than_is_reckoned(
    offsets: list[tuple[OffsetCommitKey, OffsetCommitValue | None]],
) -> None:
    batch = encode_batch(
        [
            Record(index, index * 2**40, encode_key(key), None if value is None else encode_value(value))
            for index, (key, value) in enumerate(offsets)
        ]
    )
    reckoned = sum(record_bytes_max(key.group, key.topic, value.metadata if value else "") for key, value in offsets)
    assert len(batch) <= HEADER_SIZE_BYTES + reckoned
