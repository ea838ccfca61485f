"""Transactions by librdkafka, one after the other until SIGTERM, and what became of them in notes.

Most are committed, some aborted, some left to their time-out, and some taken over: a second producer with the same
transactional id begins while one is open, and the first one asks for its commit all the same.
"""

import argparse
import os
import random
import signal
import sys
import threading
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.faults.load_programs.independent_reader import cut_to_whole_lines
from tests.faults.transactions.transaction_history import Partition
from tests.faults.transactions.transaction_notes import (
    OPEN_S_MAX,
    Watchdog,
    WriterNotes,
    draw_payload,
    draw_plan,
    partitions_of,
    writer_options,
)
from tests.faults.transactions.transaction_records import TransactionId, TransactionRecord

TRANSACTION_TIMEOUT_S = 6.0
PATIENCE_S = 20.0
"""For one call; the next one of the same kind goes on where it has stopped."""
GIVE_UP_CALLS = 6
WAYS = {"commit": 50, "slow": 20, "abort": 15, "zombie": 8, "late": 3, "left": 4}


class TransactionalWriter:
    """One writer's loop."""

    def __init__(self, options: Any, notes: WriterNotes) -> None:
        self._options = options
        self._notes = notes
        self._chance = random.Random(options.seed)
        self._partitions = partitions_of(options)
        self._instance = 0
        self._number = 0
        self.ending = threading.Event()
        self._watchdog = Watchdog()
        self._producer: Producer | None = None

    def run(self) -> None:
        while not self.ending.is_set():
            self._watchdog.beat()
            if self._producer is None:
                self._producer = self._begin_instance()
                continue
            way = self._chance.choices(list(WAYS), list(WAYS.values()))[0]
            if not self._transact(self._producer, way):
                self._producer = None
            self.ending.wait(self._chance.uniform(0, 2 / self._options.rate))

    def _begin_instance(self) -> Producer | None:
        """A new producer that has taken the id over; None if the cluster did not let it, for now."""
        producer = Producer(settings(self._options))
        try:
            producer.init_transactions(PATIENCE_S)
        except KafkaException as error:
            if error.args[0].code() not in PASSING and not error.args[0].retriable():
                self._notes.problem(
                    self._options.name, "init_transactions", error.args[0].name(), error.args[0].str()
                )
            return None
        self._instance += 1
        return producer

    def _transact(self, producer: Producer, way: str) -> bool:
        """One transaction; whether the producer can go on."""
        plan = draw_plan(self._chance, self._partitions)
        name = TransactionId(f"{self._options.name}.{os.getpid()}.{self._instance}", self._number)
        self._number += 1
        self._notes.begun(name, plan)
        try:
            producer.begin_transaction()
            is_written = self._write(producer, name, plan)
        except KafkaException as error:
            return self._give_up(producer, name, error.args[0])
        if way == "left":
            self._notes.ended(name, "left open")
            return False
        if way == "zombie":
            return self._be_overtaken(producer, name)
        if way == "late":
            self.ending.wait(TRANSACTION_TIMEOUT_S * self._chance.uniform(0.8, 1.6))
        if way == "slow":
            self.ending.wait(self._chance.uniform(0, OPEN_S_MAX))
        if way == "abort" or not is_written:
            return self._abort(producer, name, "aborted" if is_written else "aborted, as records were not taken")
        self._notes.committing(name)
        return self._commit(producer, name)

    def _write(self, producer: Producer, name: TransactionId, plan: tuple[Partition, ...]) -> bool:
        """Sends all records; whether they are stored."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                failed.append(error)

        for position, (topic, partition) in enumerate(plan):
            record = TransactionRecord(name, position, len(plan))
            value = record.encode(draw_payload(self._chance))
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
        left = producer.flush(PATIENCE_S)
        return not failed and not left

    def _commit(self, producer: Producer, name: TransactionId) -> bool:
        for _ in range(GIVE_UP_CALLS):
            self._watchdog.beat()
            try:
                producer.commit_transaction(PATIENCE_S)
            except KafkaException as error:
                if error.args[0].retriable():
                    continue
                return self._give_up(producer, name, error.args[0])
            self._notes.committed(name)
            return True
        self._notes.ended(name, "commit unanswered")
        return False

    def _abort(self, producer: Producer, name: TransactionId, why: str) -> bool:
        for _ in range(GIVE_UP_CALLS):
            self._watchdog.beat()
            try:
                producer.abort_transaction(PATIENCE_S)
            except KafkaException as error:
                if error.args[0].retriable():
                    continue
                self._notes.ended(name, f"{why}: {error.args[0].name()}")
                return False
            self._notes.ended(name, why)
            return True
        self._notes.ended(name, "abort unanswered")
        return False

    def _give_up(self, producer: Producer, name: TransactionId, error: KafkaError) -> bool:
        """After an error: aborts where the producer can go on from there."""
        if error.fatal():
            self._notes.ended(name, error.name())
            return False
        return self._abort(producer, name, f"aborted after {error.name()}")

    def _be_overtaken(self, producer: Producer, name: TransactionId) -> bool:
        """Another producer takes the id over, and then this one asks for its commit."""
        successor = self._begin_instance()
        if successor is None:
            return self._abort(producer, name, "aborted, as nobody took it over")
        self._notes.fenced(name)
        self._notes.committing(name)
        try:
            producer.commit_transaction(PATIENCE_S)
        except KafkaException as error:
            self._notes.ended(name, f"overtaken: {error.args[0].name()}")
        else:
            self._notes.problem(f"the commit of {name} was confirmed after its id was taken over")
        with suppress(KafkaException):
            producer.purge()
        self._producer = successor
        return True


PASSING = {KafkaError._TIMED_OUT, KafkaError.CONCURRENT_TRANSACTIONS}


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """Of a transactional producer that is patient while nobody answers."""
    return {
        "bootstrap.servers": options.bootstrap,
        "client.id": options.transactional_id,
        "transactional.id": options.transactional_id,
        "transaction.timeout.ms": int(TRANSACTION_TIMEOUT_S * 1000),
        "delivery.timeout.ms": int(TRANSACTION_TIMEOUT_S * 1000),
        "request.timeout.ms": 5000,
        "socket.timeout.ms": 6000,
        "socket.connection.setup.timeout.ms": 2000,
        "linger.ms": 1,
        "reconnect.backoff.ms": 50,
        # After its re-bootstrap librdkafka 2.16 sometimes asks no broker any more.
        "metadata.recovery.strategy": "none",
        "reconnect.backoff.max.ms": 500,
        "retry.backoff.ms": 50,
        "retry.backoff.max.ms": 300,
        "topic.metadata.refresh.interval.ms": 2000,
        "topic.metadata.refresh.fast.interval.ms": 100,
        "debug": "eos",
        "log_level": 7,
        **options.access.client_settings,
    }


def main() -> int:
    options = writer_options()
    cut_to_whole_lines(options.notes)
    with options.notes.open("a") as file:
        writer = TransactionalWriter(options, WriterNotes(file))
        signal.signal(signal.SIGTERM, lambda *_: writer.ending.set())
        writer.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
