"""Reading the bytes of a file at a position, whether it is compressed or not.

A compressed file's positions are those in what comes out. Going back in it means to begin anew; that happens when a
task restarts, never while it reads on.
"""

import bz2
import gzip
import lzma
import os
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Protocol

import zstandard

from ottla_file.births import birth_us
from ottla_file.families import is_compressed
from ottla_file.zstd_frames import is_whole
from ottla_sdk.file_policy import permitted_path

_SKIP_BYTES = 1 << 20


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class DamagedFile(Exception):
    """A compressed file is cut off or holds something else; the message says what."""


class ByteStream(ABC):
    """An open file."""

    @abstractmethod
    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position` on; none means that there are none now.

        Raises:
            OSError: the file system does not give them.
            DamagedFile: a compressed file makes no sense there.
        """

    @abstractmethod
    def status(self) -> os.stat_result:
        """Return the status of the file that is open, wherever it is now."""

    @abstractmethod
    def close(self) -> None:
        """Close it."""

    @abstractmethod
    def birth_us(self) -> int:
        """Return when the open file was born, in µs since the epoch; `births.UNKNOWN_US` if nobody knows."""


class PlainStream(ByteStream):
    """A file that is not compressed."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read_at(self, position: int, size: int) -> bytes:
        """Return what is there now."""
        return os.pread(self._descriptor, size, position)

    def status(self) -> os.stat_result:
        """Return the open file's status."""
        return os.fstat(self._descriptor)

    def birth_us(self) -> int:
        """Return the open file's birth."""
        return birth_us(self._descriptor, self.status().st_ino)

    def close(self) -> None:
        """Close it; once only."""
        os.close(self._descriptor)


class CompressedStream(ByteStream):
    """A file whose name says how it is compressed."""

    def __init__(self, path: Path, suffix: str) -> None:
        self._suffix = suffix
        self._file = path.open("rb")
        self._plain = self._decompressed()
        self._position = 0

    def read_at(self, position: int, size: int) -> bytes:
        """Return what comes out there."""
        try:
            if position < self._position:
                self._file.seek(0)
                self._plain = self._decompressed()
                self._position = 0
            while self._position < position:
                skipped = self._plain.read(min(_SKIP_BYTES, position - self._position))
                if not skipped:
                    self._expect_whole()
                    return b""
                self._position += len(skipped)
            data = self._plain.read(size)
        except (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, gzip.BadGzipFile) as error:
            raise DamagedFile(str(error)) from error
        except OSError as error:
            if error.errno is None:  # bz2 says so when the data is invalid
                raise DamagedFile(str(error)) from error
            raise
        if not data:
            self._expect_whole()
        self._position += len(data)
        return data

    def status(self) -> os.stat_result:
        """Return the open file's status."""
        return os.fstat(self._file.fileno())

    def birth_us(self) -> int:
        """Return the open file's birth."""
        return birth_us(self._file.fileno(), self.status().st_ino)

    def close(self) -> None:
        """Close it."""
        self._file.close()

    def _expect_whole(self) -> None:
        if self._suffix == ".zst" and not is_whole(self._file.fileno()):
            raise DamagedFile("the file is cut off")

    def _decompressed(self) -> _Readable:
        match self._suffix:
            case ".gz":
                return gzip.GzipFile(fileobj=self._file, mode="rb")
            case ".bz2":
                return bz2.BZ2File(self._file)
            case ".xz":
                return lzma.LZMAFile(self._file)
            case suffix:
                assert suffix == ".zst", f"{suffix} says of no compression"
                decompressor = zstandard.ZstdDecompressor()
                return decompressor.stream_reader(self._file, read_across_frames=True)


def open_stream(path: Path) -> ByteStream:
    """Open a file for reading.

    Raises:
        OSError: it cannot be opened.
        FileRefused: the worker does not let connectors touch it.
    """
    target = permitted_path(path)
    return CompressedStream(target, path.suffix) if is_compressed(path.name) else PlainStream(target)
