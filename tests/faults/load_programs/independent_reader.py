"""A reader without a group that notes every record it is given, until SIGTERM.

It reads every partition from the beginning and follows it. Where the cluster tells it that its position is not in
the log any more, something it has read has disappeared: it notes the problem and begins that partition again.
With a rack it may be sent to the follower in that rack. One that is started again goes on in the same notes.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TextIO

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from tests.faults.access.client_access import REFUSALS, add_access
from tests.faults.history import FROM_BEGINNING, PROBLEM, SEEN, line
from tests.faults.reading import LOST_POSITION, content_of, settings_of_reader

NOTE_INTERVAL_S = 0.25


class IndependentReader:
    """One reader's loop."""

    def __init__(self, options: argparse.Namespace, notes: TextIO):
        self._notes = notes
        self._ending = False
        self._forgetful = frozenset(options.forgetful)
        settings = settings_of_reader(options.bootstrap, options.name, options.access)
        self._consumer = Consumer(settings | ({"client.rack": options.rack} if options.rack else {}))
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
        noted_s = time.monotonic()
        while not self._ending:
            for message in self._consumer.consume(500, 0.1):
                self._note(message)
            if time.monotonic() - noted_s > NOTE_INTERVAL_S:
                self._notes.flush()
                noted_s = time.monotonic()
        self._notes.flush()
        self._consumer.close()

    def _note(self, message: Message) -> None:
        error, topic, partition = message.error(), message.topic(), message.partition()
        if error is None:
            self._notes.write(line(SEEN, topic, partition, message.offset(), *content_of(message)))
        elif error.code() in LOST_POSITION:
            assert topic is not None
            assert partition is not None
            if topic not in self._forgetful or error.code() == KafkaError._LOG_TRUNCATION:
                self._notes.write(line(PROBLEM, f"{topic}-{partition}", error.name(), error.str()))
            self._notes.write(line(FROM_BEGINNING, topic, partition))
            self._consumer.incremental_unassign([TopicPartition(topic, partition)])
            self._consumer.incremental_assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        elif error.code() == KafkaError._BAD_MSG or error.code() in REFUSALS:
            self._notes.write(line(PROBLEM, f"{topic}-{partition}", error.name(), error.str()))


def cut_to_whole_lines(notes: Path) -> None:
    """Leave of a file what a reader before this one has noted wholly, if one has crashed."""
    if notes.exists():
        noted = notes.read_bytes()
        os.truncate(notes, noted.rfind(b"\n") + 1)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    add_access(parser)
    parser.add_argument("--topics", nargs="+", required=True)
    parser.add_argument("--forgetful", nargs="*", default=[], help="topics that delete what is old")
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--rack")
    parser.add_argument("--notes", type=Path, required=True)
    options = parser.parse_args()
    cut_to_whole_lines(options.notes)
    with options.notes.open("a") as notes:
        reader = IndependentReader(options, notes)
        signal.signal(signal.SIGTERM, reader.end)
        reader.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
