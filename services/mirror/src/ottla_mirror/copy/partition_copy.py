"""The copy of one partition as a state machine: what is fetched and sent, what the map says, what an error means.

A shell shows it what was fetched and what the target answered, and asks what to send. Batches are stamped with
session and sequence as they are taken in, sent in the order of the source, and noted in the map once the target has
acknowledged them and all before them. Answers come in the order in which batches were sent, so nothing has to be
kept beside a batch: its place says whether it was sent, and answers are kept only from the first error on. Up to
`IN_FLIGHT_MAX` are under way, but the first alone, after a pause too: a broker that does not know a producer takes
whatever sequence comes first, so a second batch could get in where the first does not.

After an error nothing more is sent until all that is under way was answered; then what the *first* error means is
decided, as those behind it are mostly its consequences:

- it may pass: `may_repeat` is true, and after `repeat` the batch and all behind it are sent again. Sequences make
  that safe;
- otherwise `needed` says what has to be done, and nothing is sent any more. The shell does it, and goes on with
  another PartitionCopy, or after `pass_over` with this one.

Several workers may write in one session, which the target's idempotence makes harmless as long as all of them have
the same batches for the same sequences. That is so where the source's log has no gaps: what follows an offset is then
the same for all, at all times. Behind a gap, which compaction or retention has made, another worker may have seen
batches that are not there any more, and send one of them with the same sequence and as many records. So what follows
a gap is sent in a session only that belongs to this worker; its higher producer epoch keeps out all others.

Nothing is passed over silently. What the map skips is a marker, an aborted record, a gap of compaction, what
retention has removed (counted in `missed`), or what was refused and has gone to the dead letter topic.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.errors import KafkaError
from ottla_core.wire.consumer_fetch import AbortedTransaction
from ottla_core.wire.record_batch import INT32_MAX, decrement_sequence
from ottla_mirror.copy.deliverable_batches import DeliverableBatches
from ottla_mirror.copy.needs import Failure, Need, Needed, needed_after
from ottla_mirror.copy.restamp import restamp
from ottla_mirror.copy.source_batch import SourceBatch, read_batches
from ottla_mirror.copy.takeover import Pairing, Placement
from ottla_mirror.copy.usual_batches import Expected, stamp_usual_batches
from ottla_mirror.offsets.leader_epochs import NO_LEADER_EPOCH, begins, below, last_epoch, parting_offset
from ottla_mirror.offsets.stored_copy import StoredCopy

IN_FLIGHT_MAX: Final = 5
"""As many batches of a producer does a broker remember, to know them again."""
NO_OFFSET: Final = -1


_NO_ERROR: Final = ErrorCode.none
_DATA = attrgetter("data")


class PartitionCopy:
    """One partition in one session.

    Args:
        stored: the session and the position; its map is written on.
        pairing: what the target has beyond the position.
        worker: this worker, in this life of its process.

    Attributes:
        map: of offsets; its `source_end` is the position up to which everything is acknowledged.
        next_sequence: of the record at that position.
        fetch_offset: the source offset to fetch next.
        last_leader_epoch: of the source's batch before that, or -1.
        high_watermark: the source's, as of the last answer; -1 before.
        readable_end: the end of what the source gives to readers of committed records; -1 before.
        buffered_bytes: of batches that were taken in and are not acknowledged.
        unsent_bytes: of those that were not sent.
        in_flight: how many batches are under way.
        missed: offsets that the source's retention removed before they were copied.
        target_stamps: whether the target's topic gives records the time of their append, as far as is known.
        needed: what has to be done, if anything; no batch is sent then.
        target_cut_at: the target offset at which a batch was stored where the map has others: from there on, what was
            copied is lost. -1 if there is none.
        records: acknowledged since this object was made.
        bytes: of the batches of these.
    """

    __slots__ = (
        "_answers", "_batches", "_covered", "_crosses_gap", "_ends_with", "_epochs", "_in_flight_max",
        "_missed_ahead", "_pairing", "_tail_sequence", "_worker",
        "buffered_bytes", "bytes", "fetch_offset", "high_watermark", "in_flight", "last_leader_epoch", "map",
        "missed", "needed", "next_sequence", "readable_end", "records", "session", "target_cut_at", "target_stamps",
        "unsent_bytes",
    )  # fmt: skip

    def __init__(self, stored: StoredCopy, pairing: Pairing, worker: UUID) -> None:
        self.session = stored.session
        self._worker = worker
        self._crosses_gap = False
        self.map = stored.map
        self.next_sequence = self._tail_sequence = stored.next_sequence
        self.fetch_offset = stored.next_source_offset
        self._epochs = stored.epochs
        self.last_leader_epoch = last_epoch(stored.epochs)
        self.high_watermark = self.readable_end = NO_OFFSET
        self.buffered_bytes = self.unsent_bytes = self.in_flight = 0
        self.records = self.bytes = self.missed = 0
        self._missed_ahead: list[range] = []  # what of `missed` lies beyond the position
        self.target_cut_at = NO_OFFSET
        self.target_stamps = False
        self.needed: Needed | None = None
        self._pairing = None if pairing.is_over else pairing
        # What is not acknowledged. The first of these were answered, the first one with an error: where the target
        # has it, or why it failed. Those behind them are under way, then come those that were not sent.
        self._batches: deque[SourceBatch] = deque()
        self._answers: list[int | Failure] = []
        # By a batch's base offset: up to where all is dealt with once it is acknowledged, if that is beyond it.
        self._covered: dict[int, int] = {}
        self._in_flight_max = 1
        self._ends_with: Needed | None = None

    @property
    def copied(self) -> StoredCopy:
        """The acknowledged position."""
        epochs = below(self._epochs, self.map.source_end)
        return StoredCopy(session=self.session, next_sequence=self.next_sequence, map=self.map, epochs=epochs)

    @property
    def has_found_all(self) -> bool:
        """Whether nothing is left that the target had beyond the position when it was taken over."""
        return self._pairing is None

    @property
    def knows_nothing_else(self) -> bool:
        """Whether all that it knows is in its position, or found again where the source and the target are read."""
        ends_with = None if self._ends_with is None else self._ends_with.need
        return self.needed is None and ends_with in {None, Need.OWN_SESSION}

    @property
    def missed_before_position(self) -> int:
        """Those of `missed` that whoever takes over does not come upon again."""
        self._missed_ahead = [each for each in self._missed_ahead if each.stop > self.map.source_end]
        return max(0, self.missed - sum(map(len, self._missed_ahead)))

    @property
    def lag(self) -> int:
        """Offsets of the source that are not dealt with, up to the high watermark as it was last seen.

        Where the source has markers only, the position stays before what the target had beyond it, until a record
        comes; nothing is left to copy all the same.
        """
        if self._pairing is not None and self.takes() and not self._batches:
            return max(0, self.high_watermark - self.fetch_offset)
        return max(0, self.high_watermark - self.map.source_end)

    @property
    def first(self) -> SourceBatch | None:
        """The first batch that is not acknowledged."""
        return self._batches[0] if self._batches else None

    # What comes from the source

    def take(
        self,
        records: memoryview,
        aborted: Iterable[AbortedTransaction],
        *,
        high_watermark: int,
        last_stable_offset: int,
    ) -> None:
        """Take in what was fetched from `fetch_offset` on; batches stay where they lie, and are stamped there.

        Damage ends the copy where it begins, when all before it is acknowledged: see `needed`.
        """
        self.high_watermark = high_watermark
        self.readable_end = high_watermark if last_stable_offset < 0 else last_stable_offset
        if not self.takes() or not records:
            return
        size_bytes = self._take_usual_batches(records)
        if size_bytes == len(records):
            return
        batches = read_batches(
            records[size_bytes:],
            DeliverableBatches(aborted),
            from_offset=self.fetch_offset,
            target_stamps=self.target_stamps,
        )
        try:
            for batch in batches:
                self._take_batch(batch)
                if not self.takes():
                    return
                if batch.leader_epoch != self.last_leader_epoch:
                    # Not where the batch begins: compaction may have removed the first ones of its epoch.
                    since = min(self.fetch_offset, batch.base_offset)
                    self._epochs = begins(self._epochs, batch.leader_epoch, since)
                    self.last_leader_epoch = batch.leader_epoch
                self.fetch_offset = batch.next_offset
        except (KafkaError, IndexError) as error:
            self._end_with(Need.DAMAGED, self.fetch_offset, str(error))

    def takes(self) -> bool:
        """Whether `take` has any use for what follows."""
        return self.needed is None and self._ends_with is None

    def begin_at(self, log_start_offset: int) -> None:
        """Go on where the source's log begins: retention has removed what was to be fetched next."""
        if log_start_offset <= self.fetch_offset:
            return
        missed = range(self.fetch_offset, log_start_offset)
        self.missed += len(missed)
        self._missed_ahead = [each for each in self._missed_ahead if each.stop > self.map.source_end] + [missed]
        self.fetch_offset = log_start_offset
        self._epochs, self.last_leader_epoch = (), NO_LEADER_EPOCH
        self._crosses_gap = True
        self._cover(log_start_offset)

    def part_from(self, leader_epoch: int, leader_end_offset: int) -> None:
        """Take note that the source has another history, by its answer to `last_leader_epoch`."""
        offset = parting_offset(self._epochs, leader_epoch, leader_end_offset)
        reason = f"the source has another history from offset {offset} on (its epoch {leader_epoch}"
        self.part_at(offset, f"{reason} ends at {leader_end_offset})")

    def part_at(self, source_offset: int, reason: str) -> None:
        """Take note that the source has another history from this offset on.

        What was fetched before that offset is still copied: the next session begins behind it.
        """
        batches = self._batches
        while len(batches) > self.in_flight + len(self._answers) and batches[-1].base_offset >= source_offset:
            dropped = batches.pop()
            self._covered.pop(dropped.base_offset, None)
            self.buffered_bytes -= len(dropped.data)
            self.unsent_bytes -= len(dropped.data)
        self._end_with(Need.NEW_SESSION, source_offset, reason)

    def look(self, reason: str) -> None:
        """Take note that it is not known what the target has."""
        self._need(Need.LOOK, self.map.source_end, reason)

    def _take_usual_batches(self, records: memoryview) -> int:
        """Take in the batches with which an answer begins, as far as they are usual; return how many bytes they have.

        They lie without a gap behind what was taken in, and are whole, so that they may be sent in a shared session.
        """
        if self._pairing is not None or not self._may_send_whole_batches:
            return 0
        session = self.session
        batches, size_bytes = stamp_usual_batches(
            records,
            Expected(
                self.fetch_offset,
                self.last_leader_epoch,
                session.producer_id,
                session.producer_epoch,
                self._tail_sequence,
            ),
        )
        if batches:
            self._batches += batches
            end_offset = batches[-1].next_offset
            self._tail_sequence = (self._tail_sequence + end_offset - self.fetch_offset) & INT32_MAX
            self.fetch_offset = end_offset
            self.buffered_bytes += size_bytes
            self.unsent_bytes += size_bytes
        return size_bytes

    def _take_batch(self, batch: SourceBatch) -> None:
        if batch.base_offset > self.fetch_offset:
            self._crosses_gap = True
        if not batch.record_count:
            if self._pairing is not None:
                self._pairing.skip(batch)
            self._cover(batch.next_offset)
            return
        if self._pairing is not None and not self._is_to_send(self._pairing, batch):
            return
        if not self._may_send(batch):
            why = "the source has gaps" if self.session.owner is None else "another worker has copied this partition"
            self._end_with(Need.OWN_SESSION, self.fetch_offset, why)
            return
        self._append(batch)

    def _append(self, batch: SourceBatch) -> None:
        """Have a batch be sent behind all others.

        Raises:
            CorruptMessage: it does not match its CRC.
        """
        session = self.session
        restamp(batch.data, batch.base_offset, session.producer_id, session.producer_epoch, self._tail_sequence)
        self._batches.append(batch)
        self._tail_sequence = (self._tail_sequence + batch.record_count) & INT32_MAX
        self.buffered_bytes += len(batch.data)
        self.unsent_bytes += len(batch.data)

    @property
    def _may_send_whole_batches(self) -> bool:
        """Whether batches without gaps in them may be sent in this session."""
        owner = self.session.owner
        return not self._crosses_gap if owner is None else owner == self._worker

    def _may_send(self, batch: SourceBatch) -> bool:
        """Return whether a batch may be sent in this session."""
        is_whole = batch.offsets is None and batch.base_offset + batch.record_count == batch.next_offset
        return self._may_send_whole_batches and (is_whole or self.session.owner is not None)

    def _is_to_send(self, pairing: Pairing, batch: SourceBatch) -> bool:
        """Return whether the target lacks a batch; note it in the map if not, or say what is needed to find out."""
        placement, runs = pairing.place(batch)
        # Sequences go on without a batch, too, where the source has lost what the target has.
        self.next_sequence = self._tail_sequence = pairing.next_sequence
        passed_over, pairing.passed_over = pairing.passed_over, 0
        has_more = passed_over or (runs and runs[0].target > self.map.target_end)
        if self.missed and has_more and placement in {Placement.IS_THERE, Placement.TO_SEND}:
            # The target has records that the source's retention has removed, and nobody knows any more which is
            # which: no group is to be sent behind them.
            self.map.lose_until(batch.base_offset, self.map.target_end)
        self.missed = max(0, self.missed - passed_over)
        if placement is Placement.IS_THERE:
            for run in runs:
                self.map.append(*run)
            self.map.skip_to(batch.next_offset)
            if pairing.is_over:
                self._pairing = None  # else a marker at the log's end would count as not dealt with for ever
            if pairing.doubtful_from is None:
                self._crosses_gap = False  # the target has had the same there
        elif placement is Placement.TO_SEND:
            self._pairing = None
        elif placement is Placement.UNSURE:
            self._need(Need.LOOK_AT_RECORDS, self.map.source_end, "records have to be compared with the target's")
        else:
            parts_at = batch.base_offset if pairing.doubtful_from is None else pairing.doubtful_from
            self._need(Need.NEW_SESSION, parts_at, f"the target has other records in place of offset {parts_at}")
        return placement is Placement.TO_SEND

    def _cover(self, source_offset: int) -> None:
        """Note that all below an offset is dealt with as soon as what is on its way is acknowledged."""
        if self._batches:
            self._covered[self._batches[-1].base_offset] = source_offset
        elif self._pairing is None:  # else what was found may belong before it, which who takes over has to see too
            self.map.skip_to(max(source_offset, self.map.source_end))

    def _end_with(self, need: Need, source_offset: int, reason: str) -> None:
        """Have something be needed once all that was taken in is acknowledged."""
        self._ends_with = Needed(need, source_offset, reason)
        self._look_for_end()

    def _look_for_end(self) -> None:
        if self._ends_with is None or self._batches:
            return
        if self._ends_with.need is Need.OWN_SESSION and self.needed is None:
            # All before is dealt with; behind the position the next session would have to take it for unknown.
            self.map.skip_to(max(self._ends_with.source_offset, self.map.source_end))
        self._need(*self._ends_with)

    def _need(self, need: Need, source_offset: int, reason: str) -> None:
        if self.needed is None:
            self.needed = Needed(need, source_offset, reason)

    # What goes to the target

    @property
    def has_to_send(self) -> bool:
        """Whether `next_to_send` has a batch."""
        return (
            self.in_flight < self._in_flight_max
            and self.in_flight < len(self._batches)
            and self.needed is None
            and not self._answers
        )

    @property
    def next_unsent(self) -> SourceBatch | None:
        """The batch that `next_to_send` would begin with if it may."""
        return self._batches[self.in_flight] if self.in_flight < len(self._batches) else None

    def send_alone(self) -> None:
        """Send the next batch alone, as after a pause: the target may not know the producer any more."""
        assert not self.in_flight
        self._in_flight_max = 1

    def next_to_send(self, batches_max: int) -> list[SourceBatch]:
        """Return the next batches, which count as sent."""
        if not self.has_to_send:
            return []
        first = self.in_flight
        batches = list(islice(self._batches, first, min(first + batches_max, self._in_flight_max)))
        self.in_flight = first + len(batches)
        self.unsent_bytes -= sum(map(len, map(_DATA, batches)))
        return batches

    def on_acknowledged(self, target_offsets: Sequence[int]) -> None:
        """Take the target's word that it has the first batches that were not answered.

        Args:
            target_offsets: of the first record of each; -1 if the target has forgotten it.
        """
        assert len(target_offsets) <= self.in_flight, "a batch is answered once"
        for target_offset in target_offsets[self._note_run(target_offsets) :]:
            if self._answers or target_offset < self.map.target_end:
                self._keep_answer(self._doubted(target_offset))
            else:
                self._note(target_offset)
        if not self._answers:
            self._in_flight_max = IN_FLIGHT_MAX if self._batches else 1
            if not self._batches:
                self._look_for_end()

    def _note_run(self, target_offsets: Sequence[int]) -> int:
        """Put into the map, as one run, what goes on from its end on both sides; return how many batches that are."""
        if self._answers or self._covered:
            return 0
        batches, offset_map = self._batches, self.map
        source_end = source_start = offset_map.source_end
        target_end = target_start = offset_map.target_end
        noted = size_bytes = 0
        for target_offset in target_offsets:
            batch = batches.popleft()
            base_offset, end_offset, count, data, offsets, _ = batch
            if (
                target_offset != target_end
                or base_offset != source_end
                or end_offset != source_end + count
                or offsets is not None
            ):
                batches.appendleft(batch)
                break
            source_end = end_offset
            target_end += count
            size_bytes += len(data)
            noted += 1
        if noted:
            offset_map.append(source_start, target_start, source_end - source_start)
            self._count_acknowledged(noted, source_end - source_start, size_bytes)
        return noted

    def _note(self, target_offset: int) -> None:
        """Put the first batch into the map, wherever the target has it."""
        base_offset, end_offset, count, data, offsets, _ = self._batches.popleft()
        offset_map = self.map
        if offsets is None:
            offset_map.append(base_offset, target_offset, count)
        else:
            for number, source_offset in enumerate(offsets):
                offset_map.append(source_offset, target_offset + number, 1)
        end_offset = self._covered.pop(base_offset, end_offset)
        if end_offset > offset_map.source_end:
            offset_map.skip_to(end_offset)
        self._count_acknowledged(1, count, len(data))

    def _count_acknowledged(self, batches: int, records: int, size_bytes: int) -> None:
        self.in_flight -= batches
        self.next_sequence = (self.next_sequence + records) & INT32_MAX
        self.buffered_bytes -= size_bytes
        self.records += records
        self.bytes += size_bytes

    def _doubted(self, target_offset: int) -> int | Failure:
        """Return what an acknowledgement means that does not simply go on from the map's end."""
        if target_offset < 0:
            reason = "the target has it, and does not say where"
            return Failure(ErrorCode.duplicate_sequence_number, reason)
        if not self._answers:
            # What was acknowledged before stood there: the target's log was cut, and forgot the session.
            self.target_cut_at = target_offset
            self._need(Need.LOOK, self.map.source_end, "the target's offsets went backwards")
        return target_offset

    def on_failed(self, error: ErrorCode, message: str) -> None:
        """Take note that the first batch failed that was not answered.

        Args:
            error: of the target; with `none` there was no answer, and the target may have the batch or not.
            message: why, in words.
        """
        self._keep_answer(Failure(error, message))

    def _keep_answer(self, answer: int | Failure) -> None:
        """Keep an answer from which on nothing is noted, until it is decided what has to be done."""
        assert self.in_flight, "a batch is answered once"
        self.in_flight -= 1
        self._answers.append(answer)
        if not self.in_flight:
            self._settle()

    @property
    def may_repeat(self) -> bool:
        """Whether `repeat` has something to do: an error may have passed, and nothing is under way."""
        return bool(self._answers) and not self.in_flight and self.needed is None

    @property
    def has_failed(self) -> bool:
        """Whether a batch failed and was not sent again."""
        return bool(self._answers)

    @property
    def failure(self) -> Failure | None:
        """Why the first batch failed that did, while it was not sent again."""
        return next((each for each in self._answers if isinstance(each, Failure)), None)

    def repeat(self) -> None:
        """Have the first batch that failed sent again, and all behind it."""
        assert self.may_repeat
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Take all that is not acknowledged for not sent; it is the target that knows what it has."""
        self._answers.clear()
        self._in_flight_max = 1
        self.unsent_bytes = self.buffered_bytes

    def pass_over(self) -> SourceBatch:
        """Leave out the first batch, which was refused and is kept elsewhere now; return it."""
        assert self.needed is not None
        assert self.needed.need is Need.REFUSED
        assert not self.in_flight
        following, self._batches = self._batches, deque()
        refused = following.popleft()
        self.map.skip_to(self._covered.pop(refused.base_offset, refused.next_offset))
        self.needed, self.buffered_bytes = None, 0
        self._begin_anew()
        self._tail_sequence = self.next_sequence
        for batch in following:
            try:
                self._append(batch)
            except KafkaError as error:
                self._end_with(Need.DAMAGED, batch.base_offset, str(error))
                break
        self._look_for_end()
        return refused

    def forget_unsent(self) -> None:
        """Forget what was never sent, to free its memory; it is fetched again. What was sent is sent again.

        Up to `IN_FLIGHT_MAX` batches may have been sent. One of them that nobody has answered may be in the target's
        log, or come there yet, and the source may have something else in its place by now: under the same sequence,
        that would be taken for a repetition.
        """
        assert not self.in_flight
        assert self.takes()
        while len(self._batches) > IN_FLIGHT_MAX:
            forgotten = self._batches.pop()
            self._covered.pop(forgotten.base_offset, None)
            self.buffered_bytes -= len(forgotten.data)
            self._tail_sequence = decrement_sequence(self._tail_sequence, forgotten.record_count)
        self.unsent_bytes = self.buffered_bytes
        last = self._batches[-1]
        self.fetch_offset = self._covered.get(last.base_offset, last.next_offset)
        self.missed -= sum(len(each) for each in self._missed_ahead if each.start >= self.fetch_offset)
        self._missed_ahead = [each for each in self._missed_ahead if each.start < self.fetch_offset]
        self._epochs = below(self._epochs, self.fetch_offset)
        self.last_leader_epoch = last_epoch(self._epochs)

    def drop(self) -> None:
        """Forget what was taken in, to free its memory; nothing can be sent after that."""
        assert not self.in_flight
        self._batches.clear()
        self._covered.clear()
        self._answers.clear()
        self.buffered_bytes = self.unsent_bytes = 0

    def _settle(self) -> None:
        """Decide by the first error what is to be done, now that nothing is under way."""
        failed = self.failure
        if failed is None or failed.error is _NO_ERROR:
            return
        needed = needed_after(failed, self.map.source_end, self._batches[0].base_offset)
        if needed is not None:
            self._need(*needed)
