"""The checker of mirrored transactions names what the target shows otherwise than the source, and nothing else."""

from tests.faults.history import FROM_BEGINNING, SEEN, line
from tests.faults.mirrors.ledger_checker import Ledgers, ledger_problems
from tests.faults.topics import LEDGER, LINKED_LEDGER, copy_name
from tests.faults.transactions.transaction_history import (
    BEGUN,
    COMMITTED,
    COMMITTING,
    ENDED,
    IsolatedReaderHistory,
    plan_text,
)
from tests.faults.transactions.transaction_records import TransactionId, TransactionRecord

HERE, LINKED, COPY = (LEDGER.name, 0), (LINKED_LEDGER.name, 0), (copy_name(LEDGER.name), 0)
PLAN = (HERE, LINKED)
ABORTED = 1
"""Which of three transactions is; each has a record in both topics, and a marker behind it."""


def record(number: int, position: int) -> TransactionRecord:
    return TransactionRecord(TransactionId("w", number), position, len(PLAN))


def told() -> Ledgers:
    """The target has what the source has; the copy's offsets are others, as only committed records are copied."""
    ledgers = Ledgers()
    ledgers.seen = IsolatedReaderHistory("reader", is_committed=True)
    for number in range(3):
        lines = [line(BEGUN, "w", number, number * 10, plan_text(PLAN))]
        if number == ABORTED:
            lines.append(line(ENDED, "w", number, "aborted"))
        else:
            lines += [line(what, "w", number, number * 10 + 5) for what in (COMMITTING, COMMITTED)]
        ledgers.written.add(lines)
    everything = {
        place: [(2 * number, record(number, position)) for number in range(3)] for position, place in enumerate(PLAN)
    }
    committed = {
        place: [each for each in records if each[1].transaction.number != ABORTED]
        for place, records in everything.items()
    }
    ledgers.source_all, ledgers.source_committed = everything, committed
    copied = list(enumerate(each for _, each in committed[HERE]))
    ledgers.target_committed = {COPY: copied, LINKED: list(committed[LINKED])}
    ledgers.target_all = {COPY: copied, LINKED: list(everything[LINKED])}
    return ledgers


def problems(ledgers: Ledgers, *, seen_at: int = 1000) -> list[str]:
    lines = []
    for (topic, index), records in ledgers.target_committed.items():
        lines.append(line(FROM_BEGINNING, topic, index))
        lines += [line(SEEN, topic, index, offset, seen_at, each.text()) for offset, each in records]
    ledgers.seen.add(lines)
    return list(ledger_problems(ledgers))


def test_a_target_with_all_that_is_committed_is_right() -> None:
    assert not problems(told())


def test_an_aborted_record_in_a_copy_is_found() -> None:
    ledgers = told()
    ledgers.target_committed[COPY].append((2, record(ABORTED, 0)))
    found = problems(ledgers)
    assert found[0] == "aborted read: west.ledger-0@2 is w#1 record 0 of 2, which is not committed at the source"
    assert any("has read of w#1, which is aborted" in each for each in found)


def test_an_aborted_record_that_a_linked_topic_shows_is_found() -> None:
    ledgers = told()
    ledgers.target_committed[LINKED].insert(1, (2, record(ABORTED, 1)))
    assert problems(ledgers)[0].startswith("aborted read: linked-ledger-0@2 is w#1 record 1 of 2")


def test_a_committed_record_that_is_missing_is_found() -> None:
    for place, name in ((COPY, "west.ledger-0"), (LINKED, "linked-ledger-0")):
        ledgers = told()
        del ledgers.target_committed[place][0]
        assert problems(ledgers)[0].startswith(f"lost: {name} has not w#0 record")


def test_an_aborted_record_that_a_linked_topic_lacks_is_found() -> None:
    ledgers = told()
    del ledgers.target_all[LINKED][1]
    assert problems(ledgers) == ["linked-ledger-0 has not all records, the aborted ones too, that the source has"]


def test_a_record_that_is_copied_twice_or_in_another_order_is_found() -> None:
    ledgers = told()
    ledgers.target_committed[COPY] = [(0, record(2, 0)), (1, record(0, 0)), (2, record(2, 0))]
    found = problems(ledgers)
    assert found[:2] == [
        "twice: west.ledger-0 has w#2 record 0 of 2 2 times",
        "reordered: west.ledger-0@1 is w#0 record 0 of 2, behind w#2 record 0 of 2",
    ]


def test_a_record_that_was_shown_before_its_commit_was_asked_for_is_found() -> None:
    assert any(each.startswith("intermediate read: reader has read of w#2") for each in problems(told(), seen_at=24))
