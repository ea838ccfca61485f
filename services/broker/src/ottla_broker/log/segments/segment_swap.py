"""Putting a cleaned segment in the place of those it was made from, so that a crash at any moment loses nothing.

A cleaned segment is written to `*.cleaned` files. The swap is a row of renames: `*.cleaned` to `*.swap`, the `.log`
last; the old segments' files to `*.deleted`, the oldest first; `*.swap` to their final names, the `.log` first. The
moment that counts is when `<base offset>.log.swap` comes into being: before it the old segments are the log, and what
a crash left is removed; after it the new one is, and the next start does what is left to do. The names and their
meaning are Kafka's, so either broker finishes what the other began.

A start after a crash removes those old segments that the new one's batches reach into. If the new one holds nothing
of the last ones they stay, as in Kafka; what they hold is superseded by later records, and is cleaned again.
Source: Kafka's LocalLog.replaceSegments and LogLoader.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from ottla_broker.log.segments.index_file import INT32_MAX
from ottla_broker.log.segments.offset_index import OffsetIndex
from ottla_broker.log.segments.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    segment_path,
    suffixed,
)
from ottla_broker.log.segments.segment_file import SegmentFile
from ottla_broker.log.segments.segment_scan import walk_headers
from ottla_core.errors import CorruptMessage

_logger: Final = structlog.get_logger("log.compaction")

Rename = tuple[Path, Path]


class SwapInterrupted(OSError):
    """A swap could neither be done nor undone. The files are as after a crash, and the next start sees to them."""


def swap_steps(directory: Path, base_offset: int, old_base_offsets: Iterable[int]) -> list[Rename]:
    """Return the renames that put the cleaned segment of a base offset in place of the old ones.

    Args:
        directory: the partition's directory.
        base_offset: the cleaned segment's.
        old_base_offsets: those of the segments it replaces, ascending.
    """
    new = [segment_path(directory, base_offset, suffix) for suffix in SEGMENT_SUFFIXES]
    new = [path for path in new if suffixed(path, CLEANED_SUFFIX).exists()]
    old = [segment_path(directory, offset, suffix) for offset in old_base_offsets for suffix in SEGMENT_SUFFIXES]
    return [
        *((suffixed(path, CLEANED_SUFFIX), suffixed(path, SWAP_SUFFIX)) for path in reversed(new)),
        *((path, suffixed(path, DELETED_SUFFIX)) for path in old if path.exists()),
        *((suffixed(path, SWAP_SUFFIX), path) for path in new),
    ]


def carry_out(steps: Sequence[Rename], rename: Callable[[Path, Path], object] = Path.rename) -> None:
    """Do the renames in order; undo them if one fails, and raise its OSError.

    Raises:
        SwapInterrupted: one that was done cannot be undone.
    """
    done: list[Rename] = []
    try:
        for source, target in steps:
            rename(source, target)
            done.append((source, target))
    except OSError as error:
        take_back(done, error)
        raise


def take_back(done: Sequence[Rename], reason: OSError) -> None:
    """Undo renames, the last one first, because of what has failed behind them.

    Raises:
        SwapInterrupted: one cannot be undone.
    """
    for source, target in reversed(done):
        try:
            target.rename(source)
        except OSError as error:
            # Those before it stay: without both the new segment's name and this one nothing would be left of either.
            raise SwapInterrupted(*reason.args) from error


def remove_cleaned(directory: Path) -> None:
    """Remove what a round that was given up has written; raises OSError."""
    for path in directory.iterdir():
        if path.suffix == CLEANED_SUFFIX:
            path.unlink(missing_ok=True)


def finish_swaps(directory: Path) -> None:
    """Undo or finish the swaps that a crash interrupted.

    Raises:
        OSError: the disk failed.
        CorruptMessage: a cleaned segment, which had been fsynced, is damaged. Swaps are finished all the same, and
            the log has to be recovered.
    """
    left = [path for path in directory.iterdir() if path.suffix in {CLEANED_SUFFIX, SWAP_SUFFIX}]
    if not left:
        return
    for path in left:
        if path.name.endswith(LOG_SUFFIX + CLEANED_SUFFIX):
            _undo(path.with_suffix(""))
    damaged = [
        path.name for path in sorted(directory.glob(f"*{LOG_SUFFIX}{SWAP_SUFFIX}")) if not _finish(directory, path)
    ]
    for path in directory.iterdir():
        if path.suffix == SWAP_SUFFIX:  # an index, whose segment has its final name already
            path.rename(path.with_suffix(""))
        elif path.suffix == CLEANED_SUFFIX:
            path.unlink()
    if damaged:
        raise CorruptMessage(f"{directory} had damaged segments that a swap had left: {', '.join(damaged)}")


def _undo(log_path: Path) -> None:
    """Remove a new segment whose swap did not come to the moment that counts; its `.log.cleaned` goes last."""
    for suffix in reversed(SEGMENT_SUFFIXES):
        for stage in (SWAP_SUFFIX, CLEANED_SUFFIX):
            suffixed(log_path.with_suffix(suffix), stage).unlink(missing_ok=True)


def _finish(directory: Path, swap_path: Path) -> bool:
    """Put a cleaned segment into place; return whether it is sound, as far as was looked."""
    log_path = swap_path.with_suffix("")
    base_offset = int(log_path.stem)
    found, is_sound = _next_offset(swap_path, log_path.with_suffix(INDEX_SUFFIX), base_offset)
    next_offset = max(base_offset + 1, found)
    replaced = sorted(
        path
        for path in directory.iterdir()
        if path.suffix in SEGMENT_SUFFIXES and path.stem.isdigit() and base_offset <= int(path.stem) < next_offset
    )
    _logger.info(
        "finishing the swap of a compacted segment that was interrupted",
        file=str(log_path), removed=[path.name for path in replaced],
    )  # fmt: skip
    for path in replaced:
        path.unlink()
    for suffix in SEGMENT_SUFFIXES:
        path = log_path.with_suffix(suffix)
        with suppress(FileNotFoundError):
            suffixed(path, SWAP_SUFFIX).rename(path)
    return is_sound


def _next_offset(swap_path: Path, index_path: Path, base_offset: int) -> tuple[int, bool]:
    """Return the offset after the last batch of a segment that waits to be renamed, and whether damage hides more."""
    next_offset, position = base_offset, 0
    with suppress(FileNotFoundError):
        index = OffsetIndex.open(suffixed(index_path, SWAP_SUFFIX), base_offset)
        position = index.position_for_offset(base_offset + INT32_MAX)
    size = swap_path.stat().st_size
    try:
        if position < size:
            for _, header in walk_headers(SegmentFile(swap_path), position, size):
                next_offset = header.next_offset
    except CorruptMessage:
        return next_offset, False
    return next_offset, True
