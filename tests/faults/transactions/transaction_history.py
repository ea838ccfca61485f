"""What writers and readers of transactions note, a line of tab-separated words per event, and reading it back. Pure.

A writer notes a transaction before its first record is sent, and that it asks for a commit before it does so; so
whatever ends the writer, it is known what may have become of the transaction. Times are nanoseconds of the machine's
monotonic clock, which all its processes share.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from tests.faults.history import FROM_BEGINNING, PROBLEM, SEEN, whole_lines
from tests.faults.transactions.transaction_records import TransactionId, TransactionRecord, read_record

BEGUN = "begun"
READ = "read"
FENCED = "fenced"
COMMITTING = "committing"
COMMITTED = "committed"
ENDED = "ended"
"""Without the answer that it is committed."""

Partition = tuple[str, int]
Contents = dict[Partition, list[tuple[int, TransactionRecord]]]
"""Offsets and records by topic and partition."""


class Outcome(StrEnum):
    """What may have become of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """Nobody has asked for its commit who could."""
    UNKNOWN = "unknown"
    """A commit was asked for, and the answer is missing: it is committed or aborted, as a whole."""


@dataclass(slots=True)
class Transaction:
    """One transaction as its writer knows it.

    Attributes:
        plan: to which partition each of its records goes, by position.
        begun_ns: before its first record was sent.
        committing_ns: before the writer asked for the commit; None if it never did.
        committed_ns: after the writer was told that it is committed; None if it was not.
        is_fenced: whether another instance had taken the id over before the commit was asked for.
        ended: why it ended in another way.
        reads: the transactions of which it has read committed records, and when.
    """

    plan: tuple[Partition, ...]
    begun_ns: int
    committing_ns: int | None = None
    committed_ns: int | None = None
    is_fenced: bool = False
    ended: str = ""
    reads: dict[TransactionId, int] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        if self.committed_ns is not None:
            return Outcome.COMMITTED
        if self.committing_ns is None or self.is_fenced:
            return Outcome.ABORTED
        return Outcome.UNKNOWN


@dataclass(slots=True)
class WriterHistory:
    """What writers have noted.

    Attributes:
        transactions: all that were begun.
        problems: errors that a writer must not meet.
        endings: how often transactions ended without a commit, by reason.
    """

    transactions: dict[TransactionId, Transaction] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    endings: Counter[str] = field(default_factory=Counter)

    def count_of(self, outcome: Outcome) -> int:
        return sum(each.outcome is outcome for each in self.transactions.values())

    def add(self, lines: Iterable[str]) -> None:
        """Takes over what one writer noted."""
        for what, *words in whole_lines(lines):
            if what == PROBLEM:
                self.problems.append(" ".join(words))
                continue
            name = TransactionId(words[0], int(words[1]))
            if what == BEGUN:
                self.transactions[name] = Transaction(read_plan(words[3]), int(words[2]))
                continue
            transaction = self.transactions[name]
            if what == COMMITTING:
                transaction.committing_ns = int(words[2])
            elif what == COMMITTED:
                transaction.committed_ns = int(words[2])
            elif what == FENCED:
                transaction.is_fenced = True
            elif what == ENDED:
                transaction.ended = words[2]
                self.endings[words[2]] += 1
            elif what == READ:
                transaction.reads.setdefault(TransactionId(words[2], int(words[3])), int(words[4]))


@dataclass(slots=True)
class IsolatedReaderHistory:
    """What one reader of transactional topics saw.

    Attributes:
        is_committed: whether it asked for committed records only.
        runs: per topic and partition what it saw in order, and when; a new run begins where it began again.
        problems: errors that a reader must not meet.
    """

    name: str
    is_committed: bool
    runs: dict[Partition, list[list[tuple[int, TransactionRecord, int]]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def seen_count(self) -> int:
        return sum(len(run) for runs in self.runs.values() for run in runs)

    def add(self, lines: Iterable[str]) -> None:
        """Takes over what it noted."""
        for what, *words in whole_lines(lines):
            if what == SEEN:
                topic, partition, offset, seen_ns, text = words
                seen = (int(offset), read_record(text), int(seen_ns))
                self.runs[topic, int(partition)][-1].append(seen)
            elif what == FROM_BEGINNING:
                self.runs.setdefault((words[0], int(words[1])), []).append([])
            elif what == PROBLEM:
                self.problems.append(" ".join(words))


def plan_text(plan: Iterable[Partition]) -> str:
    """A plan as it is noted."""
    return " ".join(f"{topic}/{partition}" for topic, partition in plan)


def read_plan(text: str) -> tuple[Partition, ...]:
    """A plan that was noted."""
    parts = (each.rpartition("/") for each in text.split(" ") if each)
    return tuple((topic, int(partition)) for topic, _, partition in parts)
