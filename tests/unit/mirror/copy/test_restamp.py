"""What of a batch becomes the target's, and what stays."""

import pytest

from ottla_core.errors import CorruptMessage
from ottla_core.wire.compression import Codec
from ottla_core.wire.record_batch import (
    DELETE_HORIZON_FLAG,
    TimestampType,
    crc_is_valid,
    pack_header,
    parse_header,
)
from ottla_core.wire.records import Record, encode_batch, iterate_records
from ottla_mirror.copy.restamp import restamp

RECORDS = [Record(100 + n, 5000 + n, b"k%d" % n, None if n == 1 else b"v%d" % n, (("h", b"x"),)) for n in range(3)]


@pytest.mark.parametrize("codec", list(Codec))
def test_producer_and_sequence_are_new_and_the_records_are_not_touched(codec: Codec):
    batch = encode_batch(
        RECORDS, codec=codec, producer_id=7, producer_epoch=1, base_sequence=5, is_transactional=True
    )
    data = memoryview(bytearray(batch))
    restamp(data, 100, 77, 3, 2**31 - 1)
    header = parse_header(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 2**31 - 1)
    assert not header.is_transactional
    assert header.codec_id == codec
    assert crc_is_valid(data, header)
    assert bytes(data[61:]) == batch[61:]
    assert (header.base_offset, header.leader_epoch) == (0, -1)
    assert [each[1:] for each in iterate_records(data, header)] == [each[1:] for each in RECORDS]


def test_marks_of_the_source_only_are_gone():
    batch = encode_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    header = parse_header(batch)
    marked = pack_header(header._replace(attributes=header.attributes | DELETE_HORIZON_FLAG), batch[61:]) + batch[61:]
    data = memoryview(bytearray(marked))
    restamp(data, 100, 77, 3, 0)
    assert parse_header(data).attributes == 0


def test_a_batch_is_stamped_again_with_another_sequence():
    data = memoryview(bytearray(encode_batch(RECORDS)))
    restamp(data, 100, 77, 3, 10)
    restamp(data, 100, 77, 4, 0)
    header = parse_header(data)
    assert (header.producer_epoch, header.base_sequence) == (4, 0)
    assert crc_is_valid(data, header)


@pytest.mark.parametrize("at", [21, 30, 45, 61, -1])
def test_damage_is_not_given_a_good_crc(at: int):
    data = memoryview(bytearray(encode_batch(RECORDS)))
    data[at] ^= 1
    before = bytes(data)
    with pytest.raises(CorruptMessage, match="offset 100"):
        restamp(data, 100, 77, 3, 0)
    assert bytes(data) == before
