"""Codecs: framing as other clients write it, levels, and bounds."""

import struct

import cramjam
import pytest

from ottla_core.errors import InvalidRecord, UnsupportedCompressionType
from ottla_core.wire.compression import XERIAL_MAGIC, Codec, codec_of, compress, decompress

DATA = b"".join(b"%d: a line that repeats, mostly\n" % number for number in range(5000))
COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", [b"", b"x", DATA])
def test_what_is_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", COMPRESSING)
def test_nothing_expands_beyond_the_bound(codec: Codec) -> None:
    bomb = compress(codec, bytes(10_000_000))
    with pytest.raises(InvalidRecord, match="1000000 bytes allowed"):
        decompress(codec, bomb, size_bytes_max=1_000_000)
    assert len(decompress(codec, bomb, size_bytes_max=10_000_000)) == 10_000_000


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("damage", [slice(0, -20), slice(3, None), slice(0, 5)])
def test_damage_gives_a_typed_error(codec: Codec, damage: slice) -> None:
    with pytest.raises(InvalidRecord):
        decompress(codec, compress(codec, DATA)[damage])


def test_snappy_is_written_in_xerial_blocks_and_read_bare_too() -> None:
    framed = compress(Codec.SNAPPY, DATA)
    assert framed[:8] == XERIAL_MAGIC
    assert struct.unpack(">ii", framed[8:16]) == (1, 1)
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(DATA))) == DATA


def test_a_xerial_block_that_overruns_is_refused() -> None:
    framed = compress(Codec.SNAPPY, DATA)
    with pytest.raises(InvalidRecord, match="declares 99999999 bytes"):
        decompress(Codec.SNAPPY, framed[:16] + struct.pack(">i", 99_999_999) + framed[20:])


def test_lz4_frames_have_independent_blocks_as_java_demands() -> None:
    frame = compress(Codec.LZ4, DATA)
    assert frame[:4] == bytes.fromhex("04224d18")
    version, independent = frame[4] >> 6, frame[4] >> 5 & 1
    assert (version, independent) == (1, 1)


@pytest.mark.parametrize(("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.ZSTD, -5, 19), (Codec.LZ4, 1, 12)])
def test_levels_matter(codec: Codec, low: int, high: int) -> None:
    assert len(compress(codec, DATA, high)) < len(compress(codec, DATA, low))


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(UnsupportedCompressionType):
        codec_of(5)
