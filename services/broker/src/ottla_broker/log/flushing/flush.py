"""Making a log durable, with one fsync for all who wait.

`LogFlush` keeps the recovery point, below which everything is durable. A `FlushPlan` is collected on the event loop
and carried out in a thread. While one fsync runs, whatever is appended meanwhile waits for the next one, which covers
all of it.

A failed fsync is final: the kernel may have dropped what it could not write, and a later fsync would not say so.
So after the first failure no flush succeeds any more, whichever had begun. Whatever else the operating system refuses
(a descriptor to open a file with, space for a checkpoint) has lost nothing, and the next flush tries again.

Who holds the log is told of the failure, so that another replica takes over, and the log directory keeps a mark of
it for the next start (`shutdown_record.py`). A disk that refuses a write, for another reason than scarcity, is asked
for an fsync at once: most topics never ask for one, and a broken disk would refuse their appends for ever.
"""

import asyncio
import errno
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import structlog

from ottla_broker.log.background import Background, Failed, Work
from ottla_broker.log.files.checkpoint_file import FsyncFailed
from ottla_broker.log.files.leader_epoch_checkpoint import LeaderEpochs
from ottla_broker.log.files.partition_metadata import PARTITION_METADATA
from ottla_broker.log.files.shutdown_record import note_failed_fsync
from ottla_broker.log.flushing.flush_plan import NO_SPACE, Epochs, FlushPlan
from ottla_broker.log.segments.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ottla_broker.log.segments.segment_list import SegmentList
from ottla_broker.log.segments.transaction_index import TransactionIndex
from ottla_core.errors import KafkaStorageError, NotLeaderOrFollower
from ottla_core.topic_partition import TopicPartition

_logger: Final = structlog.get_logger("log")

SCARCITY: Final = NO_SPACE | {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EFBIG}
"""Refusals that pass by themselves, and say nothing of the disk's health."""


class Flushable(Protocol):
    """What a flush needs of a log."""

    topic_partition: TopicPartition
    directory: Path
    segments: SegmentList
    leader_epochs: LeaderEpochs
    log_end_offset: int


class LogFlush:
    """The durability of one log.

    Attributes:
        recovery_point: everything below this offset is durable.
        failure: why the log takes no more appends, or None.
        truncation_count: how often the log was truncated.
        last_flush_ms: when the last timed flush was looked at.
        on_failure: called on the event loop when `failure` was set, perhaps more than once.
    """

    __slots__ = (
        "_background", "_disk_error", "_ended", "_epochs_wanted", "_epochs_written", "_is_closed", "_is_place_dirty",
        "_log", "_running", "_running_count", "_settled_count", "_snapshots", "_turn", "failure", "last_flush_ms",
        "on_failure", "recovery_point", "truncation_count",
    )  # fmt: skip

    def __init__(self, log: Flushable, background: Background, recovery_point: int, now_ms: int) -> None:
        self.recovery_point = recovery_point
        self.failure: str | None = None
        self.on_failure: Callable[[], None] | None = None
        self.truncation_count = 0
        self.last_flush_ms = now_ms
        self._log = log
        self._background = background
        self._running: asyncio.Future[None] | None = None
        self._running_count = 0
        self._ended = asyncio.Event()
        self._is_closed = False
        self._is_place_dirty = False
        self._snapshots: list[Path] = []
        self._turn = threading.Lock()
        self._disk_error: FsyncFailed | None = None
        self._settled_count = 0
        self._epochs_wanted: Epochs | None = None
        self._epochs_written: Epochs | None = None

    def close(self) -> None:
        """Write nothing from now on: the log is no more, and its directory may soon be another log's."""
        self._is_closed = True

    @property
    def is_closed(self) -> bool:
        """Whether the log is no more."""
        return self._is_closed

    @property
    def is_idle(self) -> bool:
        """Whether no flush is under way."""
        return not self._running_count

    @property
    def is_settled(self) -> bool:
        """Whether every truncation is on the disk: the cut file, the names of removed ones, and the leader epochs."""
        return self._settled_count == self.truncation_count

    def check_open(self) -> None:
        """Raise NotLeaderOrFollower if the log is no more."""
        if self._is_closed:
            raise NotLeaderOrFollower(f"{self._log.topic_partition} was deleted or closed meanwhile")

    def check(self) -> None:
        """Check that what is appended can still become durable.

        Raises:
            NotLeaderOrFollower: the log is no more.
            KafkaStorageError: an fsync has failed.
        """
        self.check_open()
        if self.failure is not None:
            raise KafkaStorageError(self.failure)

    async def wait_until_idle(self) -> None:
        """Return when no flush is under way; one may begin at the next await."""
        while self._running_count:
            self._ended.clear()
            await self._ended.wait()

    def add_snapshot(self, path: Path) -> None:
        """Have the next flush fsync this producer snapshot too."""
        self._snapshots.append(path)

    def truncated_to(self, offset: int) -> None:
        """Note that the log lost everything from `offset` on; a flush under way counts for nothing."""
        self.truncation_count += 1
        self.recovery_point = min(self.recovery_point, offset)
        self._snapshots = [path for path in self._snapshots if int(path.stem) <= offset]

    def relocated(self, directory: Path, durable_offset: int) -> None:
        """Note that the log goes on in another directory, where offsets below `durable_offset` are durable.

        No flush may be under way: it would say of this directory what is true of the former one.
        """
        assert self.is_idle, "a log moves between two flushes"
        self.recovery_point = min(self.recovery_point, durable_offset)
        self._snapshots = [directory / path.name for path in self._snapshots]
        self._is_place_dirty = True
        self._log.leader_epochs.is_dirty = True

    def give_up(self, reason: str) -> None:
        """Take no more records, as after a failed fsync, because files and what is known of them differ."""
        if self.failure is None:
            self.failure = self._final(reason)
        if self.on_failure is not None:
            self.on_failure()

    def begun(self) -> None:
        """Note that the log's directory is new, and neither its name nor what is in it fsynced."""
        self._is_place_dirty = True

    def flush(self) -> None:
        """Fsync everything appended so far; blocks.

        Raises:
            KafkaStorageError: an fsync failed, this one or one before; the log takes no more appends.
            NotLeaderOrFollower: the log is no more.
        """
        plan = self._plan(self._log.log_end_offset)
        try:
            self._carry_out(plan)
        except OSError as error:
            problem = self._fail(plan, error)
            _report(problem)
            raise problem from error
        self._succeed(plan)

    def start(self, through_offset: int) -> None:
        """Begin an fsync of everything below `through_offset` in the background.

        Raises:
            KafkaStorageError: an fsync has failed before, or the files cannot even be opened.
            NotLeaderOrFollower: the log is no more.
        """
        plan = self._plan(through_offset)

        def failed(error: OSError) -> None:
            _report(self._fail(plan, error))

        self._submit(plan, then=lambda: self._succeed(plan), failed=failed)

    def start_if_due(self, now_ms: int, flush_ms: int) -> None:
        """Begin an fsync of everything if `flush_ms` have passed since the last one; raises as `start`."""
        end_offset = self._log.log_end_offset
        self.last_flush_ms = min(self.last_flush_ms, now_ms)  # or nothing is due until a clock set back catches up
        if end_offset == self.recovery_point:
            self.last_flush_ms = now_ms
        elif now_ms - self.last_flush_ms >= flush_ms:
            self.last_flush_ms = now_ms
            self.start(end_offset)

    def examine_disk(self, refused: OSError) -> None:
        """Find out by an fsync in the background whether a disk that has refused a write has failed for good."""
        if refused.errno in SCARCITY or self.failure is not None or self._running_count:
            return
        log = self._log
        plan = FlushPlan(
            directory=log.directory,
            files=(log.segments.active.file(),),
            paths=(),
            snapshots=(),
            sync_names=True,
            sync_place=False,
            through_offset=self.recovery_point,
            truncation_count=self.truncation_count,
        )

        def failed(error: OSError) -> None:
            _report(self._fail(plan, error))

        # One that succeeds says nothing of the log's other files, so it counts for nothing.
        self._submit(plan, then=lambda: None, failed=failed)

    async def wait_for_one(self) -> None:
        """Wait for the shared flush under way or, if there is none, for a new one.

        Raises:
            KafkaStorageError: it failed, or one before.
            NotLeaderOrFollower: the log is no more.
        """
        await asyncio.shield(self._running or self._start_shared())

    async def flushed(self, through_offset: int, *, unflushed_max: int) -> None:
        """Return when everything below an offset is durable, or fewer than `unflushed_max` records wait for an fsync.

        Raises:
            KafkaStorageError: the fsync failed, or one before.
            NotLeaderOrFollower: the log was truncated, deleted or closed meanwhile.
        """
        log, truncation_count = self._log, self.truncation_count
        while log.log_end_offset - self.recovery_point >= unflushed_max and self.recovery_point < through_offset:
            await self.wait_for_one()
            if truncation_count != self.truncation_count:
                raise NotLeaderOrFollower(f"{log.topic_partition} was truncated before it was flushed")

    def _start_shared(self) -> asyncio.Future[None]:
        plan = self._plan(self._log.log_end_offset)
        running: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = running

        def end_with(problem: KafkaStorageError) -> None:
            self._running = None
            running.set_exception(problem)
            running.exception()  # those who waited may all be gone

        def then() -> None:
            self._succeed(plan)
            if self.failure is not None:
                end_with(KafkaStorageError(self.failure))
                return
            self._running = None
            running.set_result(None)

        def failed(error: OSError) -> None:
            problem = self._fail(plan, error)
            end_with(problem)
            _report(problem)

        self._submit(plan, then=then, failed=failed)
        return running

    def _submit(self, plan: FlushPlan, *, then: Work, failed: Failed) -> None:
        """Carry out a plan in the background, counted among those under way."""

        def ended() -> None:
            self._running_count -= 1
            self._ended.set()

        def succeeded() -> None:
            ended()
            then()

        def has_failed(error: OSError) -> None:
            ended()
            try:
                failed(error)
            finally:
                if self.failure is not None and self.on_failure is not None:
                    self.on_failure()

        self._running_count += 1
        self._background.submit(partial(self._carry_out, plan), then=succeeded, failed=has_failed)

    def _carry_out(self, plan: FlushPlan) -> None:
        """Run a plan, in a thread; raises OSError, also for any plan after one that failed.

        Plans take turns, because the kernel tells only one of several fsyncs about an error.
        """
        with self._turn:
            if self._disk_error is not None:
                raise FsyncFailed(*self._disk_error.args)
            # Not those of when this was planned: a later plan may have had its turn before, with newer ones.
            wanted = self._epochs_wanted
            try:
                plan.run(None if wanted is self._epochs_written else wanted)
                self._epochs_written = wanted
            except FsyncFailed as error:
                self._disk_error = error
                note_failed_fsync(plan.directory.parent)
                raise

    def _plan(self, through_offset: int) -> FlushPlan:
        """Collect what has to reach the disk before the recovery point may move to `through_offset`."""
        self.check()
        log = self._log
        first = log.segments.number_for(self.recovery_point)
        dirty = [
            segment
            for segment in list(log.segments)[first:]
            if segment.base_offset < through_offset or not self.is_settled
        ]
        snapshots = tuple(self._snapshots)
        paths = list(snapshots)
        new_names: list[TransactionIndex] = []
        try:
            for segment in dirty:
                segment.write_indexes()
                paths += (segment.path(INDEX_SUFFIX), segment.path(TIME_INDEX_SUFFIX))
                if segment.transaction_index.has_file:
                    paths.append(segment.path(TRANSACTION_INDEX_SUFFIX))
                    if not segment.transaction_index.is_named_for_sure:
                        new_names.append(segment.transaction_index)
            files = tuple(segment.file() for segment in dirty)
        except OSError as error:
            raise KafkaStorageError(
                f"Cannot flush {log.topic_partition} in {log.directory.parent}: {error.strerror or error}"
            ) from error
        self._snapshots = []
        is_place_dirty = self._is_place_dirty
        if is_place_dirty:
            # Records of a log that nobody can tell the topic of are as good as lost.
            paths.append(log.directory / PARTITION_METADATA)
        if log.leader_epochs.is_dirty:
            self._epochs_wanted = log.leader_epochs.entries
            log.leader_epochs.is_dirty = False
        return FlushPlan(
            directory=log.directory,
            files=files,
            paths=tuple(paths),
            snapshots=snapshots,
            sync_names=is_place_dirty
            or bool(new_names)
            or not self.is_settled
            or log.segments.active.base_offset >= self.recovery_point,
            sync_place=is_place_dirty,
            new_names=tuple(new_names),
            through_offset=through_offset,
            truncation_count=self.truncation_count,
        )

    def _succeed(self, plan: FlushPlan) -> None:
        if plan.sync_place:
            # Not before: of two flushes under way the later one may end first, and move the recovery point.
            self._is_place_dirty = False
        for index in plan.new_names:
            index.is_named_for_sure = True
        if self.failure is None and plan.truncation_count == self.truncation_count:
            self.recovery_point = max(self.recovery_point, plan.through_offset)
            self._settled_count = plan.truncation_count

    def _fail(self, plan: FlushPlan, error: OSError) -> KafkaStorageError:
        """Take no more records if an fsync failed, else have it all tried again; return the error for who waits.

        They are told before anything is logged.
        """
        log = self._log
        log.leader_epochs.is_dirty |= self._epochs_wanted is not self._epochs_written
        if self.failure is None and not isinstance(error, FsyncFailed):
            if plan.truncation_count == self.truncation_count:
                self._snapshots = [*plan.snapshots, *self._snapshots]
            return KafkaStorageError(
                f"Cannot flush {log.topic_partition} in {log.directory.parent}: {error.strerror}"
            )
        if self.failure is None:
            self.failure = self._final(f"an fsync failed in {log.directory.parent}: {error.strerror or error}")
        return KafkaStorageError(self.failure)

    def _final(self, reason: str) -> str:
        return (
            f"{self._log.topic_partition} takes no more records since {reason}."
            " Repair the disk and restart the broker"
        )


def _report(problem: KafkaStorageError) -> None:
    _logger.error("storage error", problem=str(problem))
