"""A reader of transactional topics that notes every record and when it got it, until SIGTERM.

It has no group, reads every partition from the beginning and follows it, committed records only or all. One that is
started again goes on in the same notes, from the beginning.
"""

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TextIO

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from tests.faults.access.client_access import REFUSALS, add_access
from tests.faults.history import FROM_BEGINNING, PROBLEM, SEEN, line
from tests.faults.load_programs.independent_reader import cut_to_whole_lines
from tests.faults.reading import LOST_POSITION, settings_of_reader
from tests.faults.transactions.transaction_records import read_record


class IsolatedReader:
    """One reader's loop."""

    def __init__(self, options: argparse.Namespace, notes: TextIO) -> None:
        self._notes = notes
        self._ending = False
        isolation = {"isolation.level": options.isolation}
        self._consumer = Consumer(settings_of_reader(options.bootstrap, options.name, options.access) | isolation)
        self._assigned = [
            TopicPartition(topic, partition, OFFSET_BEGINNING)
            for topic in options.topics
            for partition in range(options.partitions)
        ]

    def end(self, _signal: int, _frame: FrameType | None) -> None:
        self._ending = True

    def run(self) -> None:
        for each in self._assigned:
            self._notes.write(line(FROM_BEGINNING, each.topic, each.partition))
        self._consumer.assign(self._assigned)
        while not self._ending:
            messages = self._consumer.consume(500, 0.1)
            now_ns = time.monotonic_ns()
            for message in messages:
                self._note(message, now_ns)
            self._notes.flush()
        self._consumer.close()

    def _note(self, message: Message, now_ns: int) -> None:
        error, topic, partition = message.error(), message.topic(), message.partition()
        if error is None:
            value = message.value()
            assert isinstance(value, bytes)
            self._notes.write(line(SEEN, topic, partition, message.offset(), now_ns, read_record(value).text()))
        elif error.code() in REFUSALS:
            self._notes.write(line(PROBLEM, f"{topic}-{partition}", error.name(), error.str()))
        elif error.code() in LOST_POSITION:
            assert topic is not None
            assert partition is not None
            self._notes.write(line(PROBLEM, f"{topic}-{partition}", error.name(), error.str()))
            self._notes.write(line(FROM_BEGINNING, topic, partition))
            self._consumer.incremental_unassign([TopicPartition(topic, partition)])
            self._consumer.incremental_assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    add_access(parser)
    parser.add_argument("--topics", nargs="+", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--isolation", choices=["read_committed", "read_uncommitted"], required=True)
    parser.add_argument("--notes", type=Path, required=True)
    options = parser.parse_args()
    cut_to_whole_lines(options.notes)
    with options.notes.open("a") as notes:
        reader = IsolatedReader(options, notes)
        signal.signal(signal.SIGTERM, reader.end)
        reader.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
