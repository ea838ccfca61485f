"""A file that is being written: under another name until it is finished, and then all at once there.

What could not be written is kept and written at the next try, so a full disk loses nothing. The other name is unlike
any other task's; whoever takes over the partition removes the file and owns the partition from then on, so that a
task that lost it without knowing can finish neither this file nor one that it begins later.
"""

import bz2
import lzma
import os
import secrets
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import zstandard

from ottla_file.partition_claims import Ownership, sync_directory, unfinished_directory
from ottla_sdk import ConnectError, TopicPartition
from ottla_sdk.file_policy import permitted_path

WRITE_BYTES = 256 * 1024


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


class _Uncompressed:
    def compress(self, data: bytes, /) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


def _gzip() -> _Compressor:
    return zlib.compressobj(wbits=31)  # 31: with gzip's header


_COMPRESSORS: dict[str, Callable[[], _Compressor]] = {
    "none": _Uncompressed,
    "gzip": _gzip,
    "bzip2": bz2.BZ2Compressor,
    "xz": lzma.LZMACompressor,
    "zstd": lambda: zstandard.ZstdCompressor().compressobj(),
}


class TakenOver(ConnectError):
    """Another task has the partition now, and has removed the unfinished file if it saw it."""


class UnfinishedFile:
    """A file below the sink's directory.

    Attributes:
        size: bytes appended, before compression.
        rows: records appended.
        is_complete: whether `finish` was called, so that nothing more can be appended.
    """

    def __init__(
        self, directory: Path, connector: str, partition: TopicPartition, ownership: Ownership, *, compression: str
    ) -> None:
        self.size = 0
        self.rows = 0
        self.is_complete = False
        self._directory = directory
        self._ownership = ownership
        self._path = unfinished_directory(directory, connector) / (
            f"{partition.topic}-{partition.partition}.{secrets.token_hex(8)}"
        )
        self._compressor = _COMPRESSORS[compression]()
        self._pending = bytearray()  # compressed, not yet written
        self._descriptor: int | None = None
        self._is_renamed = False

    def append(self, data: bytes, *, rows: int = 1) -> None:
        """Take bytes; `write` writes them."""
        self.size += len(data)
        self.rows += rows
        self._pending += self._compressor.compress(data)

    def write(self, least_bytes: int = 1) -> None:
        """Write what was appended, if it is so much.

        Raises:
            OSError: not all could be written; what is left is written the next time.
        """
        if len(self._pending) < least_bytes:
            return
        if self._descriptor is None:
            permitted_path(self._path).parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o666)
        while self._pending:
            written = os.write(self._descriptor, self._pending)
            del self._pending[:written]

    def finish(self, path: str, *, fsync: bool) -> None:
        """Complete the file, and give it the name `path` below the sink's directory.

        Raises:
            OSError: it did not work; call it again.
            TakenOver: another task has the partition now.
        """
        if not self.is_complete:
            self._pending += self._compressor.flush()
            self.is_complete = True
        target = self._directory / path
        if not self._is_renamed:
            self.write(least_bytes=0)
            assert self._descriptor is not None, "write has opened the file"
            if fsync:
                os.fsync(self._descriptor)
            permitted_path(target.parent).mkdir(parents=True, exist_ok=True)
            self._rename(target)
        if fsync:
            # The directories above too: a new one is lost with all that is in it if its own name is not on the disk,
            # whoever has made it.
            for number in range(len(Path(path).parts)):
                sync_directory(target.parents[number])
        self._close()

    def discard(self) -> None:
        """Remove the file."""
        self._close()
        self._path.unlink(missing_ok=True)

    def _rename(self, target: Path) -> None:
        # The file is there since before this question, so a successor that it does not see yet will remove the file.
        if not self._ownership.is_held():
            raise TakenOver(f"{self._path} cannot be finished: another task has taken over its partition")
        try:
            self._path.rename(target)
        except FileNotFoundError:
            raise TakenOver(f"{self._path} was removed: another task has taken over its partition") from None
        self._is_renamed = True

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def remove_unfinished(directory: Path, connector: str, partition: TopicPartition) -> None:
    """Remove what tasks of this connector that ran before have left unfinished for a partition."""
    unfinished = unfinished_directory(directory, connector)
    for path in unfinished.iterdir() if unfinished.is_dir() else ():
        if path.stem == f"{partition.topic}-{partition.partition}":
            path.unlink(missing_ok=True)
