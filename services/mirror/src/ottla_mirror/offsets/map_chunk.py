"""A stretch of an offset map as a few bytes: the unit in which maps are kept in memory and stored. Pure.

A *run* says that `count` records of the source, at consecutive offsets from `source` on, are at consecutive offsets
of the target from `target` on. A chunk begins where the last run of the chunk before it ended, so whether a chunk is
missing, or is an older state of itself, shows by comparing ends with starts.

The bytes are unsigned varints: the chunk's start at the source and at the target, how far it reaches at each, and per
run the gap before it at the source, doubled, plus one if there is a gap at the target too; that gap; the count. A
transaction's data and marker take two or three bytes so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla_core.errors import InvalidRecord
from ottla_core.wire.record_batch import Buffer

VARINT_BITS_MAX: Final = 63


class Run(NamedTuple):
    """Records at consecutive offsets on both sides.

    Attributes:
        source: offset of the first at the source.
        target: offset of the first at the target.
        record_count: how many, one at least.
    """

    source: int
    target: int
    record_count: int

    @property
    def source_end(self) -> int:
        """The source offset after the last."""
        return self.source + self.record_count

    @property
    def target_end(self) -> int:
        """The target offset after the last."""
        return self.target + self.record_count


@dataclass(frozen=True, slots=True, kw_only=True)
class MapChunk:
    """Some runs that follow each other.

    Attributes:
        number: its place in the map; one higher than that of the chunk before.
        source_start: where the last run of the chunk before ended at the source.
        target_start: likewise at the target.
        source_end: where its own last run ends at the source.
        target_end: likewise at the target.
        encoded: all but the number, as bytes.
    """

    number: int
    source_start: int
    target_start: int
    source_end: int
    target_end: int
    encoded: bytes


def encode_chunk(number: int, source_start: int, target_start: int, runs: Sequence[Run]) -> MapChunk:
    """Return a chunk of at least one run, which lie in order behind its start."""
    assert runs, "a chunk has at least one run"
    last = runs[-1]
    output = bytearray()
    for value in (source_start, target_start, last.source_end - source_start, last.target_end - target_start):
        _write(output, value)
    source, target = source_start, target_start
    for run in runs:
        source_gap, target_gap = run.source - source, run.target - target
        assert source_gap >= 0 <= target_gap < run.target_end, f"{run} overlaps the run before"
        _write(output, source_gap << 1 | (target_gap > 0))
        if target_gap:
            _write(output, target_gap)
        _write(output, run.record_count)
        source, target = run.source_end, run.target_end
    return MapChunk(
        number=number,
        source_start=source_start,
        target_start=target_start,
        source_end=last.source_end,
        target_end=last.target_end,
        encoded=bytes(output),
    )


def read_chunk(number: int, encoded: bytes) -> MapChunk:
    """Return the chunk that these bytes are, its runs not yet looked at.

    Raises:
        InvalidRecord: the bytes are no chunk.
    """
    try:
        source_start, position = _read(encoded, 0)
        target_start, position = _read(encoded, position)
        source_span, position = _read(encoded, position)
        target_span, position = _read(encoded, position)
    except IndexError:
        raise InvalidRecord("A chunk of an offset map ends within its head") from None
    return MapChunk(
        number=number,
        source_start=source_start,
        target_start=target_start,
        source_end=source_start + source_span,
        target_end=target_start + target_span,
        encoded=encoded,
    )


def decode_runs(chunk: MapChunk) -> list[Run]:
    """Return the chunk's runs.

    Raises:
        InvalidRecord: the bytes are no chunk, or its runs do not end where its head says.
    """
    encoded, runs = chunk.encoded, []
    source, target = chunk.source_start, chunk.target_start
    try:
        position = 0
        for _ in range(4):
            _, position = _read(encoded, position)
        while position < len(encoded):
            source_gap, position = _read(encoded, position)
            target_gap = 0
            if source_gap & 1:
                target_gap, position = _read(encoded, position)
            count, position = _read(encoded, position)
            run = Run(source + (source_gap >> 1), target + target_gap, count)
            runs.append(run)
            source, target = run.source_end, run.target_end
    except IndexError:
        raise InvalidRecord("A chunk of an offset map ends within a run") from None
    if not runs or (source, target) != (chunk.source_end, chunk.target_end):
        raise InvalidRecord(
            f"The runs of an offset map's chunk end at {source} and {target}, not where its head says"
        )
    return runs


def _write(output: bytearray, value: int) -> None:
    while value > 0x7F:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)


def _read(buffer: Buffer, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > VARINT_BITS_MAX:
            raise InvalidRecord("A varint in an offset map has more than ten bytes")
