"""Checkpoints are read as they were written; what is none is passed over. Kafka's own classes read them elsewhere."""

from ottla_core.wire.records import Record
from ottla_mirror.groups.checkpoints import Checkpoint, CheckpointKey, Checkpoints, checkpoint_entry
from ottla_mirror.groups.heartbeats import Heartbeat, read_heartbeat
from ottla_mirror.internal_topics.struct_fields import STRING_BYTES_MAX

KEY = CheckpointKey("grüppe", "A.orders", 3)


def records(*pairs: tuple[bytes | None, bytes | None]) -> list[Record]:
    return [Record(number, 0, key, value) for number, (key, value) in enumerate(pairs)]


def test_the_last_checkpoint_counts_until_it_is_deleted() -> None:
    found = Checkpoints()
    first, second = Checkpoint(100, 40, ""), Checkpoint(120, 60, "metadata")
    for record in records(checkpoint_entry(KEY, first)[:2], checkpoint_entry(KEY, second)[:2]):
        found.apply(record)
    assert found.found == {KEY: second}
    for record in records(checkpoint_entry(KEY, None)[:2]):
        found.apply(record)
    assert found.found == {}


def test_records_that_are_none_are_passed_over() -> None:
    found = Checkpoints()
    later = b"\x00\x01" + Checkpoint(1, 2, "").encoded()[2:]
    for record in records((None, b""), (b"x", b"y"), (KEY.encoded(), later), (KEY.encoded(), b"\x00")):
        found.apply(record)
    assert (found.found, found.unreadable) == ({}, 4)


def test_metadata_that_no_field_has_room_for_is_cut_between_characters() -> None:
    found = Checkpoints()
    for record in records((KEY.encoded(), Checkpoint(1, 2, "é" * 40_000).encoded())):
        found.apply(record)
    assert len(found.found[KEY].metadata.encode()) == STRING_BYTES_MAX - 1


def test_heartbeats_are_read_as_they_were_written() -> None:
    heartbeat = Heartbeat("A", "B", 1_700_000_000_000)
    assert read_heartbeat(*heartbeat.entry()[:2]) == heartbeat  # type: ignore[arg-type]
