"""A position is read as it was stored, by the format of its time; one of a later format is refused."""

import struct
from dataclasses import replace
from uuid import UUID

import pytest

from ottla_core.wire.records import Record
from ottla_mirror.internal_topics.topic_requests import Entry
from ottla_mirror.offsets.leader_epochs import EpochStart
from ottla_mirror.offsets.map_changes import changes, snapshot, taken_over
from ottla_mirror.offsets.map_records import (
    POSITION_VERSION,
    PartitionName,
    Position,
    PositionKey,
    PositionWriter,
    SessionKey,
    UnknownVersion,
    decode_key,
    decode_position,
    encode_key,
    encode_position,
    encode_session,
)
from ottla_mirror.offsets.map_state import MapState
from ottla_mirror.offsets.offset_map import MapBounds
from ottla_mirror.offsets.stored_copy import Session, SessionName

NAME = PartitionName("orders", 3)
WRITERS = ((0, PositionWriter(5, 77)), (2, PositionWriter(9, 78)))
POSITION = Position(SessionName(7, 2), 40, MapBounds(0, 2, 1, 2, 3, 4, 5, 6), WRITERS, (EpochStart(3, 0),))
SESSION = Session(
    producer_id=7,
    producer_epoch=2,
    source_topic_id=UUID(int=1),
    source_start_offset=0,
    target_topic_id=UUID(int=2),
    target_start_offset=0,
    replaces=None,
)


def of_version_0(position: Position) -> bytes:
    """As positions were written before they had epochs."""
    head = struct.pack(">qhi8q", *position.session, position.next_sequence, *position.bounds)
    return head + b"".join(struct.pack(">qqI", number, *writer) for number, writer in position.chunk_writers)


@pytest.mark.parametrize("epochs", [(), (EpochStart(0, 0),), (EpochStart(3, 10), EpochStart(8, 2**40))])
def test_a_position_is_read_as_it_was_stored(epochs: tuple[EpochStart, ...]) -> None:
    position = POSITION._replace(epochs=epochs)
    assert decode_position(encode_position(position)) == position


def test_a_position_of_the_first_version_has_no_epochs() -> None:
    assert decode_position(of_version_0(POSITION), 0) == POSITION._replace(epochs=())


def test_a_key_says_its_version_and_one_of_a_later_version_is_refused() -> None:
    for version in range(POSITION_VERSION + 1):
        key = PositionKey(NAME, PositionWriter(5, 77), version)
        assert decode_key(encode_key(key)) == key
    with pytest.raises(UnknownVersion, match="version 2"):
        decode_key(encode_key(PositionKey(NAME, PositionWriter(5, 77), POSITION_VERSION + 1)))
    session = encode_key(SessionKey(NAME, SESSION.name))
    with pytest.raises(UnknownVersion, match="versions up to 1"):
        decode_key(b"\0\2" + session[2:])


def test_a_copy_of_the_first_version_goes_on_and_its_position_is_deleted_once_there_is_another() -> None:
    state = MapState()
    old = PositionKey(NAME, PositionWriter(0, 77), 0)
    position = POSITION._replace(bounds=MapBounds(0, 0, 0, 0, 0, 0, 30, 20), chunk_writers=())
    state.apply(Record(0, 0, encode_key(SessionKey(NAME, SESSION.name)), encode_session(SESSION)))
    state.apply(Record(1, 0, encode_key(old), of_version_0(position)))
    copy = state.copy(NAME)
    assert copy is not None
    assert (copy.next_source_offset, copy.target_offset, copy.epochs) == (30, 20, ())

    copy = replace(copy, epochs=(EpochStart(4, 0),))
    entries, _ = changes(
        NAME, snapshot(copy), taken_over(state, NAME, PositionWriter(state.next_writer_number(NAME), 78))
    )
    for offset, entry in enumerate(entries, 2):
        state.apply(Record(offset, 0, entry.key, entry.value))
    assert Entry(encode_key(old), None) in entries
    found = state.copy(NAME)
    assert found is not None
    assert found.epochs == copy.epochs
