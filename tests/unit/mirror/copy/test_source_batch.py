"""Batches of a fetch's answer: those that stay as they are, and those that have to be built anew."""

import struct

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from ottla_core.errors import CorruptMessage, InvalidRecord, KafkaError
from ottla_core.wire.compression import Codec, compress
from ottla_core.wire.record_batch import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    TimestampType,
    crc_is_valid,
    pack_header,
    parse_header,
)
from ottla_core.wire.records import Record, encode_batch, encode_record, iterate_records
from ottla_mirror.copy.deliverable_batches import DeliverableBatches
from ottla_mirror.copy.source_batch import SourceBatch, read_batches

RECORDS = [
    Record(100, 5000, b"a", b"1", (("h", b"x"), ("h", None))),
    Record(101, 4000, None, b"2"),
    Record(102, 9000, b"c", None),
    Record(103, 6000, b"", b""),
]


def read(*batches: bytes, from_offset: int = 100, target_stamps: bool = False) -> list[SourceBatch]:
    records = memoryview(bytearray(b"".join(batches)))
    return list(read_batches(records, DeliverableBatches(()), from_offset=from_offset, target_stamps=target_stamps))


def sparse(kept: list[Record], codec: Codec = Codec.NONE, last_offset: int = 103) -> bytes:
    """A batch from offset 100 of which compaction has left some records."""
    section = bytearray()
    for record in kept:
        encode_record(section, record, 100, 5000)
    body = compress(codec, bytes(section))
    header = parse_header(encode_batch(RECORDS, codec=codec))._replace(
        batch_length=HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(body),
        last_offset_delta=last_offset - 100,
        record_count=len(kept),
        max_timestamp=max(each.timestamp for each in kept),
    )
    return pack_header(header, body) + body


def contents(batch: SourceBatch) -> list[tuple]:
    header = parse_header(batch.data)
    assert crc_is_valid(batch.data, header)
    assert header.record_count == header.last_offset_delta + 1 == batch.record_count
    assert header.max_timestamp == max(each.timestamp for each in iterate_records(batch.data, header))
    return [each[1:] for each in iterate_records(batch.data, header)]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_dense_batch_stays_where_it_lies(codec: Codec):
    first, second = encode_batch(RECORDS, codec=codec), encode_batch([Record(104, 1, None, None)])
    answer = memoryview(bytearray(first + second))
    batches = list(read_batches(answer, DeliverableBatches(()), from_offset=100, target_stamps=False))
    assert [(each.base_offset, each.next_offset, each.record_count) for each in batches] == [
        (100, 104, 4),
        (104, 105, 1),
    ]
    assert all(each.data.obj is answer.obj for each in batches)
    assert bytes(batches[0].data) == first


def test_a_batch_that_was_cut_and_those_before_the_offset_are_left_out():
    first, second = encode_batch(RECORDS), encode_batch([Record(104, 1, None, b"long enough to be cut")])
    assert [each.base_offset for each in read(first, second[:-1])] == [100]
    assert [each.base_offset for each in read(first, second[:10])] == [100]
    assert [each.base_offset for each in read(first, second, from_offset=104)] == [104]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_sparse_batch_gets_new_offsets_and_nothing_else(codec: Codec):
    (batch,) = read(sparse([RECORDS[0], RECORDS[2]], codec))
    assert batch.offsets == [100, 102]
    assert (batch.base_offset, batch.next_offset) == (100, 104)
    assert parse_header(batch.data).codec_id == codec
    assert contents(batch) == [RECORDS[0][1:], RECORDS[2][1:]]


def test_records_before_the_offset_are_left_out_of_a_batch():
    (batch,) = read(encode_batch(RECORDS), from_offset=102)
    assert (batch.base_offset, batch.next_offset, batch.offsets) == (102, 104, None)
    assert contents(batch) == [each[1:] for each in RECORDS[2:]]
    (batch,) = read(sparse([RECORDS[0]]), from_offset=102)
    assert (batch.record_count, batch.next_offset) == (0, 104)


def test_the_time_of_the_append_is_kept_unless_the_target_gives_its_own():
    stamped = encode_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    (batch,) = read(stamped)
    assert [each[0] for each in contents(batch)] == [9000] * 4
    assert parse_header(batch.data).base_timestamp == 9000
    (batch,) = read(stamped, target_stamps=True)
    assert bytes(batch.data) == stamped


def test_a_damaged_batch_is_not_built_anew():
    data = bytearray(sparse([RECORDS[0]]))
    data[-1] ^= 1
    with pytest.raises(CorruptMessage):
        read(bytes(data))
    lying = parse_header(sparse([RECORDS[0]]))._replace(record_count=2)
    body = sparse([RECORDS[0]])[HEADER_SIZE_BYTES:]
    with pytest.raises(InvalidRecord):
        read(pack_header(lying, body) + body)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY])
def test_messages_of_old_formats_become_batches(magic: int, codec: Codec):
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=10_000)
    for number, record in enumerate(RECORDS):
        assert builder.append(number, timestamp=record.timestamp, key=record.key, value=record.value) is not None
    built = bytearray(builder.build())
    if codec is Codec.NONE:  # one message after the other, whose offsets the broker has given
        position = 0
        for record in RECORDS:
            built[position : position + 8] = struct.pack(">q", record.offset)
            position += 12 + int.from_bytes(built[position + 8 : position + 12], "big")
    elif magic == 1:  # of the wrapper, which has that of its last message
        built[:8] = struct.pack(">q", 103)
    else:
        built[:8] = struct.pack(">q", 3)
    batches = read(bytes(built), from_offset=100 if magic or codec is Codec.NONE else 0)
    assert len(batches) == (4 if codec is Codec.NONE else 1)
    expected = [(each.timestamp if magic else -1, each.key, each.value, ()) for each in RECORDS]
    assert [record for batch in batches for record in contents(batch)] == expected
    assert batches[-1].next_offset in (104, 4)
    assert parse_header(batches[0].data).codec_id == codec


def test_an_old_message_that_is_damaged_is_found():
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=10_000)
    builder.append(0, timestamp=1, key=b"k", value=b"value")
    built = bytearray(builder.build())
    for at in range(12, len(built)):
        broken = bytearray(built)
        broken[at] ^= 1
        with pytest.raises(KafkaError):
            read(bytes(broken), from_offset=0)
