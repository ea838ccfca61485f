"""Whether transactions were all or nothing, judged by what clients noted and what the cluster holds in the end. Pure.

The anomalies are those that Jepsen's reports on Kafka's clients, Redpanda 21.10 and Bufstream 0.1 name:

- *lost*: a record of a committed transaction is not there. *aborted read*: one of an aborted transaction is, or was
  seen by a reader of committed records. *torn*: of a transaction whose answer was lost a part is there for ever.
- *intermediate read*: a record was seen, by a reader of committed records, before its writer had asked for the
  commit (G1b).
- *twice*, *reordered* (within a transaction, of one writer, or against real time: what is begun after another one's
  commit was confirmed stands behind it), *in another partition*, *never sent*.
- *cycle*: transactions that have read of each other (G1c). Write cycles (G0) are an anomaly between transactions that
  did not overlap in time, which the order against real time shows. Those that do overlap may stand in any order in
  each partition, as in Kafka: nothing orders the batches of two producers.
- *unseen*: a reader that came to the end was not given what is there. *vanished*: what a reader saw is gone.

What the offsets of groups must fulfil is in `chain_checker.py`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from tests.faults.history import Place
from tests.faults.transactions.transaction_history import (
    Contents,
    IsolatedReaderHistory,
    Outcome,
    Transaction,
    WriterHistory,
)
from tests.faults.transactions.transaction_records import TransactionId, TransactionRecord

Transactions = Mapping[TransactionId, Transaction]


def transaction_problems(
    written: WriterHistory, readers: Iterable[IsolatedReaderHistory], committed: Contents, everything: Contents
) -> list[str]:
    """Everything that is wrong; an empty list is a kept promise.

    Args:
        written: what writers noted.
        readers: what readers noted.
        committed: what a reader of committed records gets in the end, from the beginning.
        everything: what a reader of everything gets.
    """
    transactions = written.transactions
    problems = [f"writer: {problem}" for problem in written.problems]
    problems += unlike_their_outcome(transactions, committed)
    problems += misplaced_records(transactions, committed)
    problems += reordered_records(transactions, committed)
    problems += against_real_time(transactions, committed)
    problems += reads_of_undecided(transactions)
    problems += read_cycles(transactions)
    problems += [f"of all records {each}" for each in misplaced_records(transactions, everything)]
    problems += uncommitted_lacks(committed, everything)
    for reader in readers:
        problems += [f"{reader.name}: {problem}" for problem in reader.problems]
        problems += reader_problems(reader, transactions, committed if reader.is_committed else everything)
    return problems


def unlike_their_outcome(transactions: Transactions, committed: Contents) -> Iterator[str]:
    """Transactions of which too much or too little is there."""
    found: dict[TransactionId, set[int]] = defaultdict(set)
    for _, record in _records(committed):
        found[record.transaction].add(record.position)
    for name, transaction in sorted(transactions.items()):
        there, wanted = found.get(name, set()), set(range(len(transaction.plan)))
        missing = sorted(wanted - there)
        match transaction.outcome:
            case Outcome.COMMITTED if missing and not there:
                yield f"lost: all of {name}, which is committed"
            case Outcome.COMMITTED if missing:
                yield f"lost: records {missing} of {name}, which is committed; {sorted(there)} are there: it is torn"
            case Outcome.ABORTED if there:
                how = (
                    "whose id another had taken over"
                    if transaction.is_fenced
                    else transaction.ended or "never committed"
                )
                yield f"aborted read: records {sorted(there)} of {name} ({how}) are there"
            case Outcome.UNKNOWN if there and missing:
                yield f"torn: records {sorted(there)} of {name} are there, {missing} are not"


def misplaced_records(transactions: Transactions, contents: Contents) -> Iterator[str]:
    """Records that nobody sent, that stand in another partition than they were sent to, or that stand twice."""
    first: dict[tuple[TransactionId, int], Place] = {}
    for place, record in _records(contents):
        transaction = transactions.get(record.transaction)
        if transaction is None or not record.position < record.total == len(transaction.plan):
            yield f"never sent: {record} at {place}"
        elif transaction.plan[record.position] != (place.topic, place.partition):
            yield f"in another partition: {record} at {place}, sent to {transaction.plan[record.position]}"
        stands_at = first.setdefault((record.transaction, record.position), place)
        if stands_at != place:
            yield f"twice: {record} at {stands_at} and {place}"


def reordered_records(transactions: Transactions, contents: Contents) -> Iterator[str]:
    """Records of one writer that do not stand in the order in which it sent them."""
    del transactions
    last: dict[tuple[str, int, str], tuple[TransactionRecord, Place]] = {}
    for place, record in _records(contents):
        stream = (place.topic, place.partition, record.transaction.writer)
        if stream in last:
            before, at = last[stream]
            if (record.transaction, record.position) < (before.transaction, before.position):
                yield f"reordered: {record} at {place} behind {before} at {at}"
        last[stream] = record, place


def against_real_time(transactions: Transactions, contents: Contents) -> Iterator[str]:
    """Records that stand behind those of a transaction that was begun when theirs was committed already."""
    for (topic, partition), records in sorted(contents.items()):
        latest: tuple[int, TransactionRecord] | None = None
        for offset, record in records:
            transaction = transactions.get(record.transaction)
            if transaction is None:
                continue
            if latest and transaction.committed_ns is not None and transaction.committed_ns < latest[0]:
                yield (
                    f"reordered: {record} at {Place(topic, partition, offset)} behind {latest[1]},"
                    " which was begun when the former was committed"
                )
            if latest is None or transaction.begun_ns > latest[0]:
                latest = transaction.begun_ns, record


def reads_of_undecided(transactions: Transactions) -> Iterator[str]:
    """Transactions that have read, as committed, records of others that were not."""
    for name, transaction in sorted(transactions.items()):
        for source, read_ns in sorted(transaction.reads.items()):
            yield from _wrongly_read(f"{name}", source, read_ns, transactions)


def read_cycles(transactions: Transactions) -> Iterator[str]:
    """Transactions that have read of each other, in whatever roundabout way (G1c)."""
    edges = {name: set(each.reads) & transactions.keys() for name, each in transactions.items() if each.reads}
    while True:
        # Who reads nothing that reads is in no cycle; what is left at last are cycles and what leads to them.
        left = {name: {source for source in sources if source in edges} for name, sources in edges.items()}
        left = {name: sources for name, sources in left.items() if sources}
        read = {source for sources in left.values() for source in sources}
        left = {name: sources for name, sources in left.items() if name in read}
        if left == edges:
            break
        edges = left
    if edges:
        yield f"cycle: {', '.join(str(each) for each in sorted(edges))} have read of each other"


def uncommitted_lacks(committed: Contents, everything: Contents) -> Iterator[str]:
    """Committed records that a reader of everything does not get, or gets otherwise."""
    for partition, records in sorted(committed.items()):
        all_records = dict(everything.get(partition, []))
        for offset, record in records:
            if all_records.get(offset) != record:
                yield f"{record} at {Place(*partition, offset)} is there for readers of committed records only"


def reader_problems(reader: IsolatedReaderHistory, transactions: Transactions, final: Contents) -> Iterator[str]:
    """What a reader saw and should not have, and what it was not given."""
    for partition, runs in sorted(reader.runs.items()):
        records = final.get(partition, [])
        index_of = {(offset, record): index for index, (offset, record) in enumerate(records)}
        for run in runs:
            expected = 0  # a run begins at the beginning, and leaves nothing out
            for offset, record, seen_ns in run:
                what = f"{record} at {Place(*partition, offset)}"
                if reader.is_committed:
                    yield from _wrongly_read(reader.name, record.transaction, seen_ns, transactions, f" ({what})")
                index = index_of.get((offset, record))
                if index is None:
                    yield f"vanished: {reader.name} saw {what}"
                    continue
                if index > expected:
                    wanted_at, wanted = records[expected]
                    yield f"unseen: {reader.name} was given {what} instead of {wanted} at {wanted_at}"
                elif index < expected:
                    yield f"seen again: {reader.name} was given {what} when it had come further already"
                expected = index + 1
        if runs and len(runs[-1]) < len(records):
            name = "-".join(map(str, partition))
            yield f"unseen: {reader.name} was given {len(runs[-1])} of the {len(records)} records of {name}"


def _wrongly_read(
    reader: str, source: TransactionId, read_ns: int, transactions: Transactions, more: str = ""
) -> Iterator[str]:
    transaction = transactions.get(source)
    if transaction is None:
        yield f"never sent: {reader} has read of {source}{more}"
    elif transaction.outcome is Outcome.ABORTED:
        yield f"aborted read: {reader} has read of {source}, which is aborted{more}"
    elif transaction.committing_ns is not None and read_ns < transaction.committing_ns:
        early_ms = (transaction.committing_ns - read_ns) // 1_000_000
        yield f"intermediate read: {reader} has read of {source} {early_ms} ms before its commit was asked for{more}"


def _records(contents: Contents) -> Iterator[tuple[Place, TransactionRecord]]:
    for (topic, partition), records in sorted(contents.items()):
        for offset, record in records:
            yield Place(topic, partition, offset), record
