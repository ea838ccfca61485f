"""Which offsets are looked at next, and what of it makes a page."""

import random

import pytest

from ottla_operations.records.reading_plan import (
    BEHIND_MAX,
    RESUMED_BEFORE_END,
    block_for,
    clamped,
    next_spans,
    picked,
    remaining,
    resumed,
)
from ottla_operations.records.record_line import Record


def record(partition: int, offset: int, timestamp: int | None = 0) -> Record:
    return Record(value=b"", partition=partition, offset=offset, timestamp=timestamp)


def positions(records: object) -> list[tuple[int | None, int | None]]:
    return [(each.partition, each.offset) for each in records]  # type: ignore[attr-defined]


def test_a_place_is_kept_within_what_the_logs_hold() -> None:
    logs = {0: (10, 20), 1: (0, 5), 2: (3, 3)}
    assert clamped({0: 4, 1: 99, 3: 1}, logs) == {0: 10, 1: 5}


def test_a_block_lies_before_the_place_or_behind_it_and_is_none_at_the_limit() -> None:
    logs = {0: (10, 20), 1: (0, 5), 2: (3, 3)}
    assert next_spans({0: 20, 1: 2, 2: 3}, logs, 4, newest_first=True) == {0: (16, 20), 1: (0, 2)}
    assert next_spans({0: 18, 1: 0, 2: 3}, logs, 4, newest_first=False) == {0: (18, 20), 1: (0, 4)}
    assert remaining({0: 20, 1: 2, 2: 3}, logs, newest_first=True) == 12


def test_a_block_is_as_large_as_what_is_missing_however_few_offsets_have_records() -> None:
    assert block_for(500, 1.0, 6) == 84
    assert block_for(500, 0.1, 1) == 5_000
    assert block_for(1, 1.0, 6) == 1
    assert block_for(10, 0.0, 1) > 1_000_000


def test_records_are_merged_by_time_and_stay_in_the_order_of_their_partition() -> None:
    found = [record(0, 1, 50), record(0, 2, 10), record(1, 1, 30), record(1, 2, 40)]
    spans = {0: (0, 3), 1: (0, 3)}
    newest = picked({0: 3, 1: 3}, spans, found, 3, newest_first=True)
    assert positions(newest.records) == [(1, 2), (1, 1), (0, 2)]
    assert newest.place == {0: 2, 1: 0}
    oldest = picked({0: 0, 1: 0}, spans, found, 1, newest_first=False)
    assert positions(oldest.records) == [(1, 1)]
    assert oldest.place == {0: 0, 1: 2}


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_going_on_from_place_to_place_shows_everything_once(seed: int, newest_first: bool) -> None:
    chance = random.Random(seed)
    logs = {each: (chance.randrange(5), 5 + chance.randrange(30)) for each in range(3)}
    there = [
        record(each, offset, chance.choice([None, *range(20)]))
        for each, (first, end) in logs.items()
        for offset in range(first, end)
        if chance.random() < 0.7
    ]
    place = {each: end if newest_first else first for each, (first, end) in logs.items()}
    shown: list[tuple[int | None, int | None]] = []
    while spans := next_spans(place, logs, chance.randrange(1, 9), newest_first=newest_first):
        within = [each for each in there if is_within(each, spans)]
        page = picked(place, spans, within, chance.randrange(1, 6), newest_first=newest_first)
        shown += positions(page.records)
        place = dict(page.place)
    assert sorted(shown, key=str) == sorted(positions(there), key=str)
    assert remaining(place, logs, newest_first=newest_first) == 0


def is_within(each: Record, spans: object) -> bool:
    span = spans.get(each.partition)  # type: ignore[attr-defined]
    return span is not None and span[0] <= each.offset < span[1]


def test_a_reading_of_what_arrives_that_is_too_far_behind_goes_on_shortly_before_the_end() -> None:
    place = {0: 100, 1: 100, 2: 100}
    ends = {0: 100 + BEHIND_MAX, 1: 101 + BEHIND_MAX}
    following, passed_over = resumed(place, ends)
    assert following == {0: 100, 1: 101 + BEHIND_MAX - RESUMED_BEFORE_END, 2: 100}
    assert passed_over == 1 + BEHIND_MAX - RESUMED_BEFORE_END
