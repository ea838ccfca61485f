"""What the programs of the load note, one line of tab-separated words per event, and reading it back. Pure.

A line that a killed program has left half written is the last one, and is left out.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

ACKNOWLEDGED = "acknowledged"
FAILED = "failed"
SEEN = "seen"
FROM_BEGINNING = "from-beginning"
PROBLEM = "problem"
UNKNOWN_OFFSET = -1


class Place(NamedTuple):
    """Where a record stands; prints as ``topic-0@5``."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


class Content(NamedTuple):
    """What a record is: the `number`th of its key, and a checksum of its value."""

    key: str
    number: int
    checksum: int


class KeyStream(NamedTuple):
    """What one producer wrote under one key of one topic: the numbers 0, 1, 2, … in this order."""

    topic: str
    key: str


@dataclass(slots=True)
class ProducerHistory:
    """What producers were told about their records.

    Attributes:
        acknowledged: partition and offset of every acknowledged number.
        failed: the numbers of which the producer does not know whether they are stored.
        failures: how often each error came.
        problems: errors that a producer must not meet.
    """

    acknowledged: dict[KeyStream, dict[int, Place]] = field(default_factory=lambda: defaultdict(dict))
    failed: dict[KeyStream, set[int]] = field(default_factory=lambda: defaultdict(set))
    failures: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def acknowledged_count(self) -> int:
        return sum(len(places) for places in self.acknowledged.values())

    @property
    def failed_count(self) -> int:
        return sum(len(numbers) for numbers in self.failed.values())

    def add(self, lines: Iterable[str]) -> None:
        """Takes over what one producer noted."""
        for what, *words in whole_lines(lines):
            if what == ACKNOWLEDGED:
                topic, partition, key, number, offset = words
                place = Place(topic, int(partition), int(offset))
                self.acknowledged[KeyStream(topic, key)][int(number)] = place
            elif what == FAILED:
                topic, key, number, error = words
                self.failed[KeyStream(topic, key)].add(int(number))
                self.failures[error] += 1
            elif what == PROBLEM:
                self.problems.append(" ".join(words))

    def count_of(self, topics: Iterable[str]) -> int:
        """How many records of some topics were acknowledged."""
        return sum(len(places) for stream, places in self.acknowledged.items() if stream.topic in topics)

    def was_sent(self, stream: KeyStream, number: int) -> bool:
        """Whether a producer has sent this number."""
        return number in self.acknowledged.get(stream, {}) or number in self.failed.get(stream, set())


@dataclass(slots=True)
class ReaderHistory:
    """What one reader saw.

    Attributes:
        runs: per topic and partition what it saw in order; a new run begins where it had to begin again.
        problems: errors that a reader must not meet.
        is_in_order: whether each run is all that the reader was given from its beginning on.
    """

    name: str
    is_in_order: bool = True
    runs: dict[tuple[str, int], list[list[tuple[int, Content]]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def seen_count(self) -> int:
        return sum(len(run) for runs in self.runs.values() for run in runs)

    def add(self, lines: Iterable[str]) -> None:
        """Takes over what it noted."""
        for what, *words in whole_lines(lines):
            if what == SEEN:
                topic, partition, offset, key, number, checksum = words
                content = Content(key, int(number), int(checksum))
                self.runs[topic, int(partition)][-1].append((int(offset), content))
            elif what == FROM_BEGINNING:
                topic, partition = words
                self.runs.setdefault((topic, int(partition)), []).append([])
            elif what == PROBLEM:
                self.problems.append(" ".join(words))


def line(what: str, *words: object) -> str:
    """One event as it is written."""
    return "\t".join((what, *(str(word).replace("\t", " ").replace("\n", " ") for word in words))) + "\n"


def whole_lines(lines: Iterable[str]) -> Iterator[list[str]]:
    """The words of each line that was written to its end."""
    for text in lines:
        if text.endswith("\n"):
            yield text[:-1].split("\t")
