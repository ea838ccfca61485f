"""The checker of transactions names every anomaly in a history that has it, and none in one that has not."""

from collections.abc import Callable

import pytest

from tests.faults.history import FROM_BEGINNING, SEEN, line
from tests.faults.transactions.transaction_checker import transaction_problems
from tests.faults.transactions.transaction_history import (
    BEGUN,
    COMMITTED,
    COMMITTING,
    ENDED,
    FENCED,
    READ,
    Contents,
    IsolatedReaderHistory,
    WriterHistory,
    plan_text,
)
from tests.faults.transactions.transaction_records import TransactionId, TransactionRecord, read_record

A, B = ("topic", 0), ("topic", 1)


class Story:
    """A history: what writers and readers note, and what is there in the end."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.committed: Contents = {A: [], B: []}
        self.everything: Contents = {A: [], B: []}
        self.reader = IsolatedReaderHistory("reader", is_committed=True)
        self._seen: list[str] = [line(FROM_BEGINNING, *A), line(FROM_BEGINNING, *B)]

    def begin(self, number: int, *plan: tuple[str, int], at: int, writer: str = "w") -> None:
        self.lines.append(line(BEGUN, writer, number, at, plan_text(plan)))

    def note(self, what: str, number: int, *words: object, writer: str = "w") -> None:
        self.lines.append(line(what, writer, number, *words))

    def commit(self, number: int, *plan: tuple[str, int], at: int, writer: str = "w") -> None:
        """Begun at a moment, decided five later, and answered nine later."""
        self.begin(number, *plan, at=at, writer=writer)
        self.note(COMMITTING, number, at + 5, writer=writer)
        self.note(COMMITTED, number, at + 9, writer=writer)

    def store(
        self, offset: int, place: tuple[str, int], record: TransactionRecord, *, committed: bool = True
    ) -> None:
        self.everything[place].append((offset, record))
        if committed:
            self.committed[place].append((offset, record))

    def see(self, offset: int, place: tuple[str, int], record: TransactionRecord, at: int) -> None:
        self._seen.append(line(SEEN, *place, offset, at, record.text()))

    def problems(self) -> list[str]:
        written = WriterHistory()
        written.add(self.lines)
        self.reader.add(self._seen)
        readers = [self.reader] if len(self._seen) > 2 else []
        return transaction_problems(written, readers, self.committed, self.everything)


def record(number: int, position: int, count: int, writer: str = "w") -> TransactionRecord:
    return TransactionRecord(TransactionId(writer, number), position, count)


def of_two(number: int, at: int, *, writer: str = "w") -> Story:
    """A story in which one transaction of two records is committed, and nothing is stored yet."""
    story = Story()
    story.commit(number, A, B, at=at, writer=writer)
    return story


def whole() -> Story:
    story = of_two(0, at=0)
    story.store(0, A, record(0, 0, 2))
    story.store(0, B, record(0, 1, 2))
    story.begin(1, A, at=20)
    story.note(ENDED, 1, "aborted")
    story.store(2, A, record(1, 0, 1), committed=False)
    story.begin(2, A, A, at=30)
    story.note(COMMITTING, 2, 35)
    story.note(ENDED, 2, "the answer was lost")
    story.begin(3, B, at=40)
    story.note(COMMITTING, 3, 45)
    story.store(2, B, record(3, 0, 1))
    for offset, place, seen in ((0, A, record(0, 0, 2)), (0, B, record(0, 1, 2)), (2, B, record(3, 0, 1))):
        story.see(offset, place, seen, at=50)
    return story


def lost() -> Story:
    return of_two(0, at=0)


def torn_though_committed() -> Story:
    story = of_two(0, at=0)
    story.store(0, A, record(0, 0, 2))
    return story


def torn() -> Story:
    story = Story()
    story.begin(0, A, B, at=0)
    story.note(COMMITTING, 0, 5)
    story.store(0, B, record(0, 1, 2))
    return story


def aborted_read() -> Story:
    story = Story()
    story.begin(0, A, at=0)
    story.store(0, A, record(0, 0, 1))
    return story


def zombies_commit() -> Story:
    story = Story()
    story.begin(0, A, at=0)
    story.note(FENCED, 0)
    story.note(COMMITTING, 0, 5)
    story.store(0, A, record(0, 0, 1))
    return story


def aborted_read_that_vanished() -> Story:
    story = Story()
    story.begin(0, A, at=0)
    story.note(ENDED, 0, "aborted")
    story.see(0, A, record(0, 0, 1), at=3)
    return story


def intermediate_read() -> Story:
    story = of_two(0, at=0)
    story.store(0, A, record(0, 0, 2))
    story.store(0, B, record(0, 1, 2))
    story.see(0, A, record(0, 0, 2), at=4)
    story.see(0, B, record(0, 1, 2), at=9)
    return story


def twice() -> Story:
    story = of_two(0, at=0)
    story.store(0, A, record(0, 0, 2))
    story.store(1, A, record(0, 0, 2))
    story.store(0, B, record(0, 1, 2))
    return story


def reordered_within() -> Story:
    story = Story()
    story.commit(0, A, A, at=0)
    story.store(0, A, record(0, 1, 2))
    story.store(1, A, record(0, 0, 2))
    return story


def reordered_of_one_writer() -> Story:
    story = Story()
    story.commit(0, A, at=0)
    story.commit(1, A, at=10)
    story.store(0, A, record(1, 0, 1))
    story.store(1, A, record(0, 0, 1))
    return story


def reordered_against_real_time() -> Story:
    story = Story()
    story.commit(0, A, at=0, writer="v")
    story.commit(0, A, at=10)
    story.store(0, A, record(0, 0, 1))
    story.store(1, A, record(0, 0, 1, writer="v"))
    return story


def in_another_partition() -> Story:
    story = Story()
    story.commit(0, A, at=0)
    story.store(0, B, record(0, 0, 1))
    return story


def never_sent() -> Story:
    story = Story()
    story.store(0, A, record(7, 0, 1))
    return story


def never_sent_and_aborted() -> Story:
    story = Story()
    story.store(0, A, record(7, 0, 1), committed=False)
    return story


def unseen() -> Story:
    story = Story()
    story.commit(0, A, A, at=0)
    story.store(0, A, record(0, 0, 2))
    story.store(1, A, record(0, 1, 2))
    story.see(1, A, record(0, 1, 2), at=9)
    return story


def unseen_at_the_end() -> Story:
    story = Story()
    story.commit(0, A, A, at=0)
    story.store(0, A, record(0, 0, 2))
    story.store(1, A, record(0, 1, 2))
    story.see(0, A, record(0, 0, 2), at=9)
    return story


def seen_again() -> Story:
    story = Story()
    story.commit(0, A, at=0)
    story.store(0, A, record(0, 0, 1))
    story.see(0, A, record(0, 0, 1), at=9)
    story.see(0, A, record(0, 0, 1), at=10)
    return story


def vanished() -> Story:
    story = Story()
    story.begin(0, A, at=0)
    story.note(COMMITTING, 0, 1)
    story.see(0, A, record(0, 0, 1), at=9)
    return story


def read_of_each_other() -> Story:
    story = Story()
    for number, other in ((0, 1), (1, 0)):
        story.begin(number, A, at=0)
        story.note(COMMITTING, number, 5)
        story.note(READ, number, "w", other, 7)
        story.note(COMMITTED, number, 9)
        story.store(number, A, record(number, 0, 1))
    return story


def read_of_an_aborted_one() -> Story:
    story = Story()
    story.begin(0, A, at=0)
    story.begin(0, B, at=0, writer="v")
    story.note(READ, 0, "w", 0, 3, writer="v")
    return story


def hidden_from_readers_of_everything() -> Story:
    story = Story()
    story.commit(0, A, at=0)
    story.committed[A].append((0, record(0, 0, 1)))
    return story


@pytest.mark.parametrize(
    ("story", "sign"),
    [
        (lost, "lost: all of w#0"),
        (torn_though_committed, "it is torn"),
        (torn, "torn: records [1] of w#0 are there, [0] are not"),
        (aborted_read, "aborted read: records [0] of w#0"),
        (zombies_commit, "whose id another had taken over"),
        (aborted_read_that_vanished, "aborted read: reader has read of w#0"),
        (intermediate_read, "intermediate read: reader"),
        (twice, "twice: w#0 record 0 of 2 at topic-0@0 and topic-0@1"),
        (reordered_within, "reordered: w#0 record 0"),
        (reordered_of_one_writer, "reordered: w#0"),
        (reordered_against_real_time, "which was begun when the former was committed"),
        (in_another_partition, "in another partition"),
        (never_sent, "never sent"),
        (never_sent_and_aborted, "of all records never sent"),
        (unseen, "unseen: reader was given w#0 record 1 of 2 at topic-0@1 instead of"),
        (unseen_at_the_end, "unseen: reader was given 1 of the 2 records"),
        (seen_again, "seen again: reader"),
        (vanished, "vanished: reader saw"),
        (read_of_each_other, "cycle: w#0, w#1"),
        (read_of_an_aborted_one, "aborted read: v#0 has read of w#0"),
        (hidden_from_readers_of_everything, "for readers of committed records only"),
    ],
)
def test_an_anomaly_is_named(story: Callable[[], Story], sign: str) -> None:
    problems = story().problems()
    assert any(sign in problem for problem in problems), problems


def test_a_history_without_anomalies_has_none_whatever_was_left_unanswered() -> None:
    assert whole().problems() == []


def test_transactions_that_overlap_may_interleave_in_any_order() -> None:
    story = Story()
    for writer in ("v", "w"):
        story.commit(0, A, B, at=0, writer=writer)
    story.store(0, A, record(0, 0, 2, "v"))
    story.store(1, A, record(0, 0, 2))
    story.store(0, B, record(0, 1, 2))
    story.store(1, B, record(0, 1, 2, "v"))
    assert story.problems() == []


def test_reading_along_a_chain_is_no_cycle() -> None:
    story = Story()
    for number in range(4):
        story.commit(number, A, at=10 * number)
        story.store(number, A, record(number, 0, 1))
        if number:
            story.note(READ, number, "w", number - 1, 10 * number)
    assert story.problems() == []


def test_a_record_is_read_back_as_it_was_written() -> None:
    written = record(3, 1, 2)
    assert read_record(written.encode(b"\xff|payload")) == written
    assert read_record(written.text()) == written
