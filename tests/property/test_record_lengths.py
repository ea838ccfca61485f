"""The lengths of a batch's records: what is passed over together adds up as what is added one by one."""

from hypothesis import given
from hypothesis import strategies as st

from ottla_core.errors import InvalidRecord
from ottla_core.wire.record_batch import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    RecordBatchHeader,
    pack_header,
    parse_header,
)
from ottla_core.wire.records import check_record_lengths, read_varint, write_varint

RUNS = st.lists(st.tuples(st.integers(0, 9000), st.sampled_from([1, 2, 15, 16, 17, 40, 200])), min_size=1, max_size=5)
"""Lengths of records, and how many in a row have each."""


def batch_of(section: bytes, count: int) -> bytes:
    header = RecordBatchHeader(
        base_offset=0,
        batch_length=HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(section),
        leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC_V2,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
    return pack_header(header, section) + section


def adds_up(section: bytes, count: int) -> bool:
    """Add up the lengths one by one."""
    position = 0
    for _ in range(count):
        try:
            length, position = read_varint(section, position)
        except (InvalidRecord, IndexError):
            return False
        if length < 0:
            return False
        position += length
    return position == len(section)


def is_accepted(section: bytes, count: int) -> bool:
    batch = batch_of(section, count)
    try:
        check_record_lengths(memoryview(batch), parse_header(batch))
    except InvalidRecord:
        return False
    return True


def section_of(runs: list[tuple[int, int]]) -> tuple[bytearray, int]:
    section, count = bytearray(), 0
    for length, repetitions in runs:
        for number in range(repetitions):
            write_varint(section, length)
            section += bytes((number & 0xFF,)) * length
        count += repetitions
    return section, count


@given(RUNS, st.integers(-2, 2))
def test_records_are_counted_whatever_lengths_they_have(runs: list[tuple[int, int]], more: int) -> None:
    section, count = section_of(runs)
    declared = max(1, count + more)
    assert is_accepted(bytes(section), declared) == adds_up(bytes(section), declared)
    assert is_accepted(bytes(section), count)


@given(RUNS, st.data())
def test_a_changed_byte_or_a_missing_end_is_found_as_by_adding(
    runs: list[tuple[int, int]], data: st.DataObject
) -> None:
    section, count = section_of(runs)
    if section:
        section[data.draw(st.integers(0, len(section) - 1))] = data.draw(st.integers(0, 255))
        del section[len(section) - data.draw(st.integers(0, min(3, len(section)))) :]
    assert is_accepted(bytes(section), count) == adds_up(bytes(section), count)


@given(st.integers(1, 300), st.integers(17, 400), st.data())
def test_one_length_among_equal_ones_is_noticed(length: int, count: int, data: st.DataObject) -> None:
    """A length is changed, which a comparison of all that lie at equal distances has to notice."""
    section, _ = section_of([(length, count)])
    size = len(section) // count
    position = size * data.draw(st.integers(0, count - 1))
    section[position] ^= data.draw(st.integers(1, 255))
    assert is_accepted(bytes(section), count) == adds_up(bytes(section), count)
