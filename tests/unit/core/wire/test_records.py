"""Records: nulls, headers, codecs, and what kafka-python's independent codec makes of the same bytes."""

import pytest
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from ottla_core.errors import InvalidRecord, UnsupportedCompressionType
from ottla_core.wire.compression import Codec
from ottla_core.wire.record_batch import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    RecordBatchHeader,
    TimestampType,
    pack_header,
    parse_header,
)
from ottla_core.wire.records import (
    Record,
    check_record_lengths,
    encode_batch,
    iterate_records,
    read_varint,
    write_varint,
)

RECORDS = [
    Record(100, 5000, b"key", b"value", (("trace", b"\x00\xff"), ("none", None))),
    Record(101, 4000, None, b""),
    Record(105, 9000, b"", None, (("", b""),)),
]


def decode(batch: bytes) -> list[Record]:
    return list(iterate_records(batch, parse_header(batch)))


@pytest.mark.parametrize("codec", list(Codec))
def test_records_survive_every_codec(codec: Codec) -> None:
    assert decode(encode_batch(RECORDS, codec=codec)) == RECORDS


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = encode_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert {record.timestamp for record in decode(batch)} == {9000}


def test_header_names_that_are_not_utf8_keep_their_bytes() -> None:
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    records = [Record(0, 0, None, None, ((name, b"x"),))]
    assert decode(encode_batch(records)) == records


def test_kafka_pythons_reader_reads_what_we_write() -> None:
    for codec in (Codec.NONE, Codec.GZIP):
        batch = DefaultRecordBatch(encode_batch(RECORDS, codec=codec))
        assert batch.validate_crc()
        found = [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
        assert found == [tuple(record) for record in RECORDS]


def test_we_read_what_kafka_python_writes() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    builder.append(0, 1234, b"k", None, [("h", b"v")])
    builder.append(1, 1233, None, b"value", [])
    batch = bytes(builder.build())
    assert decode(batch) == [Record(0, 1234, b"k", None, (("h", b"v"),)), Record(1, 1233, None, b"value")]


def declared(batch: bytes, **changes: int) -> tuple[bytes, RecordBatchHeader]:
    return batch, parse_header(batch)._replace(**changes)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"record_count": 4, "last_offset_delta": 9}, "cut short"),
        ({"record_count": 2}, "bytes follow them"),
        ({"last_offset_delta": 4}, "outside the batch"),
    ],
)
def test_a_count_that_does_not_fit_is_refused(changes: dict[str, int], complaint: str) -> None:
    with pytest.raises(InvalidRecord, match=complaint):
        list(iterate_records(*declared(encode_batch(RECORDS), **changes)))


@pytest.mark.parametrize(
    "section",
    [
        b"\xff" * 11,  # a varint without end
        b"\x01",  # a negative length
        b"\x7e\x00",  # longer than the section
        b"\x0a\x00\x00\x00\x7e\x00",  # a key longer than the record
        b"\x0a\x00\x00\x00\x03\x00",  # a key of length -2
        b"\x0c\x00\x00\x00\x01\x01\x08",  # four headers in no bytes
        b"\x10\x00\x00\x00\x01\x01\x02\x01\x01",  # a header without a name
        b"\x0e\x00\x00\x00\x01\x01\x00\x00",  # fields end before the record does
    ],
)
def test_damaged_records_give_a_typed_error(section: bytes) -> None:
    header = parse_header(encode_batch(RECORDS[:1]))
    header = header._replace(batch_length=HEADER_SIZE_BYTES - 12 + len(section))
    with pytest.raises(InvalidRecord):
        list(iterate_records(bytes(HEADER_SIZE_BYTES) + section, header))


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(UnsupportedCompressionType, match="codec 6"):
        list(iterate_records(*declared(encode_batch(RECORDS), attributes=6)))


@pytest.mark.parametrize("value", [0, 1, -1, 63, -64, 64, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
def test_varints_round_trip(value: int) -> None:
    output = bytearray()
    write_varint(output, value)
    assert read_varint(bytes(output), 0) == (value, len(output))


def spoilt(section: bytes, count: int) -> bytes:
    """Return a batch with this records section and count, whatever the section holds."""
    header = parse_header(encode_batch([Record(0, 1, None, b"x")]))._replace(
        batch_length=HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(section),
        record_count=count,
        last_offset_delta=count - 1,
    )
    return pack_header(header, section) + section


@pytest.mark.parametrize("size", [1, 50, 57, 58, 120, 8000, 9000, 70_000])
def test_the_lengths_of_whole_records_add_up(size: int) -> None:
    batch = encode_batch([Record(number, 1, b"k", bytes(size)) for number in range(3)])
    check_record_lengths(batch, parse_header(batch))


@pytest.mark.parametrize(
    ("section", "count"),
    [
        (b"", 1),
        (b"\x02a\x02b", 1),
        (b"\x02a\x02b", 3),
        (b"\x02a\x02", 2),
        (b"\x04a", 1),
        (b"\x01a", 1),
        (b"\x80", 1),
        (b"\x80\x80", 1),
        (b"\xfe\xff\xff\xff\x0f" + bytes(9), 1),
        (b"\x02a", 2**31 - 1),
    ],
)
def test_lengths_that_do_not_add_up_are_refused(section: bytes, count: int) -> None:
    batch = spoilt(section, count)
    with pytest.raises(InvalidRecord):
        check_record_lengths(batch, parse_header(batch))
