"""An offset map agrees with an oracle that keeps the pairs of offsets, whatever happens to it and is stored of it."""

from dataclasses import dataclass, field
from unittest.mock import patch

from hypothesis import assume, given
from hypothesis import strategies as st

from ottla_mirror.offsets import offset_map
from ottla_mirror.offsets.map_chunk import Run, decode_runs, read_chunk
from ottla_mirror.offsets.offset_map import OffsetMap, Translation

SMALL_CHUNK = 3
steps = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 3), st.sampled_from([0, 0, 0, 1, 5]), st.integers(1, 4)),
    st.tuples(st.just("append"), st.just(0), st.just(0), st.integers(1, 200)),
    st.tuples(st.just("skip"), st.integers(0, 4), st.just(0), st.just(0)),
    st.tuples(st.just("skip target"), st.integers(0, 4), st.just(0), st.just(0)),
    st.tuples(st.just("truncate"), st.integers(0, 12), st.just(0), st.just(0)),
    st.tuples(st.just("cut target"), st.integers(0, 12), st.just(0), st.just(0)),
    st.tuples(st.just("store"), st.just(0), st.just(0), st.just(0)),
)
histories = st.tuples(st.integers(0, 5), st.integers(0, 5), st.lists(steps, max_size=40))
Step = tuple[str, int, int, int]


@dataclass
class Oracle:
    """The pairs of offsets, one by one."""

    source_end: int
    target_end: int
    pairs: list[tuple[int, int]] = field(default_factory=list)

    def translate(self, source_offset: int) -> Translation:
        behind = [target for source, target in self.pairs if source >= source_offset]
        return Translation(min(behind, default=self.target_end), max(0, source_offset - self.source_end))


def stored(kept: OffsetMap) -> OffsetMap:
    """The map as it comes back from a store."""
    chunks = [read_chunk(chunk.number, chunk.encoded) for chunk in kept.chunks()]
    assert chunks == kept.chunks()
    found = OffsetMap.from_chunks(chunks, kept.bounds)
    assert found.bounds == kept.bounds
    return found


def take(step: Step, kept: OffsetMap, oracle: Oracle) -> OffsetMap:
    what, first, second, count = step
    if what == "append":
        source, target = oracle.source_end + first, oracle.target_end + second
        kept.append(source, target, count)
        oracle.pairs += [(source + number, target + number) for number in range(count)]
        oracle.source_end, oracle.target_end = source + count, target + count
    elif what == "skip":
        oracle.source_end += first
        kept.skip_to(oracle.source_end)
    elif what == "skip target":
        oracle.target_end += first
        kept.skip_target_to(oracle.target_end)
    elif what == "cut target":
        oracle.target_end = max(0, oracle.target_end - first)
        oracle.pairs = [pair for pair in oracle.pairs if pair[1] < oracle.target_end]
        kept.cut_target(oracle.target_end)
    elif what == "truncate":
        oracle.source_end = max(0, oracle.source_end - first)
        oracle.pairs = [pair for pair in oracle.pairs if pair[0] < oracle.source_end]
        kept.truncate_from(oracle.source_end)
    else:
        return stored(kept)
    return kept


def played(history: tuple[int, int, list[Step]]) -> tuple[OffsetMap, Oracle]:
    source_start, target_start, taken = history
    kept, oracle = OffsetMap(source_start, target_start), Oracle(source_start, target_start)
    for step in taken:
        kept = take(step, kept, oracle)
    return kept, oracle


def assert_same_answers(kept: OffsetMap, oracle: Oracle, first: int = 0) -> None:
    assert (kept.source_end, kept.target_end) == (oracle.source_end, oracle.target_end)
    for source_offset in range(first, oracle.source_end + 3):
        assert kept.translate(source_offset) == oracle.translate(source_offset), source_offset


@given(histories)
def test_translations_are_the_oracles(history: tuple[int, int, list[Step]]) -> None:
    with patch.object(offset_map, "RUNS_PER_CHUNK", SMALL_CHUNK):
        kept, oracle = played(history)
        assert_same_answers(kept, oracle)
        pairs = [
            (run.source + number, run.target + number) for run in kept.runs() for number in range(run.record_count)
        ]
        assert pairs == oracle.pairs
        assert not kept.holes()


@given(histories, st.integers(0, 60), st.integers(0, 60))
def test_trimming_changes_no_answer_above_both_starts(
    history: tuple[int, int, list[Step]], source_start: int, target_start: int
) -> None:
    with patch.object(offset_map, "RUNS_PER_CHUNK", SMALL_CHUNK):
        kept, oracle = played(history)
        kept.trim_below(source_start, target_start)
        kept = stored(kept)
        assert not kept.holes()
        known = [source for source, target in oracle.pairs if source >= source_start or target >= target_start]
        assert_same_answers(kept, oracle, min(known, default=oracle.source_end))


@given(histories, st.data())
def test_lost_chunks_are_noticed_translate_cautiously_and_can_be_filled(
    history: tuple[int, int, list[Step]], data: st.DataObject
) -> None:
    with patch.object(offset_map, "RUNS_PER_CHUNK", SMALL_CHUNK):
        kept, oracle = played(history)
        chunks = kept.chunks()
        lost = data.draw(st.sets(st.sampled_from(range(len(chunks))))) if chunks else set()
        found = OffsetMap.from_chunks([chunk for at, chunk in enumerate(chunks) if at not in lost], kept.bounds)
        assert bool(found.holes()) == bool(lost)
        for source_offset in range(found.source_start, oracle.source_end + 3):
            assert found.translate(source_offset).target_offset <= oracle.translate(source_offset).target_offset
        runs = list(kept.runs())
        found.append(oracle.source_end, oracle.target_end, 1)
        kept.append(oracle.source_end, oracle.target_end, 1)
        found = stored(found) if data.draw(st.booleans()) else found
        while holes := found.holes():
            hole = data.draw(st.sampled_from(holes))
            found.fill(hole, [run for run in runs if hole.source_start <= run.source < hole.source_end])
        assert pairs_of(found) == pairs_of(kept)
        assert_same_answers(stored(found), Oracle(*ends(kept), pairs_of(kept)))


@given(histories, st.data())
def test_after_a_truncation_too_nothing_in_a_hole_is_skipped(
    history: tuple[int, int, list[Step]], data: st.DataObject
) -> None:
    with patch.object(offset_map, "RUNS_PER_CHUNK", SMALL_CHUNK):
        kept, oracle = played(history)
        chunks = kept.chunks()
        lost = data.draw(st.sets(st.sampled_from(range(len(chunks))))) if chunks else set()
        found = OffsetMap.from_chunks([chunk for at, chunk in enumerate(chunks) if at not in lost], kept.bounds)
        known = set(pairs_of(found))
        take(("truncate", data.draw(st.integers(0, 30)), 0, 0), found, oracle)
        assert set(pairs_of(found)) == known & set(oracle.pairs)
        found = stored(found) if data.draw(st.booleans()) else found
        found.append(oracle.source_end, oracle.target_end, 1)
        take(("append", 0, 0, 1), OffsetMap(oracle.source_end, oracle.target_end), oracle)
        for source_offset in range(oracle.source_end + 3):
            assert found.translate(source_offset).target_offset <= oracle.translate(source_offset).target_offset


@given(histories)
def test_an_older_state_of_a_chunk_is_noticed(history: tuple[int, int, list[Step]]) -> None:
    with patch.object(offset_map, "RUNS_PER_CHUNK", SMALL_CHUNK):
        kept, oracle = played(history)
        kept.append(oracle.source_end + 1, oracle.target_end, 1)
        old = kept.chunks()[-1]
        assume(len(decode_runs(old)) < SMALL_CHUNK)
        for _ in range(SMALL_CHUNK):
            kept.append(kept.source_end + 1, kept.target_end, 1)
        found = OffsetMap.from_chunks(
            [old if each.number == old.number else each for each in kept.chunks()], kept.bounds
        )
        (hole,) = found.holes()
        found.fill(hole, [run for run in kept.runs() if hole.source_start <= run.source < hole.source_end])
        assert pairs_of(found) == pairs_of(kept)


@given(histories, st.lists(st.integers(1, 5), min_size=1, max_size=10))
def test_an_older_position_leaves_out_what_was_found_since(
    history: tuple[int, int, list[Step]], counts: list[int]
) -> None:
    with patch.object(offset_map, "RUNS_PER_CHUNK", SMALL_CHUNK):
        kept, oracle = played(history)
        bounds = kept.bounds
        for number, count in enumerate(counts):
            kept.append(kept.source_end + number % 2, kept.target_end, count)
        found = OffsetMap.from_chunks(kept.chunks(), bounds)
        assert found.bounds == bounds
        assert_same_answers(found, oracle)


def pairs_of(kept: OffsetMap) -> list[tuple[int, int]]:
    return [(run.source + number, run.target + number) for run in kept.runs() for number in range(run.record_count)]


def ends(kept: OffsetMap) -> tuple[int, int]:
    return kept.source_end, kept.target_end


def test_a_long_topic_without_gaps_is_one_run() -> None:
    kept = OffsetMap(1000, 20)
    for number in range(10_000):
        kept.append(1000 + number * 50, 20 + number * 50, 50)
    assert list(kept.runs()) == [Run(1000, 20, 500_000)]
    assert len(kept.chunks()[0].encoded) < 20


def test_a_run_for_each_transaction_takes_three_bytes() -> None:
    kept = OffsetMap(0, 0)
    for number in range(10_000):
        kept.append(number * 11, number * 10, 10)
    chunks = kept.chunks()
    assert sum(len(chunk.encoded) for chunk in chunks) < 10_000 * 2.1
    assert max(len(chunk.encoded) for chunk in chunks) < 4096
