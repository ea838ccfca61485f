"""Index lookups agree with a search through all entries, wherever the entries are: on disk, cached, or pending."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ottla_broker.log.segments.offset_index import OffsetIndex
from ottla_broker.log.segments.time_index import TimeIndex

BASE_OFFSET = 1000


@st.composite
def offset_entries(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Ascending offsets and positions; sometimes more than a lookup keeps in memory."""
    count = draw(st.sampled_from([0, 1, 2, 7, 300, 1500]))
    step = draw(st.integers(1, 9))
    skew = draw(st.integers(0, 5))
    return [(BASE_OFFSET + number * step + skew + 1, number * 100 + skew) for number in range(count)]


@given(offset_entries(), st.integers(0, 1500), st.lists(st.integers(-5, 14_000), min_size=1, max_size=30))
def test_offset_lookups_match_brute_force(entries: list[tuple[int, int]], written: int, targets: list[int]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "0.index"
        path.touch()
        index = OffsetIndex.open(path, BASE_OFFSET)
        for number, (offset, position) in enumerate(entries):
            index.append(offset, position)
            if number == written:
                index.write_pending()
        for target in targets:
            offset = BASE_OFFSET + target
            assert index.position_for_offset(offset) == max([p for o, p in entries if o <= offset], default=0)
            position = target * 12
            assert index.position_at_most(position) == max([p for _, p in entries if p <= position], default=0)
        assert list(index.entries()) == [(offset - BASE_OFFSET, position) for offset, position in entries]
        index.truncate_to_count(index.count_below(BASE_OFFSET + targets[0]))
        kept = [entry for entry in entries if entry[0] < BASE_OFFSET + targets[0]]
        assert [offset for offset, _ in index.entries()] == [offset - BASE_OFFSET for offset, _ in kept]
        index.write_pending()
        assert list(OffsetIndex.open(path, BASE_OFFSET).entries()) == list(index.entries())


@given(
    st.lists(st.tuples(st.integers(-1, 60), st.integers(0, 3)), max_size=40),
    st.lists(st.integers(-2, 62), min_size=1, max_size=10),
    st.booleans(),
)
def test_time_lookups_match_brute_force(batches: list[tuple[int, int]], targets: list[int], pending: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "0.timeindex"
        path.touch()
        index = TimeIndex.open(path, BASE_OFFSET)
        offset, accepted = BASE_OFFSET, []
        for timestamp, step in batches:
            offset += step
            last_timestamp, last_offset = accepted[-1] if accepted else (-1, BASE_OFFSET - 1)
            if timestamp > last_timestamp and offset > last_offset:
                accepted.append((timestamp, offset))
            index.maybe_append(timestamp, offset)
        if not pending:
            index.write_pending()
            index = TimeIndex.open(path, BASE_OFFSET)
        for target in targets:
            expected = max([entry for entry in accepted if entry[0] <= target], default=(-1, BASE_OFFSET))
            assert index.lookup(target) == expected
        assert index.last() == (accepted[-1] if accepted else (-1, BASE_OFFSET))
        cut = BASE_OFFSET + max(targets) // 2
        index.truncate_to_count(index.count_below(cut))
        assert index.last() == max([entry for entry in accepted if entry[1] < cut], default=(-1, BASE_OFFSET))
