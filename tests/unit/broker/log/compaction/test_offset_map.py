"""The map of newest offsets is a dict with a bound."""

from hypothesis import given
from hypothesis import strategies as st

from ottla_broker.log.compaction.offset_map import BUCKET_BYTES, ENTRY_BYTES, NO_OFFSET, OffsetMap

MEMORY_BYTES = 64 * BUCKET_BYTES


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**62)), max_size=400))
def test_it_holds_the_last_offset_of_every_key(pairs: list[tuple[bytes, int]]) -> None:
    newest = OffsetMap(MEMORY_BYTES, 0.9, 1000)
    for key, offset in pairs:
        assert newest.put(key, offset)
    assert all(newest.get(key) == offset for key, offset in dict(pairs).items())
    assert newest.size == len(dict(pairs))
    assert newest.get(b"none of these") == NO_OFFSET


def test_a_full_map_takes_new_offsets_of_its_keys_but_no_more_keys() -> None:
    newest = OffsetMap(MEMORY_BYTES, 0.9, 10**9)
    keys = [b"%d" % number for number in range(newest.capacity)]
    assert all(newest.put(key, 1) for key in keys)
    assert not newest.put(b"one more", 2)
    assert newest.get(b"one more") == NO_OFFSET
    assert newest.put(keys[0], 3)
    assert (newest.get(keys[0]), newest.get(keys[-1]), newest.size) == (3, 1, newest.capacity)


def test_every_place_can_be_used_even_without_a_margin() -> None:
    newest = OffsetMap(4 * BUCKET_BYTES, 1.0, 10**9)
    keys = [b"%d" % number for number in range(newest.capacity)]
    assert len(keys) * ENTRY_BYTES == 4 * BUCKET_BYTES
    assert all(newest.put(key, number) for number, key in enumerate(keys))
    assert [newest.get(key) for key in keys] == list(range(len(keys)))
    assert (newest.get(b"absent"), newest.put(b"absent", 1)) == (NO_OFFSET, False)


def test_no_more_memory_is_taken_than_allowed_or_needed() -> None:
    assert len(OffsetMap(MEMORY_BYTES, 0.9, 10**9)._table) == MEMORY_BYTES
    assert len(OffsetMap(1 << 30, 0.9, 50)._table) <= 2 * BUCKET_BYTES
    assert OffsetMap(1 << 30, 0.9, 1000).capacity >= 1000
    assert OffsetMap(0, 0.9, 1000).capacity > 0
