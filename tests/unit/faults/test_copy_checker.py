"""The checker of copies finds what was lost, doubled, disordered or translated wrongly, and excuses what it says."""

from collections.abc import Sequence

import pytest

from ottla_mirror.offsets.offset_map import OffsetMap
from tests.faults.checker import Writer
from tests.faults.history import ACKNOWLEDGED, FROM_BEGINNING, SEEN, Content, ProducerHistory, ReaderHistory, line
from tests.faults.mirrors.copy_checker import (
    UNKNOWN_CHECKSUM,
    CopiedRecord,
    Copy,
    Verdict,
    judge,
    same,
    source_logs,
)
from tests.faults.topics import Keeps

FIRST, SECOND = Writer(7, 0), Writer(7, 1)
SOURCE = {0: Content("a", 0, 10), 1: Content("b", 0, 20), 2: Content("a", 1, 11), 3: Content("b", 1, 21)}
AHEAD = 5
"""So many records of others are at the target before."""


def runs(*found: tuple[int, int, int], source_end: int = 4) -> OffsetMap:
    offsets = OffsetMap(0, 0)
    for run in found:
        offsets.append(*run)
    offsets.skip_to(source_end)
    return offsets


def records(*found: tuple[int, int], session: Writer = FIRST) -> list[CopiedRecord]:
    """Records of the source, as offsets of target and source."""
    return [CopiedRecord(offset, SOURCE[of_source], session) for offset, of_source in found]


def whole() -> list[CopiedRecord]:
    return records(*((AHEAD + offset, offset) for offset in SOURCE))


def verdict(
    target: Sequence[CopiedRecord],
    offsets: OffsetMap | None = None,
    *,
    keeps: Keeps = Keeps.EVERYTHING,
    left: Sequence[int] = (0, 1, 2, 3),
    source_start: int = 0,
    target_start: int = 0,
) -> Verdict:
    copy = Copy("c-0", keeps, SOURCE, left, source_start, 4, target, target_start, offsets or runs((0, AHEAD, 4)))
    return judge(copy)


def test_a_whole_copy_with_its_map_is_right():
    found = verdict(whole())
    assert not found.problems
    assert (found.counts["copied"], found.counts["offsets translated"]) == (4, 4)


@pytest.mark.parametrize("lost", range(4))
def test_a_record_that_is_not_there_is_lost(lost: int):
    found = verdict([record for offset, record in enumerate(whole()) if offset != lost])
    assert any(problem.startswith("lost:") for problem in found.problems)


def test_records_that_stand_twice_or_in_another_order_are_found():
    assert any("twice" in each for each in verdict([*whole(), *records((9, 3))]).problems)
    swapped = records((5, 0), (6, 2), (7, 1), (8, 3))
    assert verdict(swapped).problems


def test_a_record_that_the_source_never_had_is_found():
    stranger = CopiedRecord(9, Content("z", 0, 1), FIRST)
    assert any("never had" in each for each in verdict([*whole(), stranger]).problems)
    changed = [*whole()[:3], CopiedRecord(8, SOURCE[3]._replace(checksum=99), FIRST)]
    assert any("is not what the source has" in each for each in verdict(changed).problems)


def test_a_map_that_is_wrong_by_one_is_found():
    assert any("is translated to" in each for each in verdict(whole(), runs((0, AHEAD + 1, 4))).problems)
    assert any("the map ends at 3" in each for each in verdict(whole(), runs((0, AHEAD, 3), source_end=3)).problems)


def test_a_copy_behind_a_gap_may_stand_twice_in_two_sessions():
    twice = [*whole(), *records((9, 3), session=SECOND)]
    found = verdict(twice, keeps=Keeps.LAST_VALUES)
    assert not found.problems
    assert found.counts["copied twice"] == 1
    assert verdict([*whole(), *records((9, 3))], keeps=Keeps.LAST_VALUES).problems, "one session has written both"
    assert verdict(twice).problems, "nothing is compacted there"


def test_what_retention_has_deleted_before_the_copy_is_excused_and_counted():
    half, offsets = records((5, 2), (6, 3)), runs((2, 5, 2))
    found = verdict(half, offsets, keeps=Keeps.NEWEST, left=[2, 3], source_start=2)
    assert not found.problems
    assert found.counts["deleted before they were copied"] == 2
    assert verdict(half, offsets, keeps=Keeps.NEWEST, left=[2, 3], source_start=1).problems
    assert verdict(half, offsets, left=[2, 3], source_start=2).problems


def test_what_is_still_at_the_source_must_have_been_copied():
    half, offsets = records((5, 2), (6, 3)), runs((2, 5, 2))
    assert not verdict(half, offsets, keeps=Keeps.LAST_VALUES, left=[2, 3]).problems
    never = verdict(half, offsets, keeps=Keeps.LAST_VALUES, left=[1, 2, 3]).problems
    assert any("never had b number 0" in each for each in never)
    compacted = verdict(half, keeps=Keeps.LAST_VALUES, left=[1, 2, 3])
    assert compacted.counts["copied, and deleted at the target"] == 2


def test_what_the_source_has_compacted_since_may_be_passed_over_but_nothing_behind_it():
    """A worker that takes over pairs what the source still has; the target may have older values of its keys."""
    behind_what_is_gone = runs((2, AHEAD + 2, 2))
    assert not verdict(whole(), behind_what_is_gone, keeps=Keeps.LAST_VALUES, left=[2, 3]).problems
    owed = verdict(whole(), behind_what_is_gone, keeps=Keeps.LAST_VALUES, left=[1, 2, 3]).problems
    assert any("offset 1 is translated to" in each for each in owed)
    too_far = runs((3, AHEAD + 3, 1))
    skipped = verdict(whole(), too_far, keeps=Keeps.LAST_VALUES, left=[2, 3]).problems
    assert any("offset 0 is translated to" in each for each in skipped)


def test_the_last_value_of_each_key_must_be_there():
    found = verdict(records((5, 0), (6, 1), (7, 2)), runs((0, 5, 3)), keeps=Keeps.LAST_VALUES)
    assert any("the last value of b is number 1" in each for each in found.problems)


def test_the_source_is_put_together_from_all_who_saw_it():
    produced, reader = ProducerHistory(), ReaderHistory("reader")
    produced.add([line(ACKNOWLEDGED, "metal", 0, "a", 0, 0), line(ACKNOWLEDGED, "metal", 0, "a", 1, 1)])
    reader.add([line(FROM_BEGINNING, "metal", 0), line(SEEN, "metal", 0, 1, "a", 1, 5)])
    logs = source_logs(produced, [reader], {("metal", 0): [(2, Content("a", 2, 6))], ("metal", 1): []})
    unknown = Content("a", 0, UNKNOWN_CHECKSUM)
    assert logs == {("metal", 0): {0: unknown, 1: Content("a", 1, 5), 2: Content("a", 2, 6)}, ("metal", 1): {}}
    assert same(unknown, Content("a", 0, 3))
    assert not same(Content("a", 0, 4), Content("a", 0, 3))
