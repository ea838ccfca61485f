"""When a file came into being, as far as its file system says: what tells it from a former one with the same inode.

File systems such as ext4 give the inode of a removed file to the next one that is created. Linux tells the time of
birth by statx(2), which Python does not have yet.
"""

import ctypes
import os
import struct
from pathlib import Path

UNKNOWN_US = 0
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800
_SIZE = 256
_MASK, _INODE, _BIRTH = struct.Struct("=I"), struct.Struct("=Q"), struct.Struct("=qI")
_INODE_PLACE, _BIRTH_PLACE = 32, 80


def _statx() -> "ctypes._NamedFuncPointer | None":
    try:
        found = ctypes.CDLL(None, use_errno=True).statx
    except (AttributeError, OSError):
        return None
    found.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p]
    return found


_call = _statx()


def birth_us(file: Path | int, inode: int) -> int:
    """Return when a file was born, in µs since the epoch; `UNKNOWN_US` if nobody knows, or it has just been replaced.

    Args:
        file: its path or descriptor.
        inode: the inode that it must have.
    """
    if _call is None:
        return UNKNOWN_US
    answer = ctypes.create_string_buffer(_SIZE)
    if isinstance(file, int):
        failed = _call(file, b"", _AT_EMPTY_PATH, _STATX_BTIME, answer)
    else:
        failed = _call(_AT_FDCWD, os.fsencode(file), 0, _STATX_BTIME, answer)
    (mask,) = _MASK.unpack_from(answer)
    if failed or not mask & _STATX_BTIME or _INODE.unpack_from(answer, _INODE_PLACE) != (inode,):
        return UNKNOWN_US
    seconds, nanoseconds = _BIRTH.unpack_from(answer, _BIRTH_PLACE)
    return int(seconds * 1_000_000 + nanoseconds // 1000)
