"""Workers that take partitions over from each other, and know it late, agree on what the offset map's topic says.

The topic is a list of records here; compaction removes what a later record of the same key has replaced. What a
session copies is decided beforehand: it is a function of the source, whoever copies.
"""

from dataclasses import dataclass, field, replace
from unittest.mock import patch
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_core.wire.records import Record
from ottla_mirror.offsets import offset_map
from ottla_mirror.offsets.map_changes import StoredByWriter, changes, is_overtaken, snapshot, taken_over
from ottla_mirror.offsets.map_records import PartitionName, PositionWriter, SessionKey, encode_key, encode_session
from ottla_mirror.offsets.map_state import MapState
from ottla_mirror.offsets.stored_copy import Session, SessionName, StoredCopy, begun

NAME = PartitionName("orders", 3)
WORKERS = 3
SMALL_CHUNK = 2
steps = st.one_of(
    st.tuples(st.just("load"), st.integers(0, WORKERS - 1), st.just(0)),
    st.tuples(st.just("take over"), st.integers(0, WORKERS - 1), st.integers(1, 6)),
    st.tuples(st.just("copy"), st.integers(0, WORKERS - 1), st.integers(1, 6)),
    st.tuples(st.just("save"), st.integers(0, WORKERS - 1), st.just(0)),
    st.tuples(st.just("begin"), st.integers(0, WORKERS - 1), st.integers(0, 9)),
    st.tuples(st.just("compact"), st.just(0), st.just(0)),
)


@dataclass
class Topic:
    """The log: offset, key, value."""

    records: list[Record] = field(default_factory=list)
    end: int = 0

    def append(self, key: bytes, value: bytes | None) -> int:
        self.records.append(Record(self.end, 0, key, value))
        self.end += 1
        return self.end - 1

    def compact(self) -> None:
        last = {record.key: record.offset for record in self.records}
        self.records = [each for each in self.records if last[each.key] == each.offset]

    def state(self) -> MapState:
        state = MapState()
        for record in self.records:
            state.apply(record)
        return state


@dataclass
class Truth:
    """What each session copies: the source offsets that have records, and the target offset of each."""

    pairs: dict[SessionName, list[tuple[int, int]]] = field(default_factory=dict)
    real: list[tuple[int, int]] = field(default_factory=list)
    holder: SessionName | None = None
    target_end: int = 0

    def begin(self, session: Session) -> None:
        """From the session's start on every third source offset is a marker; foreign records come now and then."""
        found, target = [], self.target_end
        for source in range(session.source_start_offset, session.source_start_offset + 60):
            if source % 3:
                found.append((source, target))
                target += 1 + (source % 7 == 0)
        self.pairs[session.name] = found
        self.target_end = target

    def hold(self, session: Session) -> None:
        """The source has other records from the session's start on; nothing of the session before comes any more."""
        self.holder = session.name
        self.real = [pair for pair in self.real if pair[0] < session.source_start_offset]

    def copied(self, session: SessionName, pairs: list[tuple[int, int]]) -> None:
        if session == self.holder:
            self.real = sorted({*self.real, *pairs})


@dataclass
class Worker:
    """A worker with what it believes."""

    nonce: int
    copy: StoredCopy | None = None
    written: StoredByWriter | None = None

    def load(self, topic: Topic) -> None:
        state = topic.state()
        number = state.next_writer_number(NAME)
        if self.written is not None and self.written.position is not None:
            number = max(number, self.written.writer.number + 1)
        self.written = taken_over(state, NAME, PositionWriter(number, self.nonce))
        self.copy = state.copy(NAME)

    def copy_on(self, count: int, truth: Truth) -> None:
        assert self.copy is not None
        offsets, sequence = self.copy.map, self.copy.next_sequence
        ahead = [pair for pair in truth.pairs[self.copy.session.name] if pair[0] >= offsets.source_end]
        truth.copied(self.copy.session.name, ahead[:count])
        for source, target in ahead[:count]:
            offsets.append(source, target, 1)
            sequence += 1
        self.copy = replace(self.copy, next_sequence=sequence)

    def save(self, topic: Topic) -> None:
        assert self.copy is not None
        assert self.written is not None
        state, taken = topic.state(), snapshot(self.copy)
        if is_overtaken(state, NAME, taken, self.written):
            number = max(state.next_writer_number(NAME), self.written.writer.number + 1)
            self.written = taken_over(state, NAME, PositionWriter(number, self.nonce))
        entries, self.written = changes(NAME, taken, self.written)
        for entry in entries:
            topic.append(entry.key, entry.value)

    def begin(self, start: int, topic: Topic, truth: Truth, producer_id: int) -> None:
        """Truncated, or the first session. An odd start is that of a worker that does not save before it begins."""
        before = self.copy
        if before is not None and start % 2 == 0:
            self.save(topic)
        session = Session(
            producer_id=producer_id,
            producer_epoch=0,
            source_topic_id=UUID(int=1),
            source_start_offset=start if before is None else max(0, before.next_source_offset - start),
            target_topic_id=UUID(int=2),
            target_start_offset=truth.target_end,
            replaces=None if before is None else before.session.name,
        )
        truth.begin(session)
        topic.append(encode_key(SessionKey(NAME, session.name)), encode_session(session))
        state = topic.state()
        if state.session(NAME) == session:
            truth.hold(session)
            self.written = taken_over(state, NAME, PositionWriter(state.session_offset(NAME), self.nonce))
            self.copy = begun(session, before)
        else:
            self.load(topic)


@settings(max_examples=300)
@given(st.lists(steps, max_size=40), st.data())
def test_a_reader_finds_what_the_session_that_holds_has_copied(
    taken: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    with patch.object(offset_map, "RUNS_PER_CHUNK", SMALL_CHUNK):
        topic, truth, workers = Topic(), Truth(), [Worker(nonce) for nonce in range(WORKERS)]
        workers[0].begin(0, topic, truth, 99)
        for number, (what, place, amount) in enumerate(taken):
            worker = workers[place]
            if what == "load":
                worker.load(topic)
            elif what == "compact":
                topic.compact()
            elif what == "begin":
                worker.begin(amount, topic, truth, 100 + number)
            elif worker.copy is not None and what == "copy":
                worker.copy_on(amount, truth)
            elif worker.copy is not None and what == "save":
                worker.save(topic)
                look_at_position(topic, worker.copy)
            elif what == "take over":
                worker.load(topic)
                worker.copy_on(amount, truth)
                worker.save(topic)
        look(topic, truth)
        topic.compact()
        look(topic, truth)
        final = workers[data.draw(st.integers(0, WORKERS - 1))]
        final.load(topic)
        if final.copy is not None:
            final.copy_on(50, truth)
            final.save(topic)
            topic.compact()
            found = topic.state().copy(NAME)
            assert found is not None
            assert found.map.bounds == final.copy.map.bounds
            assert list(found.map.runs()) == list(final.copy.map.runs())
            assert found.map.holes() == final.copy.map.holes()
            chunks = len(found.map.chunks())
            assert len([each for each in topic.records if each.value is not None]) <= 2 + chunks


def test_a_session_that_left_no_position_has_begun_before_what_the_one_before_it_kept() -> None:
    topic, truth, worker = Topic(), Truth(), Worker(0)
    worker.begin(0, topic, truth, 99)
    worker.copy_on(1, truth)
    worker.save(topic)
    worker.begin(1, topic, truth, 100)
    worker.copy_on(2, truth)
    worker.begin(1, topic, truth, 101)
    look(topic, truth)


def look_at_position(topic: Topic, saved: StoredCopy) -> None:
    """Whoever saves in the session that holds is not passed over for somebody who has not come as far."""
    found = topic.state().copy(NAME)
    assert found is not None
    if found.session == saved.session:
        assert found.next_source_offset >= saved.next_source_offset


def look(topic: Topic, truth: Truth) -> None:
    """Of the session that holds, what is found is what was copied before the position; no record is ever skipped."""
    found = topic.state().copy(NAME)
    if found is None:
        return
    start = found.session.source_start_offset
    assert all(hole.source_end <= start for hole in found.map.holes())
    pairs = [
        (run.source + place, run.target + place) for run in found.map.runs() for place in range(run.record_count)
    ]
    own = truth.pairs[found.session.name]
    assert [pair for pair in pairs if pair[0] >= start] == [
        pair for pair in own if pair[0] < found.next_source_offset
    ]
    assert found.next_sequence == sum(pair[0] >= start for pair in pairs)
    assert set(pairs) <= set(truth.real)
    for source in range(start + 60):
        first = min((pair[1] for pair in truth.real if pair[0] >= source), default=truth.target_end)
        assert found.map.translate(source).target_offset <= first
