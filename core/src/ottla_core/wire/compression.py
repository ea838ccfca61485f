"""The four codecs of record batches, each in the framing that Kafka's Java clients use. Pure.

gzip, LZ4 frames and Zstandard frames are what any library of that name reads and writes. Snappy is wrapped in
the block framing of the xerial Java library; librdkafka writes bare Snappy, so both are read. LZ4 frames are
written with independent blocks, because Java clients refuse linked ones.

A few bytes can be made to expand into gigabytes, so decompression never produces more than a given bound.
"""

import struct
from collections.abc import Mapping
from enum import IntEnum
from mmap import mmap
from typing import Final

import cramjam

from ottla_core.errors import InvalidRecord, UnsupportedCompressionType
from ottla_core.wire.record_batch import Buffer

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
"""No batch may expand to more than this when a broker has to look inside."""

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">i")

_BUFFER_FULL: Final = "failed to write whole buffer"
_FIRST_GUESS_BYTES_MIN: Final = 64 * 1024
_GROWTH: Final = 4


class ExpandsTooFar(InvalidRecord):
    """What is compressed would expand beyond the bound."""


class Codec(IntEnum):
    """A compression codec; the value is its number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


DEFAULT_LEVELS: Final = {Codec.GZIP: 6, Codec.LZ4: 9, Codec.ZSTD: 3}
"""Kafka's default `compression.<codec>.level`; -1 in Kafka's gzip setting means zlib's own, which is 6."""


FRAME_MAGIC: Final[Mapping[int, bytes]] = {
    Codec.GZIP: b"\x1f\x8b",
    Codec.LZ4: b"\x04\x22\x4d\x18",
    Codec.ZSTD: b"\x28\xb5\x2f\xfd",
}
"""How the data of a codec begins; raw snappy begins with a length, so it has no such mark."""


def codec_of(codec_id: int) -> Codec:
    """Return the codec of this number.

    Raises:
        UnsupportedCompressionType: there is none.
    """
    try:
        return Codec(codec_id)
    except ValueError:
        raise UnsupportedCompressionType(f"Unknown compression codec {codec_id}") from None


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` compressed; a level of None or gzip's -1 stands for the codec's default."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.SNAPPY:
        return _compress_xerial(data)
    if level is None or (codec is Codec.GZIP and level < 0):
        level = DEFAULT_LEVELS[codec]
    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=level))
    if codec is Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=level))
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def decompress(codec: Codec, data: Buffer, *, size_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Return `data` decompressed.

    Raises:
        InvalidRecord: the data is damaged.
        ExpandsTooFar: it would expand beyond `size_bytes_max`.
    """
    return bytes(decompressed_view(codec, data, size_bytes_max=size_bytes_max))


def decompressed_view(codec: Codec, data: Buffer, *, size_bytes_max: int) -> memoryview:
    """Return `data` decompressed, without a copy at the end, which would hold up all other threads.

    Raises:
        InvalidRecord: the data is damaged.
        ExpandsTooFar: it would expand beyond `size_bytes_max`.
    """
    try:
        if codec is Codec.NONE:
            return memoryview(_bounded(data, size_bytes_max))
        if codec is Codec.SNAPPY:
            return memoryview(_decompress_snappy(memoryview(data), size_bytes_max))
        return _decompress_growing(codec, data, size_bytes_max)
    except cramjam.DecompressionError as error:
        raise InvalidRecord(f"Records compressed with {codec.name.lower()} cannot be read: {error}") from None


def _bounded(data: Buffer, size_bytes_max: int) -> bytes:
    if len(data) > size_bytes_max:
        raise _expands_too_far(Codec.NONE, size_bytes_max)
    return bytes(data)


def _expands_too_far(codec: Codec, size_bytes_max: int) -> ExpandsTooFar:
    return ExpandsTooFar(
        f"Records compressed with {codec.name.lower()} expand to more than the {size_bytes_max} bytes allowed"
    )


def _decompress_growing(codec: Codec, data: Buffer, size_bytes_max: int) -> memoryview:
    """Decompress into ever larger buffers: the formats do not say reliably how much comes out."""
    into = {
        Codec.GZIP: cramjam.gzip.decompress_into,
        Codec.LZ4: cramjam.lz4.decompress_into,
        Codec.ZSTD: cramjam.zstd.decompress_into,
    }[codec]
    source = bytes(data)
    capacity = min(size_bytes_max, max(_FIRST_GUESS_BYTES_MIN, _GROWTH * len(source)))
    while True:
        output = (
            memoryview(mmap(-1, capacity)) if capacity > _FIRST_GUESS_BYTES_MIN else memoryview(bytearray(capacity))
        )
        try:
            size = into(source, output)
        except cramjam.DecompressionError as error:
            if _BUFFER_FULL not in str(error):
                raise
        else:
            return output[:size].toreadonly()
        if capacity >= size_bytes_max:
            raise _expands_too_far(codec, size_bytes_max)
        capacity = min(size_bytes_max, capacity * _GROWTH)


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(bytes(view[start : start + _XERIAL_BLOCK_BYTES])))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, size_bytes_max: int) -> bytes:
    if bytes(data[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _decompress_snappy_block(data, 0, size_bytes_max)
    blocks = []
    size = 0
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < _BLOCK_LENGTH.size:
            raise InvalidRecord("Snappy block length is cut short")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if length < 0 or length > len(data) - position:
            raise InvalidRecord(f"Snappy block declares {length} bytes, {len(data) - position} are left")
        block = _decompress_snappy_block(data[position : position + length], size, size_bytes_max)
        blocks.append(block)
        size += len(block)
        position += length
    return b"".join(blocks)


def _decompress_snappy_block(block: memoryview, size_so_far: int, size_bytes_max: int) -> bytes:
    source = bytes(block)
    if size_so_far + cramjam.snappy.decompress_raw_len(source) > size_bytes_max:
        raise _expands_too_far(Codec.SNAPPY, size_bytes_max)
    return bytes(cramjam.snappy.decompress_raw(source))
