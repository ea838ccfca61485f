"""Walking records by their keys finds what decoding them finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_core.errors import InvalidRecord
from ottla_core.wire.compression import Codec
from ottla_core.wire.record_batch import parse_header
from ottla_core.wire.record_walk import largest_timestamp_delta, shift_timestamps, walk_records
from ottla_core.wire.records import Record, encode_batch, iterate_records, records_section

texts = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), texts), max_size=2).map(tuple)
batches = st.lists(st.tuples(st.integers(0, 300), st.integers(-(2**40), 2**40), texts, texts, headers), min_size=1)


def records_from(drawn: list[tuple[int, int, bytes | None, bytes | None, tuple]]) -> list[Record]:
    records = []
    offset = 1000
    for gap, *rest in drawn:
        records.append(Record(offset, *rest))
        offset += gap + 1
    return records


@given(batches, st.sampled_from(Codec))
def test_walking_finds_the_same_as_decoding(drawn: list, codec: Codec) -> None:
    records = records_from(drawn)
    batch = encode_batch(records, codec=codec)
    header = parse_header(batch)
    section = records_section(batch, header)
    walked = list(walk_records(section, header))
    assert [(offset, key, has_value) for _, _, offset, key, has_value in walked] == [
        (record.offset, record.key, record.value is not None) for record in records
    ]
    assert b"".join(section[start:end] for start, end, *_ in walked) == section


@given(batches, st.integers(-(2**40), 2**40))
def test_shifted_timestamps_mean_the_same_from_the_other_base(drawn: list, shift_ms: int) -> None:
    records = records_from(drawn)
    batch = encode_batch(records)
    header = parse_header(batch)
    section = records_section(batch, header)
    spans = [(start, end) for start, end, *_ in walk_records(section, header)]
    shifted = shift_timestamps(section, spans, shift_ms)
    other = header._replace(
        base_timestamp=header.base_timestamp - shift_ms,
        batch_length=header.batch_length + len(shifted) - len(section),
    )
    assert list(iterate_records(batch[:61] + shifted, other)) == records
    assert header.base_timestamp + largest_timestamp_delta(section, spans) == header.max_timestamp


@given(st.binary(max_size=60), st.integers(0, 5))
def test_any_bytes_give_records_or_the_typed_error(section: bytes, count: int) -> None:
    header = parse_header(encode_batch([Record(0, 0, b"k", b"v")]))._replace(record_count=count)
    try:
        walked = list(walk_records(section, header))
    except InvalidRecord:
        return
    assert len(walked) == count


@given(batches, st.data())
def test_a_section_that_is_cut_short_is_refused(drawn: list, data: st.DataObject) -> None:
    batch = encode_batch(records_from(drawn))
    header = parse_header(batch)
    section = records_section(batch, header)
    cut = data.draw(st.integers(0, len(section) - 1))
    with pytest.raises(InvalidRecord):
        list(walk_records(section[:cut], header))
