"""Offsets of partitions, and the JSON in which users write them and checkpoints keep them.

The form is that of Spark's own Kafka source: ``{"flights":{"0":23,"1":-1}}``, where an offset is that of the next
record to read, -2 stands for the earliest and -1 for the latest. Checkpoints also keep the ids of topics beside
their partitions: ``{"flights":{"0":23,"topicId":"QmYh…"}}``. Documents are sorted, as Spark compares them as text.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

Partition = tuple[str, int]
Offsets = Mapping[Partition, int]
TopicIds = Mapping[str, str]
OffsetDocument = dict[str, dict[str, int | str]]

LATEST = -1
EARLIEST = -2
TOPIC_ID = "topicId"

OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
TIMESTAMPS_EXAMPLE = '{"topicA":{"0":1717200000000},"topicB":{"0":1717200000000}}'
PARTITIONS_EXAMPLE = '{"topicA":[0,1],"topicB":[2]}'


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """How far topics have been read, as a checkpoint keeps it.

    Attributes:
        offsets: of the next records.
        topic_ids: of the topics that these offsets belong to; a topic is missing where its cluster tells no ids, and
            in checkpoints of versions that kept none.
    """

    offsets: Offsets
    topic_ids: TopicIds = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Mapping[str, int | str]]) -> Self:
        """Return what a document says that `document` made, or that has offsets alone."""
        offsets: dict[Partition, int] = {}
        topic_ids: dict[str, str] = {}
        for topic, entries in document.items():
            for key, value in entries.items():
                if key == TOPIC_ID:
                    topic_ids[topic] = str(value)
                else:
                    offsets[topic, int(key)] = int(value)
        return cls(offsets, topic_ids)

    def document(self) -> OffsetDocument:
        """Return the offsets as Spark keeps them: topics and partitions in order."""
        document: OffsetDocument = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            document.setdefault(topic, {})[str(partition)] = offset
        for topic in document:
            if topic in self.topic_ids:
                document[topic][TOPIC_ID] = self.topic_ids[topic]
        return document

    def without(self, topics: Collection[str]) -> "TopicOffsets":
        """Return the offsets of all other topics."""
        return TopicOffsets(
            {each: offset for each, offset in self.offsets.items() if each[0] not in topics},
            {topic: topic_id for topic, topic_id in self.topic_ids.items() if topic not in topics},
        )


def parse_offsets(text: str) -> dict[Partition, int]:
    """Return the numbers per partition that a user wrote.

    Raises:
        ValueError: the text is something else; the message says what is expected.
    """
    return _numbers_in(text, lowest=EARLIEST, example=OFFSETS_EXAMPLE)


def parse_timestamps(text: str) -> dict[Partition, int]:
    """Return the timestamps, in milliseconds, per partition that a user wrote.

    Raises:
        ValueError: the text is something else; the message says what is expected.
    """
    return _numbers_in(text, lowest=0, example=TIMESTAMPS_EXAMPLE)


def parse_partitions(text: str) -> frozenset[Partition]:
    """Return the partitions that a user wrote as ``{"flights":[0,1]}``.

    Raises:
        ValueError: the text is something else; the message says what is expected.
    """
    expected = f"expected JSON such as {PARTITIONS_EXAMPLE}, got {text!r}"
    document = _object_in(text, expected)
    partitions = []
    for topic, numbers in document.items():
        if not isinstance(numbers, list) or not all(_is_number(number) and number >= 0 for number in numbers):
            raise ValueError(expected)
        partitions += [(topic, number) for number in numbers]
    if not partitions:
        raise ValueError(expected)
    return frozenset(partitions)


def named(partitions: Iterable[Partition]) -> str:
    """Return partitions for a message, such as ``flights-0, flights-1``; many are cut short."""
    names = [f"{topic}-{partition}" for topic, partition in sorted(partitions)]
    shown = ", ".join(names[:NAMED_MAX])
    return shown if len(names) <= NAMED_MAX else f"{shown} and {len(names) - NAMED_MAX} more"


NAMED_MAX = 10


def _numbers_in(text: str, *, lowest: int, example: str) -> dict[Partition, int]:
    expected = f"expected JSON such as {example}, got {text!r}"
    numbers: dict[Partition, int] = {}
    for topic, partitions in _object_in(text, expected).items():
        if not isinstance(partitions, dict):
            raise ValueError(expected)
        for partition, number in partitions.items():
            if not partition.isdecimal() or not _is_number(number) or number < lowest:
                raise ValueError(expected)
            numbers[topic, int(partition)] = number
    if not numbers:
        raise ValueError(expected)
    return numbers


def _object_in(text: str, expected: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        raise ValueError(expected) from None
    if not isinstance(document, dict):
        raise ValueError(expected)
    return document


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
