"""A member of a group that makes of each committed record of one topic one of another, until SIGTERM, by librdkafka.

Members share the partitions, each with a transactional id of its own; what keeps a former owner of a partition from
committing is the group's generation (KIP-447). A consumer that gets nothing for long begins anew: librdkafka's may
stop asking when brokers restart.
"""

import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.faults.access.client_access import REFUSALS
from tests.faults.history import Place
from tests.faults.load_programs.independent_reader import cut_to_whole_lines
from tests.faults.load_programs.transactional_writer import PASSING, PATIENCE_S, settings
from tests.faults.reading import settings_of_reader
from tests.faults.transactions.transaction_notes import Watchdog, WriterNotes, draw_payload, writer_options
from tests.faults.transactions.transaction_records import TransactionId, TransactionRecord, read_record

GROUP = "members"
RECORDS_MAX = 30
ABORTED_SHARE = 0.1
SILENCE_S = 8.0
GIVE_UP_CALLS = 6


class GroupCopier:
    """One member's loop."""

    def __init__(self, options: Any, notes: WriterNotes) -> None:
        self._options = options
        self._source, self._target = options.topics
        self._notes = notes
        self._chance = random.Random(options.seed)
        self.ending = threading.Event()
        self._watchdog = Watchdog()
        self._instance = 0
        self._number = 0

    def run(self) -> None:
        while not self.ending.is_set():
            self._watchdog.beat()
            producer = Producer(settings(self._options))
            try:
                producer.init_transactions(PATIENCE_S)
            except KafkaException as error:
                if error.args[0].code() not in PASSING and not error.args[0].retriable():
                    self._notes.problem(self._options.name, "init_transactions", error.args[0].name())
                continue
            self._instance += 1
            consumer = Consumer(self._consumer_settings())
            try:
                consumer.subscribe([self._source])
                self._copy(consumer, producer)
            except KafkaException as error:
                print(time.monotonic_ns(), error, flush=True)
            finally:
                consumer.close()

    def _copy(self, consumer: Consumer, producer: Producer) -> None:
        """Copies until something comes between."""
        heard_s = time.monotonic()
        while not self.ending.is_set():
            self._watchdog.beat()
            given = consumer.consume(RECORDS_MAX, 0.2)
            for error in filter(None, (each.error() for each in given)):
                if error.code() in REFUSALS:
                    self._notes.problem(self._options.name, "consume", error.name())
            messages = [each for each in given if each.error() is None]
            if messages:
                heard_s = time.monotonic()
                if not self._transact(consumer, producer, messages):
                    return
            elif time.monotonic() - heard_s > SILENCE_S:
                print(time.monotonic_ns(), "nothing to read, or locked up", flush=True)
                return

    def _transact(self, consumer: Consumer, producer: Producer, messages: list[Message]) -> bool:
        """Copies some records; whether both can go on."""
        name = TransactionId(f"{self._options.name}.{os.getpid()}.{self._instance}", self._number)
        self._number += 1
        plan = tuple((self._target, _place(message).partition) for message in messages)
        self._notes.begun(name, plan)
        for source in sorted({read_record(message.value() or b"").transaction for message in messages}):
            self._notes.read(name, source)
        try:
            producer.begin_transaction()
            for position, message in enumerate(messages):
                record = TransactionRecord(name, position, len(plan), _place(message))
                producer.produce(self._target, record.encode(draw_payload(self._chance)), partition=plan[position][1])
            ends = {_place(message).partition: _place(message).offset + 1 for message in messages}
            offsets = [TopicPartition(self._source, index, end) for index, end in ends.items()]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
            if self._chance.random() < ABORTED_SHARE:
                self._abort(producer, name, "aborted")
                for message in reversed(messages):
                    consumer.seek(TopicPartition(*_place(message)))
                return True
            if producer.flush(PATIENCE_S):
                self._abort(producer, name, "aborted, as records were not taken")
                return False
        except KafkaException as error:
            self._abort(producer, name, f"aborted after {error.args[0].name()}")
            return False
        self._notes.committing(name)
        return self._commit(producer, name)

    def _commit(self, producer: Producer, name: TransactionId) -> bool:
        for _ in range(GIVE_UP_CALLS):
            self._watchdog.beat()
            try:
                producer.commit_transaction(PATIENCE_S)
            except KafkaException as error:
                if error.args[0].retriable():
                    continue
                self._abort(producer, name, f"commit: {error.args[0].name()}")
                return False
            self._notes.committed(name)
            return True
        self._notes.ended(name, "commit unanswered")
        return False

    def _abort(self, producer: Producer, name: TransactionId, why: str) -> None:
        with suppress(KafkaException):
            producer.abort_transaction(PATIENCE_S)
        self._notes.ended(name, why)

    def _consumer_settings(self) -> dict[str, Any]:
        return settings_of_reader(self._options.bootstrap, self._options.name, self._options.access) | {
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 1000,
        }


def _place(message: Message) -> Place:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return Place(topic, partition, offset)


def main() -> int:
    options = writer_options()
    cut_to_whole_lines(options.notes)
    with options.notes.open("a") as file:
        copier = GroupCopier(options, WriterNotes(file))
        signal.signal(signal.SIGTERM, lambda *_: copier.ending.set())
        copier.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
