"""Any records come back as they were, and any garbage gives a typed error and nothing else."""

import struct
from contextlib import suppress

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_core.errors import KafkaError
from ottla_core.wire.compression import Codec, decompress
from ottla_core.wire.record_batch import iterate_batches, parse_header
from ottla_core.wire.records import Record, encode_batch, iterate_records

optional_bytes = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=8), optional_bytes), max_size=3).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    base = draw(st.integers(0, 2**40))
    offsets = sorted(draw(st.sets(st.integers(0, 2000), min_size=1, max_size=12)))
    return [
        Record(base + offset, draw(st.integers(0, 2**50)), draw(optional_bytes), draw(optional_bytes), draw(headers))
        for offset in offsets
    ]


@given(record_lists(), st.sampled_from(Codec))
def test_records_round_trip(records: list[Record], codec: Codec) -> None:
    batch = encode_batch(records, codec=codec)
    assert list(iterate_records(batch, parse_header(batch))) == records


@given(st.binary(max_size=400))
def test_garbage_as_batches_gives_typed_errors_only(data: bytes) -> None:
    with suppress(KafkaError):
        for header, batch in iterate_batches(data):
            list(iterate_records(batch, header))


@pytest.mark.slow
@settings(max_examples=300)
@given(record_lists(), st.sampled_from(Codec), st.data())
def test_damage_behind_a_valid_crc_gives_typed_errors_only(
    records: list[Record], codec: Codec, data: st.DataObject
) -> None:
    """A producer may well send damaged records under a CRC that it computed over them."""
    batch = bytearray(encode_batch(records, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(21, len(batch) - 1))] = data.draw(st.integers(0, 255))
    batch[17:21] = struct.pack(">I", crc32c(batch[21:]))
    with suppress(KafkaError):
        for header, whole in iterate_batches(batch):
            list(iterate_records(whole, header, size_bytes_max=1 << 20))


@given(st.sampled_from(Codec), st.binary(max_size=200))
def test_garbage_as_compressed_data_gives_typed_errors_only(codec: Codec, data: bytes) -> None:
    with suppress(KafkaError):
        assert len(decompress(codec, data, size_bytes_max=1 << 20)) <= 1 << 20
