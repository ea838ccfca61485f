"""Holes of a map: what is unknown is translated to its beginning, whatever else happens to the map."""

import pytest

from ottla_mirror.offsets.map_chunk import Run
from ottla_mirror.offsets.offset_map import Hole, OffsetMap, Translation


@pytest.fixture
def holed() -> OffsetMap:
    """Source 0 to 9 is at 0 to 9; what was copied of 10 to 29 is unknown; 30 to 39 is at 25 to 34."""
    offsets = OffsetMap(0, 0)
    offsets.append(0, 0, 10)
    offsets.lose_until(30, 20)
    offsets.append(30, 25, 10)
    return offsets


def test_an_offset_in_a_hole_is_translated_to_its_beginning(holed: OffsetMap) -> None:
    assert holed.holes() == [Hole(0, 10, 10, 30, 20)]
    assert [holed.translate(each).target_offset for each in (9, 10, 20, 29, 30, 31)] == [9, 10, 10, 10, 25, 26]


@pytest.mark.parametrize("truncated_to", [11, 20, 29, 30])
def test_the_part_of_a_hole_before_a_truncation_stays_one(holed: OffsetMap, truncated_to: int) -> None:
    holed.truncate_from(truncated_to)
    assert [(hole.source_start, hole.source_end) for hole in holed.holes()] == [(10, truncated_to)]
    assert holed.translate(10) == Translation(10, 0)
    holed.append(truncated_to, 40, 1)
    assert holed.translate(truncated_to - 1) == Translation(10, 0)
    assert holed.translate(truncated_to) == Translation(40, 0)


@pytest.mark.parametrize("truncated_to", [0, 5, 10])
def test_a_truncation_before_a_hole_ends_it(holed: OffsetMap, truncated_to: int) -> None:
    holed.truncate_from(truncated_to)
    assert holed.holes() == []
    assert list(holed.runs()) == ([Run(0, 0, truncated_to)] if truncated_to else [])
    assert holed.target_end == 35


@pytest.mark.parametrize(("start", "hole"), [(10, (10, 30)), (29, (10, 30)), (30, None)])
def test_a_hole_that_reaches_beyond_what_is_forgotten_stays_one(
    holed: OffsetMap, start: int, hole: tuple[int, int] | None
) -> None:
    holed.forget_below(start)
    assert [each[1::2] for each in holed.holes()] == ([] if hole is None else [hole])
    assert holed.unknown_offsets == (0 if hole is None else 20)
    assert holed.translate(start).target_offset == (10 if hole else 25)
    assert OffsetMap.from_chunks(holed.chunks(), holed.bounds).holes() == holed.holes()
