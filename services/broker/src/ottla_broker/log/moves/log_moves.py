"""Moving logs between log directories while they are in use.

A copy is made beside the log, in threads and held to a rate, until it lacks only a little. What it still lacks then
is copied on the event loop together with the rename that makes the copy the log, so nothing can come in between: an
append before goes into both, one after only into the copy. The log object stays the same; its directory changes. The
former directory is removed after `file.delete.delay.ms`; what a crash leaves is settled by `interrupted_moves.py`.

While a log is moved it is not compacted. Retention goes on, and a truncation has the copy made anew. Source of the
behaviour: Kafka's ReplicaAlterLogDirsThread and LogManager (KIP-113).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import structlog

from ottla_broker.log.cleaning.cleaner import LogCleaner
from ottla_broker.log.directories.directory_checkpoints import DirectoryCheckpoints
from ottla_broker.log.directories.log_creation import clear_the_way
from ottla_broker.log.directories.log_directory import LogDirectory, future_name
from ottla_broker.log.files.checkpoint_file import sync_directory
from ottla_broker.log.moves.future_log import FutureFiles, Piece, files_of, first_offset_missing, take
from ottla_broker.log.moves.interrupted_moves import MOVED_FROM, mark_moved, moved_from, retire_former
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.background import start_detached
from ottla_core.clock import Clock
from ottla_core.errors import KafkaStorageError
from ottla_core.throttle_config import UNLIMITED
from ottla_core.topic_partition import TopicPartition

_logger: Final = structlog.get_logger("log.moves")

_TURN_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes that one turn in a thread copies."""
_TURNS_PER_SECOND: Final = 10
"""Turns among which the bytes of a second are divided when a rate is set."""
_STOPPED_CHECK_SECONDS: Final = 1.0
"""How often a rate of 0 is looked at again."""
_LAST_BYTES: Final = 4 * 1024 * 1024
"""Bytes that are copied on the event loop at the end; a few milliseconds."""
_LAST_BYTES_MAX: Final = 64 * 1024 * 1024
"""The same, for a log that grows so fast that the copy would never catch up otherwise."""


@dataclass(frozen=True, slots=True)
class FutureLogDescription:
    """What DescribeLogDirs tells of a copy that is being made."""

    size_bytes: int
    offset_lag: int


class MoveGivenUp(Exception):
    """The move is not wanted any more, or the store closes."""


class MovingStore(Protocol):
    """What moves need of the log store."""

    def settle(self, log: PartitionLog, directory: LogDirectory) -> None:
        """Note that a log lives in another directory from now on."""

    def remove_later(self, path: Path, delay_ms: int) -> None:
        """Remove a directory after a delay."""


@dataclass(slots=True)
class _Move:
    """One log on its way."""

    log: PartitionLog
    source: LogDirectory
    target: LogDirectory
    files: FutureFiles
    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    is_unwanted: bool = False
    is_ready: bool = False
    is_swapped: bool = False
    caught_up_offset: int = 0
    truncation_count: int = 0
    task: asyncio.Task[None] | None = None

    def check_wanted(self) -> None:
        if self.given_up.is_set():
            raise MoveGivenUp


class LogMoves:
    """The moves of one store; one log is copied at a time."""

    def __init__(
        self,
        store: MovingStore,
        checkpoints: DirectoryCheckpoints,
        cleaner: LogCleaner,
        clock: Clock,
        rate: Callable[[], int],
    ) -> None:
        self._store = store
        self._checkpoints = checkpoints
        self._cleaner = cleaner
        self._clock = clock
        self._rate = rate
        self._moves: dict[TopicPartition, _Move] = {}
        self._turn = asyncio.Lock()

    # Asking

    def target_of(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """Return where a log is being moved to, or None."""
        move = self._moves.get(topic_partition)
        return None if move is None or move.is_swapped else move.target

    def is_under_way(self, topic_partition: TopicPartition) -> bool:
        """Return whether a log is on its way, or has arrived and is being tidied up after."""
        return topic_partition in self._moves

    def futures_in(self, directory: LogDirectory) -> dict[TopicPartition, FutureLogDescription]:
        """Return the copies that are being made in a directory."""
        found = {}
        for key, move in self._moves.items():
            if move.target is directory and not move.is_swapped:
                offset = max(move.caught_up_offset, first_offset_missing(move.log, move.files.copied))
                found[key] = FutureLogDescription(move.files.size_bytes, max(0, move.log.log_end_offset - offset))
        return found

    def arriving_in(self, directory: LogDirectory) -> dict[TopicPartition, PartitionLog]:
        """Return the logs that may live in a directory at any moment, so that its checkpoints must know them."""
        return {key: move.log for key, move in self._moves.items() if move.is_ready and move.target is directory}

    # Beginning and ending

    def begin(self, log: PartitionLog, source: LogDirectory, target: LogDirectory, path: Path | None = None) -> None:
        """Begin to move a log, which no move is under way for.

        Args:
            log: the log.
            source: where it lives.
            target: where it is to live.
            path: the copy that an interrupted move left, which is made anew.

        Raises:
            InvalidTopic: the topic's name is too long.
        """
        key = log.topic_partition
        assert key not in self._moves, f"{key} is being moved already"
        files = FutureFiles(path or target.path / future_name(key))
        move = self._moves[key] = _Move(log, source, target, files)
        move.task = start_detached("move of a log", self._see_through(move), partition=str(key))

    async def cancel(self, topic_partition: TopicPartition) -> None:
        """Give up a move and remove what it has made; one that is all but done is waited for."""
        move = self._moves.get(topic_partition)
        if move is None:
            return
        move.is_unwanted = True
        await _end(move)

    async def close(self) -> None:
        """Give up all moves; they begin anew when the store is opened again."""
        for move in tuple(self._moves.values()):
            await _end(move)

    # Moving

    async def _see_through(self, move: _Move) -> None:
        log, key = move.log, move.log.topic_partition
        began_s = self._clock.monotonic()
        try:
            async with self._cleaner.paused(key):
                await self._make_ready(move)
                await self._leave(move)
        except MoveGivenUp:
            if move.is_unwanted:
                await asyncio.to_thread(move.files.remove)
        except (OSError, KafkaStorageError) as error:
            _logger.error(
                "a log cannot be moved and stays where it is" if not move.is_swapped else "a move ended untidily",
                partition=str(key),
                target=str(move.target.path),
                problem=str(error),
            )
            if not move.is_swapped:
                await asyncio.to_thread(move.files.remove)
        else:
            _logger.info(
                "moved a log",
                partition=str(key),
                source=str(move.source.path),
                target=str(move.target.path),
                bytes=log.size_bytes,
                seconds=round(self._clock.monotonic() - began_s, 3),
            )
        finally:
            del self._moves[key]

    async def _make_ready(self, move: _Move) -> None:
        """Copy until the log can be swapped, and swap it."""
        last_bytes = _LAST_BYTES
        await self._begin_anew(move)
        while True:
            left = await self._catch_up(move)
            if left > last_bytes:
                continue
            await self._prepare_swap(move)
            if await self._swap(move, last_bytes):
                return
            last_bytes = min(2 * last_bytes, _LAST_BYTES_MAX)

    async def _begin_anew(self, move: _Move) -> None:
        move.check_wanted()
        move.caught_up_offset = 0
        move.truncation_count = move.log.compaction.truncation_count
        await asyncio.to_thread(self._clear, move)

    @staticmethod
    def _clear(move: _Move) -> None:
        path = move.target.path / str(move.log.topic_partition)
        if path.is_dir():
            clear_the_way(path, move.log.topic_partition)
        move.files.begin(move.log.topic_id)

    async def _catch_up(self, move: _Move) -> int:
        """Copy what the log has by now, and fsync it; return how many bytes have come since."""
        log = move.log
        end_offset, leader_epochs = log.log_end_offset, log.leader_epochs.entries
        wanted = files_of(log)
        await self._copy(move, move.files.missing(wanted))
        await asyncio.to_thread(move.files.make_durable, leader_epochs)
        if move.truncation_count != log.compaction.truncation_count:
            await self._begin_anew(move)
            return _LAST_BYTES_MAX + 1
        move.check_wanted()
        present = files_of(log)
        move.files.check_whole({name: size for name, size in wanted.items() if name in present})
        move.caught_up_offset = end_offset
        return sum(piece.size for piece in move.files.missing(present))

    async def _copy(self, move: _Move, pieces: deque[Piece]) -> None:
        """Copy pieces at the rate that is set, in turns."""
        while pieces:
            move.check_wanted()
            rate = self._rate()
            if rate == 0:
                await self._pause(move, _STOPPED_CHECK_SECONDS)
                continue
            taken = take(pieces, min(_TURN_BYTES_MAX, max(1, rate // _TURNS_PER_SECOND)))
            async with self._turn:
                await asyncio.to_thread(move.files.copy, move.log.directory, taken)
                if rate != UNLIMITED:
                    await self._pause(move, sum(piece.size for piece in taken) / rate)

    async def _pause(self, move: _Move, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(move.given_up.wait(), seconds)

    # Swapping

    async def _prepare_swap(self, move: _Move) -> None:
        """Write down what a start after a crash has to know once the copy is the log."""
        source, target = move.source, move.target
        former = {source.directory_id} | await asyncio.to_thread(moved_from, move.log.directory)
        await asyncio.to_thread(mark_moved, move.files.path, sorted(former - {target.directory_id}))
        move.is_ready = True
        await self._checkpoints.write_all(target)
        await move.log.wait_until_idle()

    async def _swap(self, move: _Move, last_bytes: int) -> bool:
        """Copy what is left and make the copy the log, unless too much is left. Does not await once it has begun."""
        log, files = move.log, move.files
        move.check_wanted()
        if not log.may_relocate or move.truncation_count != log.compaction.truncation_count:
            return False
        lacks_durable = log.recovery_point > move.caught_up_offset
        if lacks_durable and last_bytes < _LAST_BYTES_MAX:  # rather once more in a thread than an fsync here
            return False
        wanted = files_of(log)
        missing = files.missing(wanted)
        if sum(piece.size for piece in missing) > last_bytes:
            return False
        files.copy(log.directory, missing)
        files.check_whole(wanted)
        files.remove_others(wanted)
        if lacks_durable:  # what was promised to be durable has to be so in the copy too
            files.make_durable(log.leader_epochs.entries)
            move.caught_up_offset = log.log_end_offset
        path = move.target.path / str(log.topic_partition)
        files.path.rename(path)
        former = log.directory
        log.relocate(path, move.caught_up_offset)
        self._store.settle(log, move.target)
        move.is_swapped = True
        files.path = former
        return True

    async def _leave(self, move: _Move) -> None:
        """Retire the former directory; from the rename on the new one is the log, whatever happens."""
        log, former = move.log, move.files.path
        await asyncio.to_thread(sync_directory, log.directory.parent)
        retired = await asyncio.to_thread(retire_former, former, log.topic_partition)
        self._store.remove_later(retired, log.config.file_delete_delay_ms)
        await self._checkpoints.write_all(move.target)
        await self._checkpoints.write_all(move.source)
        await asyncio.to_thread(_forget_source, log.directory, move.source)


async def _end(move: _Move) -> None:
    """Have a move end at the next occasion, and wait for that; one that is swapped already finishes."""
    move.given_up.set()
    if move.task is not None:
        await asyncio.wait([move.task])


def _forget_source(path: Path, source: LogDirectory) -> None:
    """Note that no older log lies in the former directory any more; blocks and raises OSError."""
    left = moved_from(path) - {source.directory_id}
    if left:
        mark_moved(path, sorted(left))
    else:
        (path / MOVED_FROM).unlink(missing_ok=True)
