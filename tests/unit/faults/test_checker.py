"""The checker finds every promise that can be broken, and nothing where all were kept."""

from copy import deepcopy

import pytest

from tests.faults.checker import Writer, count_sent_again, problems_of
from tests.faults.history import (
    ACKNOWLEDGED,
    FAILED,
    FROM_BEGINNING,
    PROBLEM,
    SEEN,
    Content,
    Place,
    ProducerHistory,
    ReaderHistory,
    line,
)

Final = dict[tuple[str, int], list[tuple[int, Content]]]

KEPT: Final = {
    ("metal", 0): [(0, Content("a", 0, 10)), (1, Content("b", 0, 20)), (2, Content("a", 1, 11))],
    ("metal", 1): [(0, Content("c", 0, 30))],
}


def produced() -> ProducerHistory:
    history = ProducerHistory()
    history.add(
        [
            line(ACKNOWLEDGED, "metal", 0, "a", 0, 0),
            line(ACKNOWLEDGED, "metal", 0, "b", 0, 1),
            line(ACKNOWLEDGED, "metal", 0, "a", 1, 2),
            line(ACKNOWLEDGED, "metal", 1, "c", 0, 0),
        ]
    )
    return history


def reader(*lines: str) -> ReaderHistory:
    history = ReaderHistory("reader")
    history.add([line(FROM_BEGINNING, "metal", 0), line(FROM_BEGINNING, "metal", 1), *lines])
    return history


def seen(offset: int, content: Content, partition: int = 0) -> str:
    return line(SEEN, "metal", partition, offset, *content)


def problems(final: Final, *readers: ReaderHistory) -> list[str]:
    return problems_of(produced(), readers, final, {})


def changed(partition: int, records: list[tuple[int, Content]]) -> Final:
    final = deepcopy(KEPT)
    final["metal", partition] = records
    return final


def test_kept_promises_are_no_problem():
    saw_all = reader(
        *(seen(offset, content) for offset, content in KEPT["metal", 0]), seen(0, KEPT["metal", 1][0][1], 1)
    )
    assert problems(KEPT, saw_all) == []


def test_a_record_that_failed_may_be_missing_but_is_told():
    history = produced()
    history.add([line(FAILED, "metal", "c", 1, "_MSG_TIMED_OUT")])
    assert problems_of(history, [], KEPT, {}) == ["failed: 1 records with _MSG_TIMED_OUT"]


def test_a_record_that_was_acknowledged_without_an_offset_must_be_somewhere_in_its_partition():
    history = produced()
    history.add([line(ACKNOWLEDGED, "metal", 1, "c", 1, -1)])
    with_it = changed(1, [*KEPT["metal", 1], (1, Content("c", 1, 31))])
    assert problems_of(history, [], with_it, {}) == []
    assert problems_of(history, [], KEPT, {}) == ["lost: c number 1, acknowledged in metal-1"]


@pytest.mark.parametrize(
    ("final", "expected"),
    [
        (changed(0, KEPT["metal", 0][:2]), "lost: a number 1"),
        (
            changed(0, [(0, Content("b", 0, 20)), (1, Content("a", 0, 10)), (2, Content("a", 1, 11))]),
            "lost: a number 0",
        ),
        (changed(0, [*KEPT["metal", 0], (3, Content("a", 1, 11))]), "twice: a number 1"),
        (changed(0, [*KEPT["metal", 0], (3, Content("a", 0, 10))]), "out of order: a number 0"),
        (changed(0, [*KEPT["metal", 0], (3, Content("x", 0, 10))]), "never sent: x number 0"),
        (changed(0, [*KEPT["metal", 0], (4, Content("c", 0, 30))]), "gap: metal-0 continues at 4"),
        (changed(1, [(0, Content("a", 1, 11))]), "twice: a number 1"),
    ],
)
def test_a_broken_promise_is_told(final: Final, expected: str):
    assert any(problem.startswith(expected) for problem in problems(final)), problems(final)


def test_a_copy_under_a_new_epoch_of_its_producer_is_counted_and_no_problem():
    final = changed(0, [*KEPT["metal", 0], (3, Content("a", 0, 10)), (4, Content("a", 1, 11))])
    writers = {Place("metal", 0, offset): Writer(7, 0 if offset < 3 else 1) for offset in range(5)}
    assert problems_of(produced(), [], final, writers) == []
    assert count_sent_again(final, writers) == 2


def test_a_copy_under_the_same_epoch_or_by_another_producer_is_told():
    final = changed(0, [*KEPT["metal", 0], (3, Content("a", 1, 11))])
    for last in (Writer(7, 0), Writer(8, 1)):
        writers = {Place("metal", 0, offset): Writer(7, 0) for offset in range(3)} | {Place("metal", 0, 3): last}
        assert problems_of(produced(), [], final, writers) == ["twice: a number 1 at metal-0@2 and metal-0@3"]
        assert count_sent_again(final, writers) == 0


def test_a_record_that_disappears_after_it_was_seen_is_told():
    vanished = reader(*(seen(offset, content) for offset, content in KEPT["metal", 0]), seen(3, Content("a", 2, 12)))
    assert problems(KEPT, vanished) == [
        "reader saw a number 2 (checksum 0000000c) at metal-0@3; nothing stands there now"
    ]


def test_a_record_that_changes_after_it_was_seen_is_told():
    other = reader(seen(0, Content("a", 0, 99)))
    assert problems(KEPT, other) == [
        "reader saw a number 0 (checksum 00000063) at metal-0@0; a number 0 (checksum 0000000a) stands there now"
    ]


def test_a_reader_that_skips_an_offset_is_told():
    skipping = reader(seen(0, Content("a", 0, 10)), seen(2, Content("a", 1, 11)))
    assert problems(KEPT, skipping) == ["reader was given metal-0@2 instead of 1"]


def test_a_reader_that_begins_anew_may_see_the_same_again():
    anew = reader(seen(0, Content("a", 0, 10)), line(FROM_BEGINNING, "metal", 0), seen(0, Content("a", 0, 10)))
    assert problems(KEPT, anew) == []


def test_errors_that_no_client_must_meet_are_told():
    history = produced()
    history.add([line(PROBLEM, "producer 1", "OUT_OF_ORDER_SEQUENCE_NUMBER", "text\twith\nlines")])
    lost_place = reader(line(PROBLEM, "metal-0", "_AUTO_OFFSET_RESET", "out of range"))
    assert problems_of(history, [lost_place], KEPT, {}) == [
        "producer: producer 1 OUT_OF_ORDER_SEQUENCE_NUMBER text with lines",
        "reader: metal-0 _AUTO_OFFSET_RESET out of range",
    ]


def test_a_half_written_last_line_is_left_out():
    history = ProducerHistory()
    history.add([line(ACKNOWLEDGED, "metal", 0, "a", 0, 0), "acknowledged\tmet"])
    assert history.acknowledged_count == 1
