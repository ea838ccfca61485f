"""Whether a zstd file is whole: the end of its last frame is its end (RFC 8878, section 3.1).

`zstandard` decompresses what there is of a frame that was cut off, and says nothing; gzip, bz2 and lzma do.
"""

import os

import zstandard

_HEADER_BYTES_MAX = 18
_SKIPPABLE, _SKIPPABLE_MASK, _SKIPPABLE_HEADER_BYTES = 0x184D2A50, 0xFFFFFFF0, 8
_BLOCK_HEADER_BYTES = 3
_CHECKSUM_BYTES = 4
_RLE = 1
"""The type of a block that is one byte, repeated; its size is that of what comes out."""


def is_whole(descriptor: int) -> bool:
    """Return whether an open file ends where a frame does; nothing is decompressed.

    Raises:
        OSError: it cannot be read.
    """
    size, position = os.fstat(descriptor).st_size, 0
    while position < size:
        end = _frame_end(descriptor, position)
        if end is None or end > size:
            return False
        position = end
    return True


def _frame_end(descriptor: int, position: int) -> int | None:
    """Return the position behind a frame, also where the file ends before; None if so much of it is missing."""
    head = os.pread(descriptor, _HEADER_BYTES_MAX, position)
    if int.from_bytes(head[:4], "little") & _SKIPPABLE_MASK == _SKIPPABLE:
        return position + _SKIPPABLE_HEADER_BYTES + int.from_bytes(head[4:_SKIPPABLE_HEADER_BYTES], "little")
    try:
        position += zstandard.frame_header_size(head)
        has_checksum = zstandard.get_frame_parameters(head).has_checksum
    except zstandard.ZstdError:
        return None
    is_last = False
    while not is_last:
        block = os.pread(descriptor, _BLOCK_HEADER_BYTES, position)
        if len(block) < _BLOCK_HEADER_BYTES:
            return None
        header = int.from_bytes(block, "little")
        is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        position += _BLOCK_HEADER_BYTES + (1 if kind == _RLE else size)
    return position + (_CHECKSUM_BYTES if has_checksum else 0)
