"""Which offset of the target belongs to an offset of the source, for one partition, exactly. Pure.

The map is a list of *runs* (`map_chunk.py`) in the order of both logs. Offsets of the source between runs have no
record at the target: transaction markers, aborted records, gaps of compaction, refused and lost records. Offsets of
the target between runs are records that somebody else wrote. Nothing is sampled, so a translated offset neither skips
a record nor repeats one.

A topic without transactions and gaps is one run however long it is. With transactions there is a run for each, so
finished runs are kept encoded, in chunks of `RUNS_PER_CHUNK`: two or three bytes per run. Where the chunks part
depends on the runs only, so that two workers which copy the same partition write the same chunks.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Self

from ottla_mirror.offsets.map_chunk import MapChunk, Run, decode_runs, encode_chunk

RUNS_PER_CHUNK: Final = 1024


class Translation(NamedTuple):
    """What an offset of the source is at the target.

    Attributes:
        target_offset: of the first record at the target whose source offset is not below the one asked for; the end
            of what was copied if there is none yet.
        not_copied: how far the offset asked for lies beyond the map's end, in offsets of the source. Above zero the
            target offset holds for what was copied so far, and has to be asked for again.
    """

    target_offset: int
    not_copied: int


class MapBounds(NamedTuple):
    """Where a map begins and ends, to be kept beside its chunks.

    Attributes:
        first_chunk: number of the first chunk.
        last_chunk: number of the chunk that is being written.
        source_start: source offset below which the map knows nothing.
        target_start: target offset below which the map knows nothing.
        runs_source_end: where the last run ends at the source.
        runs_target_end: where the last run ends at the target.
        source_end: all records of the source below are dealt with: copied, or not to be copied.
        target_end: the target offset after the last copied record, of this history of the source or a former one.
    """

    first_chunk: int
    last_chunk: int
    source_start: int
    target_start: int
    runs_source_end: int
    runs_target_end: int
    source_end: int
    target_end: int


class Hole(NamedTuple):
    """A part of a map that is lost, because a stored chunk is missing or an old one.

    Attributes:
        number: of the first chunk of which something is lost.
        source_start: source offset from which runs are missing.
        target_start: target offset from which they are missing.
        source_end: source offset before which they are missing.
        target_end: target offset before which they are missing.
    """

    number: int
    source_start: int
    target_start: int
    source_end: int
    target_end: int


class OffsetMap:
    """The map of one partition.

    Attributes:
        source_start: the source offset below which the map knows nothing.
        target_start: the target offset below which the map knows nothing.
        source_end: all records of the source below are dealt with: copied, or not to be copied.
        target_end: the target offset after the last copied record; moves back only if the target loses records.
    """

    __slots__ = (
        "_decoded",
        "_number",
        "_open_start",
        "_runs",
        "_runs_end",
        "_sealed",
        "source_end",
        "source_start",
        "target_end",
        "target_start",
    )

    def __init__(self, source_start: int, target_start: int, *, number: int = 0) -> None:
        """Begin an empty map.

        Args:
            source_start: the source offset where copying begins.
            target_start: the target's log end when it begins, or any offset below.
            number: of its first chunk.
        """
        assert source_start >= 0 <= target_start, f"offsets below zero: {source_start}, {target_start}"
        self.source_start = self.source_end = source_start
        self.target_start = self.target_end = target_start
        # The chunk being written: its number, where the runs before it ended, its runs, and where they end.
        self._number = number
        self._open_start = self._runs_end = (source_start, target_start)
        self._runs: list[Run] = []
        self._sealed: list[MapChunk] = []
        self._decoded: tuple[MapChunk | None, list[Run]] = (None, [])

    @classmethod
    def from_chunks(cls, chunks: Iterable[MapChunk], bounds: MapBounds) -> Self:
        """Return the map that was stored; `holes` says what of it is lost.

        Args:
            chunks: those that were found, in order. What they say of runs beyond the bounds is left out.
            bounds: the map's, when it was stored.

        Raises:
            InvalidRecord: the last chunk cannot be read.
        """
        stored = cls(bounds.source_start, bounds.target_start, number=bounds.last_chunk)
        for found in chunks:
            chunk = found
            if not bounds.first_chunk <= chunk.number <= bounds.last_chunk:
                continue
            if chunk.source_end > bounds.runs_source_end:
                runs = _runs_before(decode_runs(chunk), bounds.runs_source_end)
                if not runs:
                    continue
                chunk = encode_chunk(chunk.number, chunk.source_start, chunk.target_start, runs)
            if chunk.number < bounds.last_chunk:
                stored._sealed.append(chunk)
            else:
                stored._open_start = (chunk.source_start, chunk.target_start)
                stored._take_runs(decode_runs(chunk))
        if stored._runs_end != (bounds.runs_source_end, bounds.runs_target_end):
            # What is appended from now on must not hide that runs are missing before it.
            stored._seal()
            stored._open_start = stored._runs_end = (bounds.runs_source_end, bounds.runs_target_end)
        stored.source_end, stored.target_end = bounds.source_end, bounds.target_end
        return stored

    @property
    def bounds(self) -> MapBounds:
        """Where the map begins and ends."""
        return MapBounds(
            first_chunk=self._sealed[0].number if self._sealed else self._number,
            last_chunk=self._number,
            source_start=self.source_start,
            target_start=self.target_start,
            runs_source_end=self._runs_end[0],
            runs_target_end=self._runs_end[1],
            source_end=self.source_end,
            target_end=self.target_end,
        )

    def append(self, source_offset: int, target_offset: int, count: int) -> None:
        """Take note of records that the target has now; source offsets left out before them are dealt with."""
        assert count > 0, "a run has at least one record"
        assert source_offset >= self.source_end, f"source offset {source_offset} is below {self.source_end}"
        assert target_offset >= self.target_end, f"target offset {target_offset} is below {self.target_end}"
        runs = self._runs
        if runs and (source_offset, target_offset) == self._runs_end:
            source, target, _ = runs[-1]
            # This is done for every batch, so not by the class's own constructor, which is one more call.
            runs[-1] = tuple.__new__(Run, (source, target, source_offset + count - source))
        else:
            if len(runs) >= RUNS_PER_CHUNK:
                self._seal()
            self._runs.append(Run(source_offset, target_offset, count))
        self.source_end, self.target_end = self._runs_end = (source_offset + count, target_offset + count)

    def skip_to(self, source_offset: int) -> None:
        """Take note that all records of the source below are dealt with."""
        assert source_offset >= self.source_end, f"source offset {source_offset} is below {self.source_end}"
        self.source_end = source_offset

    def skip_target_to(self, target_offset: int) -> None:
        """Take note that no record is going to be copied to a lower offset of the target."""
        self.target_end = max(self.target_end, target_offset)

    def lose_until(self, source_offset: int, target_offset: int) -> None:
        """Take note that what was copied up to these offsets is unknown: there is a hole from the map's end on."""
        assert source_offset >= self.source_end, f"source offset {source_offset} is below {self.source_end}"
        self.skip_target_to(target_offset)
        self._seal()
        self._open_start = self._runs_end = (source_offset, self.target_end)
        self.source_end = source_offset

    def translate(self, source_offset: int) -> Translation:
        """Return what an offset of the source is at the target.

        In a hole it is the hole's start, which may repeat records and skips none.

        Raises:
            InvalidRecord: a stored chunk cannot be read.
        """
        if source_offset >= self.source_end:
            return Translation(self.target_end, source_offset - self.source_end)
        index = bisect_right(self._sealed, source_offset, key=_source_end)
        before = self._end_before(index)
        if self._start_of(index) != before and source_offset < self._start_of(index)[0]:
            return Translation(before[1], 0)
        runs = self._runs_of(index)
        place = bisect_right(runs, source_offset, key=_run_source_end)
        if place == len(runs):
            return Translation(self.target_end, 0)
        run = runs[place]
        return Translation(run.target + max(0, source_offset - run.source), 0)

    def truncate_from(self, source_offset: int) -> None:
        """Forget what was copied from this source offset on, because the source has other records there now.

        The target keeps what it has: `target_end` stays.

        Raises:
            InvalidRecord: a stored chunk cannot be read.
        """
        assert source_offset >= 0, f"an offset below zero: {source_offset}"
        while source_offset <= self._open_start[0]:
            before = self._end_before(len(self._sealed))
            if before != self._open_start and source_offset > before[0]:
                # Within a hole, of which the first part stays.
                self._open_start, self._runs = (source_offset, self._open_start[1]), []
                break
            if not self._sealed:
                self._open_start, self._runs = (source_offset, before[1]), []
                break
            chunk = self._sealed.pop()
            self._number, self._open_start = chunk.number, (chunk.source_start, chunk.target_start)
            self._runs = decode_runs(chunk)
        runs = _runs_before(self._runs, source_offset)
        self._runs_end = self._open_start
        self._take_runs(runs)
        self.source_start = min(self.source_start, source_offset)
        self.source_end = min(self.source_end, source_offset)

    def cut_target(self, target_offset: int) -> None:
        """Forget what was copied to this target offset and beyond, because the target has lost it.

        Raises:
            InvalidRecord: a stored chunk cannot be read.
        """
        source_end = self.source_end
        lost = next((run for run in self.runs() if run.target_end > target_offset), None)
        if lost is not None:
            self.truncate_from(lost.source + max(0, target_offset - lost.target))
        if not self._runs and self._open_start[1] > target_offset:
            self._open_start = self._runs_end = (self._open_start[0], target_offset)
        self.target_start = min(self.target_start, target_offset)
        self.source_end = source_end
        self.target_end = min(self.target_end, target_offset)

    def trim_below(self, source_offset: int, target_offset: int) -> None:
        """Forget chunks that end below both offsets; what lies there is translated to where the rest begins."""
        ended = bisect_right(self._sealed, source_offset, key=_source_end)
        ended = min(ended, bisect_right(self._sealed, target_offset, key=_target_end))
        if ended:
            start = self._start_of(ended)
            # A hole that reaches beyond stays one: who is in it would be sent behind records of it otherwise.
            is_below = start[0] <= source_offset and start[1] <= target_offset
            self.source_start, self.target_start = start if is_below else self._end_before(ended)
            del self._sealed[:ended]

    def forget_below(self, source_offset: int) -> None:
        """Forget chunks of what the source has deleted, whose log begins at this offset.

        An offset below that is translated to that of the source's first record at the target, or one before it, so
        that a group which is left behind misses nothing that the source still has.
        """
        self.trim_below(source_offset, self.target_end)

    @property
    def unknown_offsets(self) -> int:
        """How many offsets of the source are in holes."""
        return sum(hole.source_end - hole.source_start for hole in self.holes())

    def holes(self) -> list[Hole]:
        """Return what is lost of the map, in order."""
        found = []
        for index in range(len(self._sealed) + 1):
            before, start = self._end_before(index), self._start_of(index)
            if before != start:
                number = self._sealed[index - 1].number if index else self._number_of(0) - 1
                found.append(Hole(number, *before, *start))
        return found

    def fill(self, hole: Hole, runs: Sequence[Run]) -> None:
        """Put back what was lost.

        Args:
            hole: one of `holes`, as the map is now.
            runs: all that both logs have in it, in order, those that continue each other merged.

        Raises:
            InvalidRecord: a stored chunk cannot be read.
        """
        index = next(each for each in range(len(self._sealed) + 1) if self._end_before(each) == hole[1:3])
        assert self._start_of(index) == hole[3:5], f"{hole} is none of this map"
        assert not runs or (runs[0].source >= hole.source_start and runs[-1].source_end <= hole.source_end)
        start = self._start_of(index - 1) if index else self._end_before(0)
        before = decode_runs(self._sealed[index - 1]) if index else []
        filled = _in_chunks([*before, *runs], start, hole.number, self._number_of(index) - 1)
        self._sealed[max(0, index - 1) : index] = filled
        self._join(max(0, index - 1) + len(filled))

    def runs(self) -> Iterator[Run]:
        """Yield all runs in order.

        Raises:
            InvalidRecord: a stored chunk cannot be read.
        """
        for chunk in self._sealed:
            yield from decode_runs(chunk)
        yield from self._runs

    def chunks(self) -> list[MapChunk]:
        """Return the map for storage; appending changes only the last chunk."""
        if not self._runs:
            return list(self._sealed)
        return [*self._sealed, encode_chunk(self._number, *self._open_start, self._runs)]

    def _seal(self) -> None:
        """Have a new chunk begin where the present one ends."""
        if self._runs:
            self._sealed.append(encode_chunk(self._number, *self._open_start, self._runs))
            self._number += 1
            self._open_start, self._runs = self._runs_end, []

    def _take_runs(self, runs: list[Run]) -> None:
        """Make these the runs of the chunk being written."""
        self._runs = runs
        self._runs_end = (runs[-1].source_end, runs[-1].target_end) if runs else self._open_start

    def _join(self, index: int) -> None:
        """Have a chunk begin where the one before it ends; nothing is known to be between them any more."""
        before = self._end_before(index)
        if index < len(self._sealed):
            chunk = self._sealed[index]
            self._sealed[index] = encode_chunk(chunk.number, *before, decode_runs(chunk))
        else:
            self._open_start = before
            if not self._runs:
                self._runs_end = before

    def _number_of(self, index: int) -> int:
        return self._sealed[index].number if index < len(self._sealed) else self._number

    def _start_of(self, index: int) -> tuple[int, int]:
        """Where chunk number `index` of those that are there says that the runs before it ended."""
        if index == len(self._sealed):
            return self._open_start
        return self._sealed[index].source_start, self._sealed[index].target_start

    def _end_before(self, index: int) -> tuple[int, int]:
        """Where the runs before chunk number `index` of those that are there do end."""
        if index == 0:
            return self.source_start, self.target_start
        return self._sealed[index - 1].source_end, self._sealed[index - 1].target_end

    def _runs_of(self, index: int) -> list[Run]:
        """Return the runs of chunk number `index`, and keep them for the next who asks."""
        if index == len(self._sealed):
            return self._runs
        chunk = self._sealed[index]
        if self._decoded[0] is not chunk:
            self._decoded = (chunk, decode_runs(chunk))
        return self._decoded[1]


def _runs_before(runs: list[Run], source_offset: int) -> list[Run]:
    """Return the runs, or what is left of them, that lie below an offset of the source."""
    kept = [run for run in runs if run.source < source_offset]
    if kept and kept[-1].source_end > source_offset:
        last = kept[-1]
        kept[-1] = Run(last.source, last.target, source_offset - last.source)
    return kept


def _in_chunks(runs: Sequence[Run], start: tuple[int, int], number: int, number_max: int) -> list[MapChunk]:
    """Return chunks of the usual size with these numbers; the last takes what is left."""
    chunks: list[MapChunk] = []
    while runs:
        take = RUNS_PER_CHUNK if number < number_max else len(runs)
        chunk = encode_chunk(number, *start, runs[:take])
        chunks.append(chunk)
        runs, number, start = runs[take:], number + 1, (chunk.source_end, chunk.target_end)
    return chunks


def _source_end(chunk: MapChunk) -> int:
    return chunk.source_end


def _target_end(chunk: MapChunk) -> int:
    return chunk.target_end


def _run_source_end(run: Run) -> int:
    return run.source_end
