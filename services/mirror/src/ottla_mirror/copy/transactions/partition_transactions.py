"""Writes what is copied of one partition, transaction by transaction, together with its position.

A transaction begins with the first batch that is to be sent. Batches go out as the state machine of the copy gives
them, stamped only now, as each transaction may have another producer epoch. After a while (`is_to_end`) nothing more
is sent, all that was sent has to be acknowledged, the position and the map's changes are written, and the transaction
is committed. Between two steps others may have taken the partition over; the target tells, as they have fenced this
producer, and nothing of the transaction counts.

What may pass (another leader, no answer) is sent again within the transaction, under the same sequences. Whatever
else goes wrong, also when it is not known whether a commit has succeeded, ends in the same way: the transaction is
aborted, everything in memory is forgotten, and the partition is taken over from what is committed.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

import structlog
from kio.schema.errors import ErrorCode

from ottla_core.background import start_detached
from ottla_core.errors import CorruptMessage, OttlaError
from ottla_core.wire.raw_produce import NO_ERROR, ProduceOutcome
from ottla_core.wire.record_batch import increment_sequence
from ottla_core.wire.records import Record
from ottla_mirror.copy.copy_settings import CopySettings, TransactionSettings
from ottla_mirror.copy.needs import Need
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_work import FAILURES_BEFORE_WAY, NO_LEADER, WAIT_BEFORE_WAY_S, PartitionWork
from ottla_mirror.copy.restamp import restamp
from ottla_mirror.copy.source_batch import SourceBatch
from ottla_mirror.copy.transactions.open_transaction import OpenTransaction
from ottla_mirror.copy.transactions.transaction_requests import (
    LettersOf,
    TopicPartition,
    TransactionFailed,
    TransactionRequests,
)
from ottla_mirror.copy.transactions.transaction_rules import (
    Answer,
    Producer,
    is_to_end,
    may_commit,
    meaning_of_answer,
)
from ottla_mirror.internal_topics.topic_requests import PARTITION, batches
from ottla_mirror.offsets.stored_copy import TransactionalStore

_FAILURES: Final = frozenset((Need.LOOK, Need.REFUSED))
log = structlog.get_logger("mirror")


class TransactionOwner(Protocol):
    """Whose partitions they are; see `Copier`."""

    def locate(self, work: PartitionWork) -> str:
        """Bring a partition's leaders up to date; return what is missing, or ""."""

    def refresh_target(self) -> None:
        """Ask for the target's leaders anew."""

    def on_room(self, work: PartitionWork) -> None:
        """Take note that so little of a partition is waiting to be sent that more may be fetched."""

    def on_answered(self, work: PartitionWork) -> None:
        """Take note that a batch was answered, whose memory is free."""

    def holds_up_others(self, work: PartitionWork) -> bool:
        """Return whether a partition has memory that others lack."""

    def on_produced(self, work: PartitionWork) -> None:
        """Look at a partition of which a transaction has ended."""

    def begin_anew(self, work: PartitionWork, reason: str, *, is_taken: bool) -> None:
        """Take a partition over from what is committed, later if another worker has taken it."""

    def halt(self, work: PartitionWork, reason: str) -> None:
        """Stop until somebody helps."""


class PartitionTransactions:
    """The transactions of one partition.

    Args:
        work: the partition.
        transactional_id: under which it is written.
        owner: whose it is.
        requests: of the target.
        store: where positions are kept.
        settings: see there.
        letters_of: what becomes of refused batches; None for halting.
        now_ms: the clock of timestamps.
    """

    def __init__(
        self,
        work: PartitionWork,
        transactional_id: str,
        *,
        owner: TransactionOwner,
        requests: TransactionRequests,
        store: TransactionalStore,
        settings: CopySettings,
        letters_of: LettersOf | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        assert settings.transactions is not None
        self._work = work
        self._owner = owner
        self._requests = requests
        self._store = store
        self._settings = settings
        self._sizes: TransactionSettings = settings.transactions
        self._letters_of = letters_of
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._copy: PartitionCopy | None = None
        self._transaction = OpenTransaction(
            transactional_id, requests, self._sizes, pause_s_max=settings.backoff_s_max
        )
        self._acknowledged = 0
        self._committed_end = 0
        self._is_writing = self._is_ending = self._is_finishing = self._has_batches = False
        self._has_to_store_start = self._is_given_up = False
        self._writes_since_s = 0.0
        self._fails_since_s: float | None = None
        self._sent_bytes = self._sent_end = 0
        self._damage = ""
        self._was_aborted = False

    @property
    def is_busy(self) -> bool:
        """Whether a transaction is under way."""
        return self._task is not None

    @property
    def has_uncommitted(self) -> bool:
        """Whether the copy has come further than what is committed."""
        copy = self._work.copy
        if copy is None:
            return False
        return copy is self._copy and copy.map.source_end > self._committed_end

    def wake(self) -> None:
        """Send what there is to send, in a new transaction if there is none."""
        if self._task is not None:
            self._pump()
            return
        self._take_copy()
        if self._wants_transaction():
            self._task = start_detached("writing a transaction", self._run(), transactional_id=self._transaction.id)

    def commit(self) -> None:
        """Have all that was done so far committed soon, though nothing is to be sent."""
        self._is_finishing = True
        self.wake()
        if self._task is None:
            self._is_finishing = False
        self._changed.set()

    def close(self) -> None:
        """Leave everything as it is."""
        if self._task is not None:
            self._task.cancel()

    def _take_copy(self) -> None:
        """Go on with the work's state machine, which was made for a producer that was given out just then."""
        copy = self._work.copy
        if copy is None or copy is self._copy:
            return
        self._copy, self._is_given_up = copy, False
        self._transaction.write_as(Producer(*copy.session.name))
        self._acknowledged = 0
        self._committed_end = copy.session.source_start_offset  # it may have come further since
        # Whoever takes over from a position that is not stored begins at the end of the source as it is then.
        self._has_to_store_start = self._settings.start == "latest" and copy.session.replaces is None

    def _wants_transaction(self) -> bool:
        copy = self._copy
        if copy is None or copy is not self._work.copy or self._work.is_halted:
            return False
        if self._is_given_up:
            return False  # whatever it needs: its position may be behind what was aborted
        need = None if copy.needed is None else copy.needed.need
        if need in _FAILURES:
            return False
        if not copy.has_found_all and need is not Need.NEW_SESSION:
            # What was copied without transactions is not all found. Who takes over from a transaction looks no more,
            # and would copy the rest a second time.
            return False
        if self._has_to_store_start:
            return True
        if copy.map.source_end > self._committed_end and (self._is_finishing or need is not None):
            return True
        return self._work.has_to_send

    async def _run(self) -> None:
        """Write transactions as long as there is something to write."""
        assert self._copy is not None
        copy = self._copy
        failure: OttlaError | None = None
        try:
            while failure is None and self._wants_transaction():
                failure = await self._attempt(copy, self._batches_sent)
                if failure is not None and self._is_refused_alone(copy) and self._letters_of is not None:
                    failure = await self._send_letters(copy, failure, self._letters_of)
        finally:
            self._is_writing = self._is_finishing = False
            self._task = None
        if failure is None:
            self._owner.on_produced(self._work)
        elif copy is self._work.copy:
            self._on_failure(copy, failure)

    async def _attempt(
        self,
        copy: PartitionCopy,
        content: Callable[[PartitionCopy], Coroutine[Any, Any, None]],
        also: TopicPartition | None = None,
    ) -> OttlaError | None:
        """Write one transaction; return why it was aborted, if it was."""
        try:
            await self._write(copy, content, also)
        except OttlaError as error:
            log.info("a transaction is aborted", transactional_id=self._transaction.id, reason=str(error))
            await self._abort(copy)
            return error
        except Exception:
            # Nothing of it may count, or the next one would commit a position behind records that were aborted.
            log.exception("a transaction has failed unexpectedly", transactional_id=self._transaction.id)
            await self._abort(copy)
            return TransactionFailed("it has failed unexpectedly")
        return None

    async def _write(
        self,
        copy: PartitionCopy,
        content: Callable[[PartitionCopy], Coroutine[Any, Any, None]],
        also: TopicPartition | None,
    ) -> None:
        """Write one transaction.

        Raises:
            OttlaError: it cannot be committed, or it is not known whether it is.
        """
        transaction = self._transaction
        transaction.begin()
        self._sent_bytes, self._sent_end, self._has_batches, self._damage = 0, copy.map.source_end, False, ""
        self._is_ending = False
        copy.send_alone()
        if not self._requests.is_version_2:
            stored_in = (self._store.topic, PARTITION)
            await transaction.add([self._target, stored_in, *([] if also is None else [also])])
        await content(copy)
        if not may_commit(sent_end=self._sent_end, acknowledged_end=copy.map.source_end):
            raise TransactionFailed("a batch was sent that is not acknowledged")
        copied, end = copy.copied, copy.map.source_end  # the map goes on while this one waits
        prepared = self._store.prepare(self._work.partition, copied)
        for some in batches(prepared.entries):
            records = [Record(place, self._now_ms(), *entry) for place, entry in enumerate(some)]
            await transaction.produce((self._store.topic, PARTITION), self._store.leader, records)
        self._check_current(copy)
        if prepared.entries or self._has_batches:
            await transaction.commit()
        self._acknowledged = transaction.next_sequence(self._target)
        self._store.on_committed(self._work.partition, copied, prepared)
        self._committed_end = end
        self._is_finishing = self._has_to_store_start = False
        refused_at = self._work.refused_at
        if refused_at is not None and self._committed_end > refused_at:
            self._work.refused_at = None

    # Batches

    @property
    def _target(self) -> TopicPartition:
        return self._work.target_topic, self._work.partition.partition

    async def _batches_sent(self, copy: PartitionCopy) -> None:
        """Send batches until the transaction is to end, and wait until all are acknowledged."""
        self._is_writing, self._fails_since_s = True, None
        # Not since it was begun: where the coordinator is slow, that would be the end before the first batch.
        self._writes_since_s = self._loop.time()
        pauses = 0
        try:
            while True:
                self._changed.clear()
                self._pump()
                self._check_current(copy)
                if not copy.in_flight:
                    if copy.needed is not None and copy.needed.need in _FAILURES:
                        code = ErrorCode.none if copy.failure is None else copy.failure.error
                        is_taken = meaning_of_answer(code) is Answer.FENCED
                        raise TransactionFailed(copy.needed.reason, is_taken=is_taken)
                    if self._damage:
                        raise TransactionFailed(self._damage)
                    if copy.may_repeat or (copy.has_to_send and self._work.target_leader == NO_LEADER):
                        await self._repeat(copy, pauses)
                        pauses += 1
                        continue
                    if self._is_ending and copy.map.source_end >= self._sent_end:
                        return
                wait_s = (
                    None if self._is_ending else self._writes_since_s + self._sizes.interval_s - self._loop.time()
                )
                await self._wait(wait_s)
        finally:
            self._is_writing = False

    async def _wait(self, wait_s: float | None) -> None:
        """Wait until something has happened that `_batches_sent` has to see, or it is time to end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if wait_s is None else max(wait_s, 0)):
                await self._changed.wait()

    def _pump(self) -> None:
        """Send what may be sent now."""
        copy, work = self._copy, self._work
        if copy is None or not self._is_writing:
            return
        full_bytes, before_bytes = self._settings.partition_bytes_max, copy.unsent_bytes
        while copy.has_to_send and work.target_leader != NO_LEADER and not self._damage:
            batch = copy.next_unsent
            assert batch is not None
            self._look_whether_to_end(copy, batch)
            # What was sent once has to be acknowledged before the end, whoever has paused the partition since.
            if batch.base_offset >= self._sent_end and (self._is_ending or not work.may_send):
                break
            self._send(copy, batch)
        else:
            self._look_whether_to_end(copy, None)
        if copy.unsent_bytes < full_bytes <= before_bytes:
            self._owner.on_room(work)
        if self._is_ending and not copy.in_flight:
            self._changed.set()

    def _look_whether_to_end(self, copy: PartitionCopy, following: SourceBatch | None) -> None:
        self._is_ending = self._is_ending or is_to_end(
            self._sizes,
            age_s=self._loop.time() - self._writes_since_s,
            sent_bytes=self._sent_bytes,
            is_wanted=self._is_finishing or self._has_to_store_start or copy.needed is not None,
            is_refused_next=following is not None
            and self._has_batches
            and following.base_offset >= self._sent_end
            and following.base_offset == self._work.refused_at,
        )

    def _send(self, copy: PartitionCopy, batch: SourceBatch) -> None:
        transaction = self._transaction
        sequence = transaction.next_sequence(self._target)
        try:
            restamp(batch.data, batch.base_offset, *transaction.producer, sequence, is_transactional=True)
        except CorruptMessage as error:
            self._damage = f"{error.message}, in memory"
            self._changed.set()
            return
        (sent,) = copy.next_to_send(1)
        assert sent is batch
        transaction.set_next_sequence(self._target, increment_sequence(sequence, batch.record_count))
        self._sent_bytes += len(batch.data)
        self._sent_end = max(self._sent_end, batch.next_offset)
        self._has_batches = True
        outcome = partial(self._on_outcome, copy)
        self._requests.produce(self._work.target_leader, transaction.id, self._target, batch.data, outcome)

    def _on_outcome(self, copy: PartitionCopy, outcome: ProduceOutcome | str) -> None:
        records = copy.records
        if isinstance(outcome, str):
            copy.on_failed(NO_ERROR, outcome)
        elif outcome.error_code is NO_ERROR:
            copy.target_stamps = outcome.log_append_time_ms >= 0
            copy.on_acknowledged((outcome.base_offset,))
        else:
            copy.on_failed(outcome.error_code, outcome.error_message or "")
        if copy is not self._copy:
            return
        if copy.records != records:
            self._acknowledged = increment_sequence(self._acknowledged, copy.records - records)
            self._fails_since_s = None
        self._owner.on_answered(self._work)
        has_come_to_a_stop = copy.has_failed or copy.needed is not None or not self._is_writing
        if has_come_to_a_stop or (self._is_ending and not copy.in_flight):
            self._changed.set()
        else:
            self._pump()

    async def _repeat(self, copy: PartitionCopy, pauses: int) -> None:
        """Send again what has failed, in the same transaction."""
        failure = copy.failure
        reason = "no leader is known"
        if failure is not None:
            reason = failure.message or failure.error.name
        if self._is_to_give_way() and self._owner.holds_up_others(self._work):
            raise TransactionFailed(f"the target did not take a batch, and others need the memory: {reason}")
        await self._transaction.pause(reason, pauses)
        if failure is None or failure.error is not ErrorCode.concurrent_transactions:
            self._owner.refresh_target()
            self._owner.locate(self._work)
        self._check_current(copy)
        if copy.may_repeat:
            copy.repeat()
            self._transaction.set_next_sequence(self._target, self._acknowledged)

    def _is_to_give_way(self) -> bool:
        """Whether the target has taken nothing for a while, or so often that it is not worth while to wait again."""
        now_s = self._loop.time()
        if self._fails_since_s is None:
            self._fails_since_s = now_s
        return self._work.failures >= FAILURES_BEFORE_WAY or now_s - self._fails_since_s >= WAIT_BEFORE_WAY_S

    def _check_current(self, copy: PartitionCopy) -> None:
        if copy is not self._work.copy:
            raise TransactionFailed("the partition is not copied here any more")

    # Failures

    async def _abort(self, copy: PartitionCopy) -> None:
        """Have what was written aborted, if we still may; else whoever takes over does it, or the target in time."""
        while copy.in_flight:  # each of them is answered, or its connection lost
            self._changed.clear()
            await self._changed.wait()
        self._was_aborted = await self._transaction.abort()

    def _is_refused_alone(self, copy: PartitionCopy) -> bool:
        """Whether the target has refused a batch that was the first of its transaction, which is aborted."""
        needed = copy.needed
        return needed is not None and needed.need is Need.REFUSED and needed.source_offset == self._work.refused_at

    async def _send_letters(
        self, copy: PartitionCopy, failure: OttlaError, letters_of: LettersOf
    ) -> OttlaError | None:
        """Write refused records elsewhere, together with the position behind them; return why that cannot be."""
        if not self._was_aborted:
            return TransactionFailed(f"it is not known whether a transaction was aborted: {failure}")
        refused = copy.first
        assert refused is not None
        reason = self._refused(refused, failure)
        try:
            to, leader, records = await letters_of(self._work, refused, str(failure))
            if not self._requests.is_version_2:
                # The epoch has not been raised, and what was aborted may have used sequences of it.
                self._transaction.write_as(await self._requests.init(self._transaction.id))
        except OttlaError as error:
            return TransactionFailed(f"{reason}; {error}")
        self._acknowledged = 0

        async def leader_of() -> int:
            return leader

        async def write(_: PartitionCopy) -> None:
            for record in records:
                await self._transaction.produce(to, leader_of, [record])

        self._work.refused += copy.pass_over().record_count
        failure_again = await self._attempt(copy, write, to)
        if failure_again is None:
            log.warning("records have gone to the dead letter topic", reason=reason)
        return failure_again

    def _refused(self, refused: SourceBatch, failure: OttlaError) -> str:
        offsets = f"offsets {refused.base_offset} to {refused.next_offset - 1}"
        return f"{self._work.partition}, {offsets}: refused by the target: {failure}"

    def _on_failure(self, copy: PartitionCopy, failure: OttlaError) -> None:
        self._is_given_up = True
        work, needed = self._work, copy.needed
        if needed is None or needed.need is not Need.REFUSED:
            copy.look(str(failure))
            self._owner.begin_anew(
                work, str(failure), is_taken=isinstance(failure, TransactionFailed) and failure.is_taken
            )
        elif self._letters_of is None and self._is_refused_alone(copy):
            assert copy.first is not None
            self._owner.halt(work, self._refused(copy.first, failure))
        else:
            work.refused_at = needed.source_offset
            self._owner.begin_anew(work, str(failure), is_taken=False)
