"""Whether the target shows of the source's transactions what the source shows of them. Pure.

What became of a transaction is decided at the source, and looked at there by `transaction_checker.py`. The target has
to agree with it, for readers of committed records: *lost* is a record that is committed at the source and not there,
*aborted read* one that is there and is not committed at the source, for good or at the moment at which a reader saw
it. A copy has the committed records in their order, each once. A linked topic has all records at their offsets, also
the aborted ones, for readers of everything.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise

from tests.faults.topics import LEDGER, LINKED_LEDGER, copy_name
from tests.faults.transactions.transaction_checker import reader_problems, transaction_problems
from tests.faults.transactions.transaction_history import Contents, IsolatedReaderHistory, WriterHistory
from tests.faults.transactions.transaction_records import TransactionRecord

PROBLEMS_MAX = 5
"""Of one partition; the others are mostly consequences."""

Located = tuple[int, TransactionRecord]


@dataclass(slots=True)
class Ledgers:
    """What was written in transactions, and what there is in the end.

    Attributes:
        written: what the writers at the source noted.
        seen: what the reader of committed records at the target noted.
        source_committed: the source's records, for readers of committed ones.
        source_all: for readers of all.
        target_committed: the target's.
        target_all: likewise.
    """

    written: WriterHistory = field(default_factory=WriterHistory)
    seen: IsolatedReaderHistory = field(default_factory=lambda: IsolatedReaderHistory("", is_committed=True))
    source_committed: Contents = field(default_factory=dict)
    source_all: Contents = field(default_factory=dict)
    target_committed: Contents = field(default_factory=dict)
    target_all: Contents = field(default_factory=dict)


def ledger_problems(ledgers: Ledgers) -> Iterator[str]:
    """Everything that is wrong."""
    source_committed, source_all = ledgers.source_committed, ledgers.source_all
    for problem in transaction_problems(ledgers.written, [], source_committed, source_all):
        yield f"at the source: {problem}"
    for (topic, index), records in sorted(source_committed.items()):
        if topic == LEDGER.name:
            name = copy_name(topic)
            found = ledgers.target_committed[name, index]
            yield from islice(_copy_problems(f"{name}-{index}", records, found), PROBLEMS_MAX)
        elif topic == LINKED_LEDGER.name:
            name = f"{topic}-{index}"
            found, all_found = ledgers.target_committed[topic, index], ledgers.target_all[topic, index]
            yield from islice(_link_problems(name, records, found), PROBLEMS_MAX)
            if source_all[topic, index] != all_found:
                yield f"{name} has not all records, the aborted ones too, that the source has"
    seen = ledgers.seen
    yield from (f"{seen.name}: {problem}" for problem in seen.problems)
    yield from reader_problems(seen, ledgers.written.transactions, ledgers.target_committed)


def _link_problems(name: str, wanted: Sequence[Located], found: Sequence[Located]) -> Iterator[str]:
    """Records that are not where they are at the source."""
    there, here = set(wanted), set(found)
    for offset, record in found:
        if (offset, record) not in there:
            yield f"aborted read: {name}@{offset} is {record}, which is not committed at the source"
    for offset, record in wanted:
        if (offset, record) not in here:
            yield f"lost: {name} has not {record} of the source's offset {offset}"


def _copy_problems(name: str, wanted: Sequence[Located], found: Sequence[Located]) -> Iterator[str]:
    """Records that are missing, not committed at the source, there twice, or in another order."""
    places = {record: number for number, (_, record) in enumerate(wanted)}
    counts = Counter(record for _, record in found)
    for offset, record in found:
        if record not in places:
            yield f"aborted read: {name}@{offset} is {record}, which is not committed at the source"
    for offset, record in wanted:
        if not counts[record]:
            yield f"lost: {name} has not {record} of the source's offset {offset}"
    for record, count in counts.items():
        if count > 1:
            yield f"twice: {name} has {record} {count} times"
    known = [(offset, record) for offset, record in found if record in places]
    for (_, before), (offset, record) in pairwise(known):
        if places[record] < places[before]:
            yield f"reordered: {name}@{offset} is {record}, behind {before}"
