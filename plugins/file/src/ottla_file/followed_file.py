"""One file that is read: where it stands, and whether it still is what it was.

Behind every row stands a `check`, the CRC-32 of up to 64 bytes before it. A file in which it does not fit any more
has been emptied or replaced. (That the inode is the same proves nothing: file systems use the inodes of removed files
again at once. Not all of them tell when a file was born.)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, compress
from typing import Any
from zlib import crc32

from ottla_file.births import UNKNOWN_US
from ottla_file.byte_streams import ByteStream, open_stream
from ottla_file.discovery import FoundFile
from ottla_file.families import is_compressed
from ottla_file.rows import BadRow, Decoder, Rows
from ottla_sdk import Schema

CHECKED_BYTES = 64
READ_BYTES = 256 * 1024
_NEVER_SEEN = (-1, -1)


class Replaced(Exception):
    """The file does not hold any more what was read from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place behind a row.

    Attributes:
        position: bytes before it.
        line: lines before it.
        check: CRC-32 of the bytes right before it, 64 at most.
        birth_us: when the file was born of which it is; `births.UNKNOWN_US` if that is not known.
    """

    position: int = 0
    line: int = 0
    check: int = 0
    birth_us: int = UNKNOWN_US

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> "Place":
        """Return the place that a committed source offset says."""
        return cls(
            position=int(offset["position"]),
            line=int(offset.get("line", 0)),
            check=offset.get("check", -1),
            birth_us=offset.get("birth_us", UNKNOWN_US),
        )

    def may_be_of(self, birth_us: int) -> bool:
        """Return whether a file that was born then may be the one of which this is a place."""
        return UNKNOWN_US in (birth_us, self.birth_us) or birth_us == self.birth_us

    @property
    def is_checked(self) -> bool:
        """Whether there is a check; offsets that people set have none."""
        return self.check >= 0


@dataclass(slots=True)
class Batch:
    """Rows of a file.

    Attributes:
        values: the readable rows.
        positions: the bytes before what follows each of them.
        lines: the lines before it.
        checks: CRC-32 of the bytes right before it.
        bad: rows that cannot be read: how many of `values` come before, the line's number from 1, what is wrong.
        schema: the schema of the values, if they have one.
    """

    values: list[Any]
    positions: list[int]
    lines: list[int]
    checks: list[int]
    bad: list[BadRow]
    schema: Schema | None


class FollowedFile:
    """A file that is being read.

    Attributes:
        found: how it was found last; its path is where it is now.
        finite: whether it ends, so that its last line need not have an end.
        place: behind the last row that was returned or left out.
        at_end: whether there was nothing more to read when it was looked at last.
        finished: whether it is finite and read to its end, or given up.
        given_up: whether the rest of it, or all, cannot be read as it is.
        emitted: the position behind the last row that was returned, 0 if none was.
    """

    def __init__(
        self, found: FoundFile, new_decoder: Callable[[], Decoder], *, row_bytes_max: int, finite: bool, place: Place
    ) -> None:
        self.found = found
        self.finite = finite
        self.place = place
        self.at_end = False
        self.finished = False
        self.given_up = False
        self.emitted = 0
        self._new_decoder = new_decoder
        self._decoder = new_decoder()
        self._row_bytes_max = row_bytes_max
        self._stream: ByteStream | None = None
        self._carry = b""  # read, but not yet rows
        self._before = b""  # the bytes before `place`
        self._seen = _NEVER_SEEN
        self._discarding = False  # within a row that is too long

    @property
    def is_open(self) -> bool:
        """Whether it holds a file descriptor."""
        return self._stream is not None

    @property
    def is_compressed(self) -> bool:
        """Whether it is compressed."""
        return is_compressed(self.found.path.name)

    def close(self) -> None:
        """Give back the file descriptor; reading opens it again. What was read, but is no row yet, is read again."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._carry = b""

    def restart(self) -> None:
        """Begin at the beginning again: the file was replaced."""
        self.close()
        self.place = Place()
        self._decoder = self._new_decoder()
        self.at_end = self.finished = self.given_up = self._discarding = False
        self.emitted = 0
        self._before = b""
        self._seen = _NEVER_SEEN

    def is_unchanged(self, size: int, modified_ns: int) -> bool:
        """Return whether these are what they were when it was read last."""
        return self._seen == (size, modified_ns)

    def give_up(self) -> None:
        """Read nothing more of it unless it changes."""
        self._seen = self._size_and_change()
        self.at_end = self.finished = self.given_up = True
        self.close()

    def holds(self, place: Place) -> bool:
        """Return whether this file's content right before a place is what it was where the place is from.

        Raises:
            OSError: it cannot be read.
        """
        stream = self._stream or open_stream(self.found.path)
        try:
            return _bytes_before(stream, place) is not None
        finally:
            if stream is not self._stream:
                stream.close()

    def read(self, rows_max: int, *, now_ns: int, settle_ns: int) -> Batch | None:
        """Return the next rows, or None if there are none now.

        Args:
            rows_max: about how many rows at most.
            now_ns: the time, in ns since the epoch.
            settle_ns: for how long a finite file must not have changed before its last row counts.

        Raises:
            Replaced: the file was emptied or holds something else; `restart` it.
            BadHeader: it has no usable header.
            DamagedFile: it is compressed, and damaged.
            OSError: it cannot be read.
        """
        size, modified_ns = self._size_and_change()
        if self.at_end and self._seen == (size, modified_ns) and (self.finished or not self.finite):
            return None
        settled = now_ns - modified_ns >= settle_ns
        if self.is_compressed and not settled:
            return None
        stream = self._stream or self._start()
        if self._seen not in ((size, modified_ns), _NEVER_SEEN):
            self._expect_unreplaced(stream, size)
        self._seen = (size, modified_ns)
        batch = self._next_batch(stream, rows_max, ends=self.finite and settled)
        self.at_end = batch is None
        self.finished = batch is None and self.finite and settled
        self.given_up = False
        return batch

    def _size_and_change(self) -> tuple[int, int]:
        if self._stream is None:
            return self.found.size, self.found.modified_ns
        status = self._stream.status()
        return status.st_size, status.st_mtime_ns

    def _start(self) -> ByteStream:
        stream = open_stream(self.found.path)
        try:
            identity = (stream.status().st_ino, stream.birth_us())
            if identity != (self.found.id.inode, self.found.id.birth_us):
                raise FileNotFoundError(f"{self.found.path} has just been replaced")
            before = _bytes_before(stream, self.place)
            if before is None:
                raise Replaced
            if self.place.position and self._decoder.needs_head:
                self._decoder.take_head(stream.read_at(0, self._row_bytes_max))
        except BaseException:
            stream.close()
            raise
        self._before = before
        self._stream = stream
        return stream

    def _expect_unreplaced(self, stream: ByteStream, size: int) -> None:
        """Check a file that has changed."""
        self._carry = b""
        if self._decoder.is_whole and self.place.position:
            raise Replaced
        if not self.is_compressed and (size < self.place.position or _bytes_before(stream, self.place) is None):
            raise Replaced

    def _next_batch(self, stream: ByteStream, rows_max: int, *, ends: bool) -> Batch | None:
        exhausted = False
        while True:
            if not exhausted and len(self._carry) < READ_BYTES:
                chunk = stream.read_at(self.place.position + len(self._carry), READ_BYTES)
                exhausted = not chunk
                self._carry += chunk
            if self._discarding and not self._discard(final=exhausted and ends):
                if exhausted:
                    return None
                continue
            data = self._carry
            rows = self._decoder.decode(data, final=exhausted and ends, rows_max=rows_max)
            if not rows.consumed:
                if len(data) > self._row_bytes_max:
                    return self._too_long()
                if exhausted:
                    return None
                chunk = stream.read_at(self.place.position + len(data), READ_BYTES)
                exhausted = not chunk
                self._carry += chunk
                continue
            batch = self._batch(rows, data)
            if batch.values or batch.bad:
                return batch

    def _batch(self, rows: Rows, data: bytes) -> Batch:
        """Take rows out of the bytes that were read, and work out where each ends in the file."""
        values, ends, lines, bad = self._short_rows(rows)
        joined = self._before + data
        known = len(self._before)
        here, line = self.place.position, self.place.line
        checks = [crc32(joined[max(0, known + end - CHECKED_BYTES) : known + end]) for end in ends]
        batch = Batch(
            values,
            [here + end for end in ends],
            [line + each for each in lines],
            checks,
            [replace(each, line=line + each.line) for each in bad],
            self._decoder.schema,
        )
        self._advance(rows.consumed, rows.consumed_lines)
        if batch.positions:
            self.emitted = batch.positions[-1]
        return batch

    def _short_rows(self, rows: Rows) -> tuple[list[Any], list[int], list[int], list[BadRow]]:
        """Return values, ends, lines and bad rows, with those among the bad that are too long."""
        if rows.consumed <= self._row_bytes_max:
            return rows.values, rows.ends, rows.lines, rows.bad
        short = [end - begin <= self._row_bytes_max for begin, end in zip(rows.begins, rows.ends, strict=True)]
        if all(short):
            return rows.values, rows.ends, rows.lines, rows.bad
        before = list(accumulate(short, initial=0))
        bad = [replace(each, before=before[each.before]) for each in rows.bad]
        bad += [
            BadRow(before[number], line, self._length_problem)
            for number, (is_short, line) in enumerate(zip(short, rows.lines, strict=True))
            if not is_short
        ]
        return (
            list(compress(rows.values, short)),
            list(compress(rows.ends, short)),
            list(compress(rows.lines, short)),
            sorted(bad, key=lambda each: each.line),
        )

    @property
    def _length_problem(self) -> str:
        return f"is longer than file.row.bytes.max allows ({self._row_bytes_max})"

    def _too_long(self) -> Batch:
        bad = BadRow(0, self.place.line + 1, self._length_problem)
        self._discarding = True
        self._advance(len(self._carry), 0)
        return Batch([], [], [], [], [bad], None)

    def _discard(self, *, final: bool) -> bool:
        """Drop what belongs to a row that is too long; return whether its end was found."""
        end = -1 if self._decoder.is_whole else self._carry.find(b"\n")
        self._advance(end + 1 or len(self._carry), 1 if end >= 0 else 0)
        self._discarding = end < 0 and not final
        return not self._discarding

    def _advance(self, size: int, lines: int) -> None:
        self._before = (self._before + self._carry[:size])[-CHECKED_BYTES:]
        self._carry = self._carry[size:]
        self.place = Place(
            position=self.place.position + size, line=self.place.line + lines, check=crc32(self._before)
        )


def _bytes_before(stream: ByteStream, place: Place) -> bytes | None:
    """Return the bytes right before a place; None if they are not what they were."""
    start = max(0, place.position - CHECKED_BYTES)
    before = stream.read_at(start, place.position - start)
    if len(before) < place.position - start or (place.is_checked and crc32(before) != place.check):
        return None
    return before
