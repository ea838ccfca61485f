"""The journal of a cluster's state: what is read back, and where it ends."""

from uuid import UUID

import pytest

from ottla_core.cluster.etcd.key_value import KeyDeletion, KeyValue
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.codec import TopicRecord
from ottla_core.cluster.state.model import Recovery
from ottla_core.cluster.state.state_copy import (
    MAGIC,
    Ending,
    UnreadableCopy,
    decode_copy,
    encode_beginning,
    encode_changes,
    encode_listing,
    is_lasting,
)

PREFIX = "/ottla/test/"


def put(key: str, value: bytes, revision: int) -> KeyValue:
    return KeyValue(key=PREFIX + key, value=value, create_revision=revision, mod_revision=revision)


LISTED = [put("id", b"id", 1), put("topics/a", b"a", 3), put("members/broker/1", b"m", 4), put("controller", b"c", 5)]


@pytest.fixture
def journal() -> bytes:
    """A listing of revision 5, and two entries of changes behind it."""
    return b"".join(
        (
            encode_beginning("test", "cluster"),
            *encode_listing(LISTED, 5, PREFIX),
            encode_changes([put("topics/b", b"b", 6)], 6, PREFIX),
            encode_changes(
                [KeyDeletion(key=PREFIX + "topics/a", mod_revision=8), put("topics/b", b"B", 8)], 8, PREFIX
            ),
        )
    )


def test_what_was_listed_and_changed_is_read_back(journal: bytes) -> None:
    copy, ending = decode_copy(journal)
    assert ending is Ending.WHOLE
    assert (copy.cluster_name, copy.cluster_id, copy.revision) == ("test", "cluster", 8)
    assert {key: (each.mod_revision, each.value) for key, each in copy.entries.items()} == {
        "id": (1, b"id"),
        "topics/b": (8, b"B"),
    }


def test_ids_of_topics_whose_deletion_was_told_are_known() -> None:
    kept, gone = (codec.encode_topic(TopicRecord(id=UUID(int=each), partition_count=1)) for each in (1, 2))
    copy, _ = decode_copy(
        b"".join(
            (
                encode_beginning("test", "cluster"),
                *encode_listing([put("topics/kept", kept, 2), put("topics/gone", gone, 3)], 5, PREFIX),
                encode_changes([KeyDeletion(key=PREFIX + "topics/gone", mod_revision=6)], 6, PREFIX),
            )
        )
    )
    assert copy.deleted_topics == {UUID(int=2)}
    assert set(copy.entries) == {"topics/kept"}


def test_leased_keys_are_not_copied() -> None:
    assert encode_changes([put("members/broker/1", b"", 7), put("controller", b"", 7)], 7, PREFIX) == b""
    assert not is_lasting("members/controller/3")
    assert is_lasting("registrations/3")


def test_wherever_it_is_torn_the_entries_before_count(journal: bytes) -> None:
    listed = len(encode_beginning("test", "cluster") + b"".join(encode_listing(LISTED, 5, PREFIX)))
    changed = listed + len(encode_changes([put("topics/b", b"b", 6)], 6, PREFIX))
    for end in range(listed, len(journal)):
        copy, ending = decode_copy(journal[:end])
        assert copy.revision == (6 if end >= changed else 5)
        assert ending is (Ending.WHOLE if end in {listed, changed} else Ending.TORN)


def test_a_listing_that_is_not_whole_is_no_state(journal: bytes) -> None:
    begun = len(encode_beginning("test", "cluster"))
    listed = begun + sum(map(len, encode_listing(LISTED, 5, PREFIX)))
    for end in range(begun, listed):
        copy, _ = decode_copy(journal[:end])
        assert (copy.revision, copy.entries) == (0, {})


def test_damage_is_found_and_nothing_behind_it_counts(journal: bytes) -> None:
    listed = len(encode_beginning("test", "cluster") + b"".join(encode_listing(LISTED, 5, PREFIX)))
    for position in range(listed, len(journal)):
        damaged = bytearray(journal)
        damaged[position] ^= 0x10
        copy, ending = decode_copy(bytes(damaged))
        assert ending is Ending.DAMAGED
        assert copy.revision in {5, 6}


@pytest.mark.parametrize("data", [b"", b"something else", MAGIC, MAGIC + b"\0" * 8])
def test_what_is_no_journal_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableCopy):
        decode_copy(data)


def test_a_later_format_is_refused_by_name(journal: bytes) -> None:
    with pytest.raises(UnreadableCopy, match="later release"):
        decode_copy(journal.replace(b"state 1", b"state 2", 1))


def test_what_a_listing_has_already_is_not_applied_again() -> None:
    """A copy that is written anew is listed at a revision that the watch may not have come to yet."""
    copy, _ = decode_copy(
        b"".join(
            (
                encode_beginning("test", "cluster"),
                *encode_listing([put("topics/a", b"new", 9)], 9, PREFIX),
                encode_changes([put("topics/a", b"old", 7)], 7, PREFIX),
                encode_changes([KeyDeletion(key=PREFIX + "topics/a", mod_revision=8)], 8, PREFIX),
                encode_changes([put("topics/b", b"b", 10)], 10, PREFIX),
            )
        )
    )
    assert {key: each.value for key, each in copy.entries.items()} == {"topics/a": b"new", "topics/b": b"b"}


def test_a_copy_of_after_a_recovery_is_newer_whatever_its_revision() -> None:
    def copy_of(number: int, revision: int) -> bytes:
        entry = put("recovery", codec.encode_recovery(Recovery(number=number)), 2)
        return encode_beginning("test", "cluster") + b"".join(encode_listing([entry], revision, PREFIX))

    before, _ = decode_copy(copy_of(1, 100_000))
    after, _ = decode_copy(copy_of(2, 10))
    assert after.position > before.position
