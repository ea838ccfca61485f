"""Writing down what happens to transactions, at once, and what all writers of them have in common."""

import argparse
import os
import random
import threading
import time
from pathlib import Path
from typing import TextIO

from tests.faults.access.client_access import add_access
from tests.faults.history import PROBLEM, line
from tests.faults.transactions.transaction_history import (
    BEGUN,
    COMMITTED,
    COMMITTING,
    ENDED,
    FENCED,
    READ,
    Partition,
    plan_text,
)
from tests.faults.transactions.transaction_records import TransactionId

LOCKED_UP_S = 45.0
"""More than twice as long as any call may take."""
WATCH_INTERVAL_S = 1.0
RECORDS_MAX = 6
PAYLOAD_BYTES_MAX = 300
OPEN_S_MAX = 1.0
"""How long some transactions are open with all their records stored, so that faults find some that are."""


class WriterNotes:
    """What one program notes of its transactions."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def begun(self, name: TransactionId, plan: tuple[Partition, ...]) -> None:
        self._note(BEGUN, *name, time.monotonic_ns(), plan_text(plan))

    def read(self, name: TransactionId, source: TransactionId) -> None:
        self._note(READ, *name, *source, time.monotonic_ns())

    def fenced(self, name: TransactionId) -> None:
        self._note(FENCED, *name)

    def committing(self, name: TransactionId) -> None:
        self._note(COMMITTING, *name, time.monotonic_ns())

    def committed(self, name: TransactionId) -> None:
        self._note(COMMITTED, *name, time.monotonic_ns())

    def ended(self, name: TransactionId, why: str) -> None:
        self._note(ENDED, *name, why)

    def problem(self, *words: object) -> None:
        self._note(PROBLEM, *words)

    def _note(self, what: str, *words: object) -> None:
        self._file.write(line(what, *words))
        self._file.flush()


class Watchdog:
    """Ends the process, to be started again, where a call into librdkafka does not come back.

    Its `send_offsets_to_transaction` has been seen to wait for minutes after brokers were paused, with no request on
    its way and its time-out over (2.16).
    """

    def __init__(self) -> None:
        self._beat_s = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def beat(self) -> None:
        """The program goes on."""
        self._beat_s = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() - self._beat_s < LOCKED_UP_S:
            time.sleep(WATCH_INTERVAL_S)  # a look now and then is enough
        print(time.monotonic_ns(), "locked up", flush=True)
        os.abort()


def draw_plan(chance: random.Random, partitions: tuple[Partition, ...]) -> tuple[Partition, ...]:
    """To which partition each record of a transaction goes."""
    some = chance.sample(partitions, chance.randint(1, min(4, len(partitions))))
    return tuple(chance.choice(some) for _ in range(chance.randint(1, RECORDS_MAX)))


def draw_payload(chance: random.Random) -> bytes:
    """Bytes behind what a record tells."""
    return chance.randbytes(chance.randrange(PAYLOAD_BYTES_MAX))


def writer_options() -> argparse.Namespace:
    """The options that all writers have."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    add_access(parser)
    parser.add_argument("--topics", nargs="+", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--transactional-id", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rate", type=float, default=8.0, help="transactions a second, at most")
    parser.add_argument("--patient", type=int, default=0, help="so many writers that leave transactions open a while")
    parser.add_argument("--notes", type=Path, required=True)
    return parser.parse_args()


def partitions_of(options: argparse.Namespace) -> tuple[Partition, ...]:
    """Everywhere that a writer may write."""
    return tuple((topic, index) for topic in options.topics for index in range(options.partitions))
