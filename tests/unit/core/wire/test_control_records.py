"""Markers are the bytes that Kafka writes, and are read from whatever comes in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_core.errors import InvalidRecord
from ottla_core.wire.control_records import TransactionMarker, marker_batch, read_marker
from ottla_core.wire.record_batch import crc_is_valid, parse_header
from ottla_core.wire.records import Record, encode_batch, iterate_records

MARKER = TransactionMarker(producer_id=4711, producer_epoch=5, is_commit=True, coordinator_epoch=9)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.booleans(), st.integers(0, 2**31 - 1))
def test_a_marker_is_read_as_it_was_written(producer_id: int, epoch: int, is_commit: bool, coordinator: int) -> None:
    marker = TransactionMarker(
        producer_id=producer_id, producer_epoch=epoch, is_commit=is_commit, coordinator_epoch=coordinator
    )
    batch = marker_batch(marker, now_ms=1000)
    assert read_marker(batch, parse_header(batch)) == marker


def test_a_marker_is_a_batch_of_its_own_with_both_flags_and_no_sequence() -> None:
    batch = marker_batch(MARKER, now_ms=1000)
    header = parse_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert crc_is_valid(batch, header)
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (0, 0, 1)
    assert (header.leader_epoch, header.base_sequence) == (-1, -1)
    assert header.max_timestamp == 1000


@pytest.mark.parametrize(("is_commit", "kind"), [(False, 0), (True, 1)])
def test_key_and_value_are_kafkas(is_commit: bool, kind: int) -> None:
    marker = TransactionMarker(producer_id=1, producer_epoch=0, is_commit=is_commit, coordinator_epoch=0x01020304)
    batch = marker_batch(marker, now_ms=0)
    (record,) = iterate_records(batch, parse_header(batch))
    assert record.key == bytes((0, 0, 0, kind))
    assert record.value == bytes((0, 0, 1, 2, 3, 4))


def control_batch(key: bytes | None, value: bytes | None, count: int = 1) -> bytes:
    records = [Record(offset, 0, key, value) for offset in range(count)]
    return encode_batch(records, producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)


def test_a_batch_of_data_and_one_of_another_control_type_are_no_markers() -> None:
    data = encode_batch([Record(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\1")], producer_id=1, is_transactional=True)
    leader_change = control_batch(b"\0\0\0\2", b"")
    assert read_marker(data, parse_header(data)) is None
    assert read_marker(leader_change, parse_header(leader_change)) is None


def test_a_later_version_is_read_as_the_first_one() -> None:
    batch = control_batch(b"\0\1\0\1more", b"\0\1\0\0\0\7more")
    marker = read_marker(batch, parse_header(batch))
    assert marker is not None
    assert (marker.is_commit, marker.coordinator_epoch) == (True, 7)


@pytest.mark.parametrize(
    "batch",
    [
        control_batch(None, b"\0\0\0\0\0\1"),
        control_batch(b"\0\0\0", b"\0\0\0\0\0\1"),
        control_batch(b"\xff\xff\0\1", b"\0\0\0\0\0\1"),
        control_batch(b"\0\0\0\1", None),
        control_batch(b"\0\0\0\1", b"\0\0\0\0\0"),
        control_batch(b"\0\0\0\1", b"\xff\xff\0\0\0\1"),
        control_batch(b"\0\0\0\1", b"\0\0\0\0\0\1", count=2),
    ],
)
def test_a_malformed_marker_is_refused(batch: bytes) -> None:
    with pytest.raises(InvalidRecord):
        read_marker(batch, parse_header(batch))


def test_a_marker_that_compaction_has_emptied_is_none() -> None:
    batch = marker_batch(MARKER, now_ms=0)
    emptied = parse_header(batch)._replace(record_count=0, batch_length=49)
    assert read_marker(batch[:61], emptied) is None
