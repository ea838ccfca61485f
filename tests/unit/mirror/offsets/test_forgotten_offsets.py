"""What the source has deleted leaves the map and the store, in an order that a crash does not turn into a hole."""

from uuid import UUID

from ottla_core.wire.records import Record
from ottla_mirror.internal_topics.topic_requests import Entry
from ottla_mirror.offsets.map_changes import changes, snapshot, taken_over
from ottla_mirror.offsets.map_records import (
    ChunkKey,
    PartitionName,
    PositionWriter,
    SessionKey,
    encode_key,
    encode_session,
)
from ottla_mirror.offsets.map_state import MapState
from ottla_mirror.offsets.offset_map import RUNS_PER_CHUNK
from ottla_mirror.offsets.stored_copy import Session, StoredCopy, begun

NAME = PartitionName("orders", 0)
SESSION = Session(
    producer_id=7,
    producer_epoch=0,
    source_topic_id=UUID(int=1),
    source_start_offset=0,
    target_topic_id=UUID(int=2),
    target_start_offset=0,
    replaces=None,
)
CHUNKS = 12
KEPT_CHUNKS = 2


class Topic:
    """The map's topic: its records, and the state that they make up."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.append([Entry(encode_key(SessionKey(NAME, SESSION.name)), encode_session(SESSION))])

    def append(self, entries: list[Entry]) -> None:
        self.records += [Record(len(self.records) + n, 0, each.key, each.value) for n, each in enumerate(entries)]

    def state(self) -> MapState:
        state = MapState()
        for record in self.records:
            state.apply(record)
        return state

    def live_keys(self) -> int:
        return len({each.key for each in self.records} - {each.key for each in self.records if each.value is None})


def copy_chunks(copy: StoredCopy, count: int) -> None:
    """Transactions of one record: each is a run, as its marker is left out."""
    for _ in range(count * RUNS_PER_CHUNK):
        copy.map.append(copy.map.source_end + 1, copy.map.target_end, 1)


def test_retention_at_the_source_bounds_the_live_keys_of_the_store() -> None:
    topic, copy = Topic(), begun(SESSION, None)
    written = taken_over(topic.state(), NAME, PositionWriter(1, 7))
    most = 0
    for _ in range(CHUNKS):
        copy_chunks(copy, 1)
        start = copy.map.source_end - KEPT_CHUNKS * 2 * RUNS_PER_CHUNK
        copy.map.forget_below(start)
        entries, written = changes(NAME, snapshot(copy), written)
        topic.append(entries)
        most = max(most, topic.live_keys())
        found = topic.state().copy(NAME)
        assert found is not None
        assert not found.map.holes()
        for offset in range(max(start, 0), copy.map.source_end, 97):
            assert found.map.translate(offset).target_offset == offset // 2
        assert found.map.translate(0).target_offset <= max(start, 0) // 2, (
            "a group that is left behind skips a record"
        )
    assert most <= KEPT_CHUNKS + 4, "session, position, and the chunks at both ends"


def test_a_crash_amid_the_records_of_a_save_leaves_no_hole() -> None:
    topic, copy = Topic(), begun(SESSION, None)
    copy_chunks(copy, CHUNKS)
    entries, written = changes(NAME, snapshot(copy), taken_over(topic.state(), NAME, PositionWriter(1, 7)))
    topic.append(entries)
    copy_chunks(copy, 1)
    copy.map.forget_below(copy.map.source_end // 2)
    entries, _ = changes(NAME, snapshot(copy), written)
    assert any(each.value is None for each in entries)
    for arrived in range(len(entries) + 1):
        crashed = Topic()
        crashed.records = list(topic.records)
        crashed.append(entries[:arrived])
        state = crashed.state()
        found = state.copy(NAME)
        assert found is not None
        assert not found.map.holes(), f"after {arrived} of {len(entries)} records"
        # Who takes over deletes what did not arrive.
        crashed.append(changes(NAME, snapshot(copy), taken_over(state, NAME, PositionWriter(2, 8)))[0])
        stored = [key for key in crashed.state().keys(NAME) if isinstance(key, ChunkKey)]
        assert len(stored) == len(copy.map.chunks())
