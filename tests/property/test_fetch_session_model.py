"""An incremental session against sessionless fetches: its reader must know the same, though it is told less.

After every event, whatever a sessionless fetch would tell that the reader does not know must be dirty in the session,
or nobody would ever look at it. After every fetch of the session, the reader must know all that a sessionless fetch
would have told it.
"""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kio.schema.errors import ErrorCode

from ottla_broker.fetch_reading import FetchTerms, Reading, look, note_told
from ottla_broker.fetch_sessions import FetchSession, FetchSessionCache
from ottla_broker.partition import Partition
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_core.wire.replica_fetch_request import PartitionFetch
from tests.support.broker.readable_partitions import (
    BROKER,
    FOLLOWER,
    OTHER_FOLLOWER,
    PLENTY_BYTES,
    TOPIC,
    ReadablePartitions,
    append,
    asked,
    replicate,
    session_of,
)

INDEXES = range(3)
indexes = st.sampled_from(INDEXES)

Known = tuple[ErrorCode, int, int]
"""Error code, high watermark and log start offset of a partition."""


class Waiting:
    """A fetch that waits; notes whether it was told of anything."""

    def __init__(self) -> None:
        self.was_told = False

    def on_append(self, _: Partition, __: int) -> None:
        self.was_told = True

    def on_high_watermark(self, _: Partition) -> None:
        self.was_told = True

    def on_change(self) -> None:
        self.was_told = True

    def hurry(self) -> None:
        raise AssertionError("nobody hurries it")

    def refuse(self, _: object) -> None:
        raise AssertionError("nobody refuses it")


class FetchSessionModel(RuleBasedStateMachine):
    """A consumer's or a follower's session over a few partitions that live through everything."""

    @initialize(is_follower=st.booleans(), first=st.sets(indexes, min_size=1))
    def begin(self, is_follower: bool, first: set[int]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="fetch-session-"))
        self.partitions = ReadablePartitions(self.directory)
        self.held = {index: self.partitions.add(index) for index in INDEXES}
        self.epoch = 0
        contact = FollowerContact(OTHER_FOLLOWER, 73, 0) if is_follower else None
        self.follower = contact
        self.wanted = {index: asked(index, 0) for index in sorted(first)}
        self.session = session_of(*self.wanted.values(), follower=contact)
        reading = look(self.session, self.terms(), self.partitions, only_news=False)
        assert FetchSessionCache(1, lambda: 5).keep(self.session, 0)
        note_told(self.session, reading)
        self.known: dict[int, Known] = {}
        self.learn(reading)

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.partitions.close()
            shutil.rmtree(self.directory)

    def terms(self, bytes_max: int = PLENTY_BYTES) -> FetchTerms:
        return FetchTerms(bytes_max, only_leader=True, read_committed=False)

    def learn(self, reading: Reading) -> None:
        for found in reading.found:
            outcome = found.outcome
            index = found.wanted.asked.partition
            self.known[index] = (outcome.error_code, outcome.high_watermark, outcome.log_start_offset)

    def sessionless(self) -> Reading:
        """What a fetch without a session would find now; it tells the leader nothing about the follower."""
        session: FetchSession = session_of(*self.wanted.values(), follower=self.follower)
        for partition in session:
            partition.is_unrecorded = False
        return look(session, self.terms(), self.partitions, only_news=False)

    # What happens to partitions

    @rule(index=indexes, count=st.integers(1, 3))
    def records_are_appended(self, index: int, count: int) -> None:
        partition = self.held.get(index)
        if partition is not None and partition.leads:
            append(partition, *[b"x"] * count)

    @rule(index=indexes, back=st.integers(0, 3))
    def the_other_follower_gets_on(self, index: int, back: int) -> None:
        partition = self.held.get(index)
        if partition is not None and partition.leads:
            replicate(partition, max(0, partition.log.log_end_offset - back))

    @rule(index=indexes, leads=st.booleans())
    def a_leader_is_elected(self, index: int, leads: bool) -> None:
        partition = self.held.get(index)
        if partition is None:
            return
        self.epoch += 1
        leader = BROKER if leads else FOLLOWER
        state = replace(partition.state, leader=leader, leader_epoch=self.epoch, partition_epoch=100 + self.epoch)
        partition.apply(state, leads=leads)

    @rule(index=indexes, others=st.sets(st.sampled_from([FOLLOWER, OTHER_FOLLOWER])))
    def the_in_sync_set_changes(self, index: int, others: set[int]) -> None:
        partition = self.held.get(index)
        if partition is not None:
            self.epoch += 1
            state = replace(partition.state, isr=(BROKER, *sorted(others)), partition_epoch=100 + self.epoch)
            partition.apply(state, leads=partition.leads)

    @rule(index=indexes, share=st.integers(0, 4))
    def records_are_deleted(self, index: int, share: int) -> None:
        partition = self.held.get(index)
        if partition is not None:
            partition.log.delete_records_before(partition.log.high_watermark * share // 4)
            partition.tell_change()

    @rule(index=indexes)
    def the_topic_is_deleted_or_made_anew(self, index: int) -> None:
        if self.held.pop(index, None) is not None:
            self.partitions.remove(index)
        else:
            self.held[index] = self.partitions.add(index)

    # What the reader does

    @rule(index=indexes, offset=st.integers(0, 12), epoch=st.booleans())
    def the_reader_asks_for_a_partition(self, index: int, offset: int, epoch: bool) -> None:
        self.ask(asked(index, offset, leader_epoch=self.epoch if epoch else -1))

    def ask(self, wanted: PartitionFetch) -> None:
        self.wanted[wanted.partition] = wanted
        self.session.ask(TOPIC, wanted)

    @rule(index=indexes)
    def the_reader_forgets_a_partition(self, index: int) -> None:
        self.wanted.pop(index, None)
        self.known.pop(index, None)
        self.session.forget(TOPIC, index)

    @rule(goes_on=st.booleans())
    def the_reader_fetches(self, goes_on: bool) -> None:
        reading = look(self.session, self.terms(), self.partitions, only_news=True)
        note_told(self.session, reading)
        self.learn(reading)
        told = {found.wanted.asked.partition: found.outcome for found in reading.found}
        for found in self.sessionless().found:
            index, outcome = found.wanted.asked.partition, found.outcome
            assert self.known[index] == (outcome.error_code, outcome.high_watermark, outcome.log_start_offset)
            records = told[index].records if index in told else None
            assert (records and records.size) == (outcome.records and outcome.records.size)
            if goes_on and outcome.records is not None and found.partition is not None:
                end = found.partition.log.log_end_offset if self.follower else outcome.high_watermark
                self.ask(asked(index, end))

    @rule(bytes_max=st.integers(0, 200))
    def the_reader_fetches_little(self, bytes_max: int) -> None:
        expected = {found.wanted.asked.partition: found.outcome for found in self.sessionless().found}
        reading = look(self.session, self.terms(bytes_max), self.partitions, only_news=True)
        note_told(self.session, reading)
        self.learn(reading)
        assert bool(reading.size_bytes) == any(outcome.records for outcome in expected.values())
        for found in reading.found:
            assert found.outcome.error_code == expected[found.wanted.asked.partition].error_code

    @precondition(lambda self: self.session.waiting is None)
    @rule()
    def the_reader_waits(self) -> None:
        """All that is left after a fetch is watched by the fetch that waits."""
        reading = look(self.session, self.terms(), self.partitions, only_news=True)
        self.session.waiting = self.waiting = Waiting()
        for found in reading.found:
            if found.partition is not None:
                found.wanted.watch(found.partition, self.session)

    @precondition(lambda self: self.session.waiting is not None)
    @rule()
    def the_wait_ends(self) -> None:
        self.session.waiting = None

    @invariant()
    def whatever_is_new_is_dirty(self) -> None:
        if not hasattr(self, "session"):
            return
        dirty = {wanted.asked.partition for wanted in self.session.dirty}
        for found in self.sessionless().found:
            index, outcome = found.wanted.asked.partition, found.outcome
            now = (outcome.error_code, outcome.high_watermark, outcome.log_start_offset)
            if (
                outcome.records is not None
                or outcome.error_code is not ErrorCode.none
                or self.known.get(index) != now
            ):
                assert index in dirty

    @invariant()
    def nobody_hears_of_what_nobody_waits_for(self) -> None:
        if hasattr(self, "session") and self.session.waiting is None:
            for wanted in self.session:
                if wanted not in self.session.dirty:
                    assert wanted.watched is self.held[wanted.asked.partition]


TestFetchSessionModel = FetchSessionModel.TestCase
