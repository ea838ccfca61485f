"""Batch headers against bytes that other implementations produced, and against damage."""

import struct

import pytest
from crc32c import crc32c

from ottla_core.errors import CorruptMessage, UnsupportedForMessageFormat
from ottla_core.wire.record_batch import (
    HEADER_SIZE_BYTES,
    RecordBatchHeader,
    TimestampType,
    batch_prefix,
    crc_is_valid,
    decrement_sequence,
    increment_sequence,
    iterate_batches,
    parse_header,
    stamped_header,
)
from ottla_core.wire.records import Record, encode_batch, iterate_records

BATCH = encode_batch([Record(7, 1000, b"k", b"v"), Record(8, 2000, None, None)], leader_epoch=3)


def test_a_header_has_the_fields_of_kafkas_format() -> None:
    header = parse_header(BATCH)
    assert (header.base_offset, header.leader_epoch, header.magic) == (7, 3, 2)
    assert (header.last_offset, header.next_offset, header.record_count) == (8, 9, 2)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 2000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (-1,) * 4
    assert header.size_bytes == len(BATCH)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert not header.is_control
    assert not header.is_transactional
    assert header.delete_horizon_ms is None
    # The fields by hand, at the offsets that the protocol documents.
    assert struct.unpack_from(">q", BATCH, 0) == (7,)
    assert struct.unpack_from(">i", BATCH, 12) == (3,)
    assert struct.unpack_from(">I", BATCH, 17) == (crc32c(BATCH[21:]),)
    assert struct.unpack_from(">i", BATCH, 57) == (2,)


def test_assigning_offset_and_epoch_leaves_the_crc_valid() -> None:
    moved = batch_prefix(500, parse_header(BATCH).batch_length, 9) + BATCH[16:]
    header = parse_header(moved)
    assert (header.base_offset, header.leader_epoch) == (500, 9)
    assert crc_is_valid(moved, header)


def test_stamping_log_append_time_renews_the_crc() -> None:
    stamped = stamped_header(
        parse_header(BATCH), BATCH[HEADER_SIZE_BYTES:], base_offset=1, leader_epoch=2, max_timestamp=99
    )
    batch = stamped + BATCH[HEADER_SIZE_BYTES:]
    header = parse_header(batch)
    assert crc_is_valid(batch, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in iterate_records(batch, header)] == [99, 99]


@pytest.mark.parametrize("position", range(21, len(BATCH)))
def test_any_flipped_bit_behind_the_crc_is_noticed(position: int) -> None:
    damaged = bytearray(BATCH)
    damaged[position] ^= 0x10
    assert not crc_is_valid(bytes(damaged), parse_header(BATCH))


def test_a_short_buffer_is_corrupt() -> None:
    with pytest.raises(CorruptMessage, match="61 bytes of header, 60 are left"):
        parse_header(BATCH[:60])


def test_an_impossible_length_is_corrupt() -> None:
    with pytest.raises(CorruptMessage, match="length of 48"):
        parse_header(BATCH[:8] + struct.pack(">i", 48) + BATCH[12:])


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_magics_are_refused(magic: int) -> None:
    with pytest.raises(UnsupportedForMessageFormat, match=f"magic {magic}"):
        parse_header(BATCH[:16] + bytes([magic]) + BATCH[17:])


def test_a_partial_batch_at_the_end_is_left_out() -> None:
    found = list(iterate_batches(BATCH + BATCH + BATCH[:-1]))
    assert [bytes(batch) for _, batch in found] == [BATCH, BATCH]


def test_a_batch_with_a_wrong_crc_stops_the_iteration() -> None:
    damaged = BATCH[:-1] + bytes([BATCH[-1] ^ 1])
    batches = iterate_batches(BATCH + damaged)
    next(batches)
    with pytest.raises(CorruptMessage, match="offset 7"):
        next(batches)


def test_sequence_numbers_wrap_at_int32() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 2, 3) == 1
    assert decrement_sequence(0, 1) == 2**31 - 1
    header = RecordBatchHeader(0, 0, 0, 2, 0, 0, 4, 0, 0, 1, 0, 2**31 - 2, 5)
    assert header.last_sequence == 2
