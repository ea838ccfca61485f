"""A stage of a chain: each committed record of one topic becomes one of another, and the group's offset with it.

By requests of our own in version 2, until SIGTERM. Two programs may have the same transactional id and group: whoever
takes the id over goes on at the group's stable offset, and the former one must get nothing done any more.
"""

import random
import signal
import sys
import threading
import time
from typing import Any

from tests.faults.history import Place
from tests.faults.transactions.raw_transactions import NONE, PASSING, RawTransactions
from tests.faults.transactions.transaction_notes import WriterNotes, draw_payload, writer_options
from tests.faults.transactions.transaction_records import TransactionId, TransactionRecord, read_record
from tests.support.clients.routed_transactions import RoutedTransactions, Unanswered

TRANSACTION_TIMEOUT_S = 5.0
RECORDS_MAX = 20
ABORTED_SHARE = 0.1
LEFT_SHARE = 0.03
RIVALS_PAUSE_S = (2.0, 6.0)
LOOK_PAUSE_S = 0.1


class RawCopier:
    """One stage's loop."""

    def __init__(self, options: Any, notes: WriterNotes) -> None:
        self._options = options
        self._source, self._target = options.topics
        self._group = options.transactional_id
        self._notes = notes
        self._chance = random.Random(options.seed)
        self._cluster = RoutedTransactions(options.bootstrap, self._chance, options.access.connect)
        self.ending = threading.Event()
        self._instance = 0
        self._number = 0

    def run(self) -> None:
        while not self.ending.is_set():
            producer = RawTransactions(
                self._cluster, self._options.transactional_id, timeout_ms=int(TRANSACTION_TIMEOUT_S * 1000)
            )
            error = producer.take_over()
            if error == NONE:
                self._instance += 1
                self._copy(producer)
                self.ending.wait(self._chance.uniform(*RIVALS_PAUSE_S))
            elif error not in PASSING:
                self._notes.problem(self._options.name, "InitProducerId", error)
        self._cluster.close()

    def _copy(self, producer: RawTransactions) -> None:
        """Copies until something comes between."""
        positions = {index: self._position(index) for index in range(self._options.partitions)}
        while not self.ending.is_set():
            found = False
            for index in range(self._options.partitions):
                if positions[index] is None:
                    positions[index] = self._position(index)
                    continue
                records, end = self._read(index, positions[index])
                if not records:
                    positions[index] = end  # there may be markers only
                    continue
                found = True
                outcome = self._transact(producer, index, records, end)
                if outcome is None:
                    return
                positions[index] = end if outcome else positions[index]
            if not found:
                self.ending.wait(LOOK_PAUSE_S)

    def _position(self, index: int) -> int | None:
        """The group's stable offset; None if it is not known for now."""
        try:
            error, offset = self._cluster.any(
                lambda client: client.committed_offset(self._group, self._source, stable=True, partition=index)
            )
        except Unanswered:
            return None
        return max(offset, 0) if error == NONE else None

    def _read(self, index: int, position: int | None) -> tuple[list[tuple[int, bytes]], int]:
        """Some committed records, and the offset behind them."""
        assert position is not None
        try:
            error, records, end = self._cluster.leader(
                self._source, index, lambda client: client.read_committed(self._source, index, position)
            )
        except Unanswered as unanswered:
            error, records, end = str(unanswered), [], position
        if error != NONE:
            self._cluster.forget(self._source, index)
            print(time.monotonic_ns(), f"reading {self._source}-{index} at {position}: {error}", flush=True)
        records = records[: self._chance.randint(1, RECORDS_MAX)]
        return records, records[-1][0] + 1 if records else end

    def _transact(
        self, producer: RawTransactions, index: int, records: list[tuple[int, bytes]], end: int
    ) -> bool | None:
        """Copies some records; whether that is committed, and None if the producer cannot go on."""
        name = TransactionId(f"{self._options.name}.{self._instance}", self._number)
        self._number += 1
        plan = ((self._target, index),) * len(records)
        values = [
            TransactionRecord(name, position, len(plan), Place(self._source, index, offset)).encode(
                draw_payload(self._chance)
            )
            for position, (offset, _) in enumerate(records)
        ]
        self._notes.begun(name, plan)
        for source in sorted({read_record(value).transaction for _, value in records}):
            self._notes.read(name, source)
        steps = [
            lambda: producer.produce(plan, values),
            lambda: producer.commit_offset(self._group, self._source, index, end),
        ]
        self._chance.shuffle(steps)
        error = steps[0]()
        if error == NONE:
            error = steps[1]()
        share = self._chance.random()
        if error == NONE and share < LEFT_SHARE:
            self._notes.ended(name, "left open")
            return None
        if error != NONE or share < LEFT_SHARE + ABORTED_SHARE:
            return self._abort(producer, name, "aborted" if error == NONE else f"aborted after {error}")
        self._notes.committing(name)
        error = producer.end(commit=True)
        if error != NONE:
            self._notes.ended(name, f"commit: {error}")
            return None
        self._notes.committed(name)
        return True

    def _abort(self, producer: RawTransactions, name: TransactionId, why: str) -> bool | None:
        error = producer.end(commit=False)
        self._notes.ended(name, why if error == NONE else f"{why}: {error}")
        return False if error == NONE else None


def main() -> int:
    options = writer_options()
    with options.notes.open("w") as file:
        copier = RawCopier(options, WriterNotes(file))
        signal.signal(signal.SIGTERM, lambda *_: copier.ending.set())
        copier.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
