"""Transactions of version 2 by a client of our own, one after the other until SIGTERM, and what became of them.

It reads committed records within its transactions, asks late, is taken over and goes on all the same, and sends
batches of an epoch that is over, which must never get into a later transaction nor begin one that nobody ends.
"""

import argparse
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from tests.faults.transactions.raw_transactions import NONE, PASSING, RawTransactions
from tests.faults.transactions.transaction_history import Partition
from tests.faults.transactions.transaction_notes import (
    OPEN_S_MAX,
    WriterNotes,
    draw_payload,
    draw_plan,
    partitions_of,
    writer_options,
)
from tests.faults.transactions.transaction_records import TransactionId, TransactionRecord, read_record
from tests.support.clients.routed_transactions import RoutedTransactions, Unanswered

TRANSACTION_TIMEOUT_S = 5.0
TAIL_RECORDS = 30
"""How far back a transaction reads."""
WAYS = {"commit": 50, "read": 20, "abort": 10, "zombie": 8, "outdated": 8, "late": 2, "left": 2}
PATIENT_WAYS = {"patient": 90, "abort": 10}
PATIENT_S = (0.5, 2.0)
ZOMBIES_PATIENCE_S = 1.0
RIVALS_PAUSE_S = (1.0, 4.0)


class RawWriter:
    """One writer's loop."""

    def __init__(self, options: Any, notes: WriterNotes, ending: threading.Event) -> None:
        self._options = options
        self._notes = notes
        self._chance = random.Random(options.seed)
        self._partitions = partitions_of(options)
        self._cluster = RoutedTransactions(options.bootstrap, self._chance, options.access.connect)
        self._ways = PATIENT_WAYS if options.patient else WAYS
        self.ending = ending
        self._instance = 0
        self._number = 0

    def run(self) -> None:
        producer: RawTransactions | None = None
        while not self.ending.is_set():
            if producer is None:
                producer = self._begin_instance()
                continue
            producer = self._transact(producer)
            self.ending.wait(self._chance.uniform(0, 2 / self._options.rate))
        self._cluster.close()

    def _begin_instance(self) -> RawTransactions | None:
        producer = RawTransactions(
            self._cluster,
            self._options.transactional_id,
            timeout_ms=int(TRANSACTION_TIMEOUT_S * 1000),
        )
        error = producer.take_over()
        if error != NONE:
            if error not in PASSING:
                self._notes.problem(self._options.name, "InitProducerId", error)
            return None
        self._instance += 1
        return producer

    def _begin(self, plan: tuple[Partition, ...]) -> TransactionId:
        name = TransactionId(f"{self._options.name}.{self._instance}", self._number)
        self._number += 1
        self._notes.begun(name, plan)
        return name

    def _values(self, name: TransactionId, plan: tuple[Partition, ...]) -> list[bytes]:
        return [
            TransactionRecord(name, position, len(plan)).encode(draw_payload(self._chance))
            for position in range(len(plan))
        ]

    def _transact(self, producer: RawTransactions) -> RawTransactions | None:
        """One transaction; who is the producer then, or None if another one has to begin."""
        way = self._chance.choices(list(self._ways), list(self._ways.values()))[0]
        plan = draw_plan(self._chance, self._partitions)
        name = self._begin(plan)
        values = self._values(name, plan)
        if way == "zombie":
            return self._be_overtaken(producer, name, plan, values)
        error = producer.produce(plan, values)
        if error != NONE:
            return self._abort(producer, name, f"aborted after {error}")
        if way == "left":
            self._notes.ended(name, "left open")
            return None
        if way == "late":
            self.ending.wait(TRANSACTION_TIMEOUT_S * self._chance.uniform(0.8, 1.6))
        if way == "patient":
            self.ending.wait(self._chance.uniform(*PATIENT_S))
        if way == "read":
            self._read(name)
            self.ending.wait(self._chance.uniform(0, OPEN_S_MAX))
        if way == "abort":
            return self._abort(producer, name, "aborted")
        former = producer.producer
        self._notes.committing(name)
        error = producer.end(commit=True)
        if error != NONE:
            self._notes.ended(name, f"commit: {error}")
            self.ending.wait(self._chance.uniform(*RIVALS_PAUSE_S))
            return None
        self._notes.committed(name)
        if way == "outdated":
            self._send_outdated(producer, former)
        return producer

    def _abort(self, producer: RawTransactions, name: TransactionId, why: str) -> RawTransactions | None:
        error = producer.end(commit=False)
        if error == NONE:
            self._notes.ended(name, why)
            return producer
        self._notes.ended(name, f"{why}: {error}")
        self.ending.wait(self._chance.uniform(*RIVALS_PAUSE_S))  # so that whoever has taken the id over gets on
        return None

    def _be_overtaken(
        self, producer: RawTransactions, name: TransactionId, plan: tuple[Partition, ...], values: list[bytes]
    ) -> RawTransactions | None:
        """Another instance begins amid a transaction; this one goes on to write, and asks for the commit."""
        split = self._chance.randint(0, len(plan))
        error = producer.produce(plan[:split], values[:split])
        if error != NONE:
            return self._abort(producer, name, f"aborted after {error}")
        successor = self._begin_instance()
        if successor is None:
            return self._abort(producer, name, "aborted, as nobody took it over")
        self._notes.fenced(name)
        refusals = []
        for (topic, partition), value in zip(plan[split:], values[split:], strict=True):
            error = producer.send(topic, partition, [value], patience_s=ZOMBIES_PATIENCE_S)
            refusals.append(error)
            if error == NONE:
                self._notes.problem(f"a record of {name} was taken after its id was taken over")
        self._notes.committing(name)
        error = producer.end(commit=True, patience_s=ZOMBIES_PATIENCE_S)
        if error == NONE:
            self._notes.problem(f"the commit of {name} was confirmed after its id was taken over")
        self._notes.ended(name, f"overtaken: {error} ({', '.join(sorted(set(refusals)))})")
        return successor

    def _send_outdated(self, producer: RawTransactions, former: Any) -> None:
        """A batch of the epoch before, as if the network had kept it back."""
        topic, partition = self._chance.choice(self._partitions)
        plan = ((topic, partition),)
        name = self._begin(plan)
        (value,) = self._values(name, plan)
        outdated = RawTransactions(self._cluster, self._options.transactional_id, timeout_ms=1000)
        outdated.producer = former
        # It may be confirmed as a repetition, where the first batch of the epoch is meant; it must not be stored.
        error = outdated.send(topic, partition, [value], patience_s=ZOMBIES_PATIENCE_S)
        self._notes.ended(name, f"outdated: {error}")

    def _read(self, name: TransactionId) -> None:
        """Reads committed records near the end of some partition, within the transaction."""
        topic, partition = self._chance.choice(self._partitions)
        try:
            error, end = self._cluster.leader(
                topic, partition, lambda client: client.end_offset(topic, committed=True, partition=partition)
            )
            if error != NONE:
                return self._cluster.forget(topic, partition)
            begin = max(0, end - TAIL_RECORDS)
            _, records, _ = self._cluster.leader(
                topic, partition, lambda client: client.read_committed(topic, partition, begin)
            )
        except Unanswered:
            return self._cluster.forget(topic, partition)
        sources = {read_record(value).transaction for _, value in records}
        for source in sorted(sources):
            self._notes.read(name, source)
        return None


def main() -> int:
    options = writer_options()
    ending = threading.Event()
    threading.excepthook = end_the_process
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    with options.notes.open("w") as file:
        notes = WriterNotes(file)
        threads = [
            threading.Thread(target=RawWriter(each, notes, ending).run, name=each.name)
            for each in options_of_each(options)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return 0


def end_the_process(failure: threading.ExceptHookArgs) -> None:
    """Ends all when one thread has failed, as the load is checked by its processes."""
    threading.__excepthook__(failure)
    os._exit(1)


def options_of_each(options: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """The options of each writer: patient ones come in numbers, so that transactions are open at any time."""
    if not options.patient:
        yield options
        return
    for number in range(options.patient):
        each = argparse.Namespace(**vars(options))
        each.name, each.transactional_id = f"{options.name}-{number}", f"{options.transactional_id}-{number}"
        each.seed = options.seed * options.patient + number
        yield each


if __name__ == "__main__":
    sys.exit(main())
