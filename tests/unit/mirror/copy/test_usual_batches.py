"""What is stamped in one pass, and what ends the pass."""

from collections.abc import Callable

import pytest

from ottla_core.wire.compression import Codec
from ottla_core.wire.record_batch import (
    DELETE_HORIZON_FLAG,
    HEADER_SIZE_BYTES,
    INT32_MAX,
    TimestampType,
    crc_is_valid,
    pack_header,
    parse_header,
)
from ottla_core.wire.records import Record, encode_batch
from ottla_mirror.copy.restamp import restamp
from ottla_mirror.copy.source_batch import SourceBatch
from ottla_mirror.copy.usual_batches import Expected, stamp_usual_batches

EPOCH = 3
FIRST = Expected(100, EPOCH, 77, 2, INT32_MAX - 2)


def batch(offset: int, count: int = 2, *, epoch: int = EPOCH, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(offset + n, 5000, b"k", b"v%d" % (offset + n)) for n in range(count)]
    return encode_batch(records, leader_epoch=epoch, codec=codec, producer_id=5, producer_epoch=0, base_sequence=9)


def marked(offset: int, **changes: int) -> bytes:
    """A batch with another header and the CRC of that."""
    whole = batch(offset)
    rest = whole[HEADER_SIZE_BYTES:]
    return pack_header(parse_header(whole)._replace(**changes), rest) + rest


def damaged(offset: int, at: int) -> bytes:
    whole = bytearray(batch(offset))
    whole[at] ^= 1
    return bytes(whole)


@pytest.mark.parametrize("codec", list(Codec))
def test_usual_batches_are_stamped_where_they_lie_with_sequences_that_follow_each_other(codec: Codec):
    sources = [batch(100, 2, codec=codec), batch(102, 5, codec=codec), batch(107, 1, codec=codec)]
    records = memoryview(bytearray(b"".join(sources)))
    stamped, size_bytes = stamp_usual_batches(records, FIRST)
    assert size_bytes == len(records)
    begin, expected = 0, []
    for source, offset, count, sequence in zip(
        sources, (100, 102, 107), (2, 5, 1), (INT32_MAX - 2, INT32_MAX, 4), strict=True
    ):
        one = memoryview(bytearray(source))
        restamp(one, offset, FIRST.producer_id, FIRST.producer_epoch, sequence)
        assert crc_is_valid(one, parse_header(one))
        expected.append(SourceBatch(offset, offset + count, count, one, None, EPOCH))
        assert bytes(records[begin : begin + len(source)]) == bytes(one)
        begin += len(source)
    assert stamped == expected


@pytest.mark.parametrize(
    "unusual",
    [
        lambda: batch(104),
        lambda: batch(98),
        lambda: batch(102, epoch=EPOCH + 1),
        lambda: marked(102, last_offset_delta=2),
        lambda: marked(102, record_count=0, last_offset_delta=-1),
        lambda: marked(102, attributes=DELETE_HORIZON_FLAG),
        lambda: encode_batch([Record(102, 1, b"k", b"v")], leader_epoch=EPOCH, is_transactional=True),
        lambda: encode_batch([Record(102, 1, b"k", b"v")], leader_epoch=EPOCH, is_control=True),
        lambda: encode_batch(
            [Record(102, 1, b"k", b"v")], leader_epoch=EPOCH, timestamp_type=TimestampType.LOG_APPEND_TIME
        ),
        lambda: batch(102)[:-1],
        lambda: batch(102)[:HEADER_SIZE_BYTES],
        lambda: batch(102)[:20],
        lambda: b"",
    ],
    ids=[
        "gap", "earlier", "epoch", "compacted", "empty", "tombstones", "transaction", "marker", "append-time", "cut",
        "header-only", "header-cut", "end",
    ],
)  # fmt: skip
def test_what_is_not_usual_ends_the_pass_and_is_left_as_it_is(unusual: Callable[[], bytes]):
    whole, rest = batch(100), unusual()
    is_cut = len(rest) != 12 + int.from_bytes(rest[8:12], "big")
    records = memoryview(bytearray(whole + rest + (b"" if is_cut else batch(102))))
    stamped, size_bytes = stamp_usual_batches(records, FIRST)
    assert ([each.base_offset for each in stamped], size_bytes) == ([100], len(whole))
    assert bytes(records[size_bytes : size_bytes + len(rest)]) == rest


@pytest.mark.parametrize("at", [8, 9, 10, 11, 16, 17, 21, 30, 45, 58, 61, -1])
def test_damage_is_not_given_a_good_crc(at: int):
    whole, broken = batch(100), damaged(102, at)
    records = memoryview(bytearray(whole + broken + batch(104)))
    stamped, size_bytes = stamp_usual_batches(records, FIRST)
    assert ([each.base_offset for each in stamped], size_bytes) == ([100], len(whole))
    assert bytes(records[size_bytes : size_bytes + len(broken)]) == broken


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1])
def test_an_impossible_length_ends_the_pass(length: int):
    records = bytearray(batch(100))
    records[8:12] = length.to_bytes(4, "big", signed=True)
    before = bytes(records)
    assert stamp_usual_batches(memoryview(records), FIRST) == ([], 0)
    assert bytes(records) == before
