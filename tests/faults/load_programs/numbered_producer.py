"""A producer that numbers the records of each key and notes every answer, until SIGTERM; idempotent with acks=all.

It writes to topics and keys in turn at a steady rate. The number and a payload are the value. After SIGTERM it waits
for the answers that are missing, and ends; what the cluster never answered is noted as failed.
"""

import argparse
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TextIO

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.faults.access.client_access import add_access
from tests.faults.history import ACKNOWLEDGED, FAILED, PROBLEM, UNKNOWN_OFFSET, line

DELIVERY_TIMEOUT_S = 120.0
FLUSH_DEADLINE_S = 60.0
FLUSHES_MAX = 3
NOTE_INTERVAL_S = 0.25
PAYLOAD_BYTES_MAX = 1200
SENT_AT_ONCE_MAX = 100
RECORDS_PER_KEYS = 100
BATCH_BYTES_MAX = 64 * 1024
"""Segments are small, and a batch must fit into one."""
VARIANTS: tuple[dict[str, str | int], ...] = (
    {"linger.ms": 0},
    {"linger.ms": 20, "compression.type": "lz4"},
    {"linger.ms": 5, "compression.type": "zstd", "max.in.flight.requests.per.connection": 1},
)


class NumberedProducer:
    """One producer's loop."""

    def __init__(self, options: argparse.Namespace, notes: TextIO):
        self._options = options
        self._notes = notes
        self._chance = random.Random(options.seed)
        self._numbers: dict[tuple[str, str], int] = {}
        self._sent: Counter[str] = Counter()
        self._ending = False
        self._producer = self._connect()

    def end(self, _signal: int, _frame: FrameType | None) -> None:
        self._ending = True

    def run(self) -> None:
        begun_s = noted_s = time.monotonic()
        sent = 0
        while not self._ending:
            due = int((time.monotonic() - begun_s) * self._options.rate)
            failure = failure_of(partial(self._poll_and_send, min(due - sent, SENT_AT_ONCE_MAX)))
            if failure is not None:
                self._begin_anew(failure)
            sent = due
            if time.monotonic() - noted_s > NOTE_INTERVAL_S:
                self._notes.flush()
                noted_s = time.monotonic()
        self._finish()

    def _poll_and_send(self, count: int) -> None:
        self._producer.poll(0.005)
        for _ in range(count):
            self._send()

    def _send(self) -> None:
        topic = self._chance.choice(self._options.topics)
        key = f"p{self._options.number}-k{self._chance.randrange(self._options.keys)}"
        if topic in self._options.growing:
            # Keys are given up for new ones, so that the last values of many lie in segments that are compacted.
            key += f"-{self._sent[topic] // RECORDS_PER_KEYS}"
            self._sent[topic] += 1
        number = self._numbers.get((topic, key), 0)
        value = f"{number}:".encode() + self._chance.randbytes(self._chance.randrange(PAYLOAD_BYTES_MAX))

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None:
                self._notes.write(line(FAILED, topic, key, number, error.name()))
            else:
                # The library tells no offset where the cluster only said that it has had the batch before.
                known = UNKNOWN_OFFSET if offset is None else offset
                self._notes.write(line(ACKNOWLEDGED, topic, message.partition(), key, number, known))

        try:
            self._producer.produce(topic, value, key, on_delivery=delivered)
        except BufferError:
            return
        self._numbers[topic, key] = number + 1

    def _begin_anew(self, failure: str) -> None:
        """A fatal error says that the cluster broke the sequence, and ends a producer."""
        self._notes.write(line(PROBLEM, f"producer {self._options.number}", failure))
        give_up(self._producer)
        self._producer = self._connect()

    def _finish(self) -> None:
        failure = failure_of(partial(self._producer.flush, FLUSH_DEADLINE_S))
        if failure is not None:
            self._notes.write(line(PROBLEM, f"producer {self._options.number}", failure))
        give_up(self._producer)
        self._notes.flush()

    def _connect(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._options.bootstrap,
                "client.id": f"producer-{self._options.number}",
                "enable.idempotence": self._options.acks == "all",
                "acks": self._options.acks,
                "partitioner": "murmur2_random",
                "delivery.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
                "request.timeout.ms": 5000,
                "socket.timeout.ms": 6000,
                "socket.connection.setup.timeout.ms": 2000,
                "reconnect.backoff.ms": 50,
                # After its re-bootstrap librdkafka 2.16 sometimes asks no broker any more.
                "metadata.recovery.strategy": "none",
                "reconnect.backoff.max.ms": 500,
                "retry.backoff.ms": 50,
                "retry.backoff.max.ms": 300,
                "topic.metadata.refresh.interval.ms": 2000,
                "topic.metadata.refresh.fast.interval.ms": 100,
                "queue.buffering.max.messages": 20_000,
                "batch.size": BATCH_BYTES_MAX,
                "debug": "eos",  # the log shows why a producer began a new epoch, which may double records
                "log_level": 7,
                **VARIANTS[self._options.number % len(VARIANTS)],
                **self._options.access.client_settings,
            }
        )


def give_up(producer: Producer) -> None:
    """Has everything that is left reported as failed, whatever fatal error the producer has met."""
    producer.purge()
    for _ in range(FLUSHES_MAX):  # the fatal error once more ends a flush before all is reported
        if failure_of(partial(producer.flush, FLUSH_DEADLINE_S)) is None:
            return


def failure_of(call: Callable[[], object]) -> str | None:
    """What a call into librdkafka has failed with, if it has.

    confluent-kafka (2.16) sets the exception for a fatal error in the middle of a call, and may go on to report
    deliveries while it is set. Then either a `SystemError` is raised in its place, or the `KafkaError` itself, which
    is no exception by its bases, so that only a bare `except` catches it.
    """
    try:
        call()
    except:
        failure = sys.exc_info()[1]
        if isinstance(failure, KafkaException | KafkaError | SystemError):
            return str(failure.__cause__ if isinstance(failure, SystemError) and failure.__cause__ else failure)
        raise
    return None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    add_access(parser)
    parser.add_argument("--topics", nargs="+", required=True)
    parser.add_argument("--acks", default="all")
    parser.add_argument("--growing", nargs="*", default=[], help="topics that get new keys again and again")
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--keys", type=int, default=12)
    parser.add_argument("--rate", type=float, default=150.0)
    parser.add_argument("--notes", type=Path, required=True)
    options = parser.parse_args()
    with options.notes.open("w") as notes:
        producer = NumberedProducer(options, notes)
        signal.signal(signal.SIGTERM, producer.end)
        producer.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
