"""Offsets of sinks as Kafka Connect's REST API writes them (its SinkUtils): topic, partition, offset by name. Pure.

Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ottla_sdk import TopicPartition

TOPIC_KEY = "kafka_topic"
PARTITION_KEY = "kafka_partition"
OFFSET_KEY = "kafka_offset"


class OffsetsMalformed(ValueError):
    """A request's offsets are not of this form."""


def sink_offsets(
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]],
) -> dict[TopicPartition, int | None]:
    """Return the offset of each partition; None removes it.

    Raises:
        OffsetsMalformed: a key is missing, or its value is of no use.
    """
    return {_partition(partition): None if offset is None else _offset(offset) for partition, offset in pairs}


def _partition(partition: Mapping[str, Any]) -> TopicPartition:
    for key in (TOPIC_KEY, PARTITION_KEY):
        if partition.get(key) is None:
            raise OffsetsMalformed(
                f"A sink's partition is given by '{TOPIC_KEY}' and '{PARTITION_KEY}'; {key} is missing in "
                f"{dict(partition)}"
            )
    return TopicPartition(str(partition[TOPIC_KEY]), _number(PARTITION_KEY, partition[PARTITION_KEY]))


def _offset(offset: Mapping[str, Any]) -> int:
    if offset.get(OFFSET_KEY) is None:
        raise OffsetsMalformed(
            f"A sink's offset has the key '{OFFSET_KEY}', or is null to remove it, unlike {dict(offset)}"
        )
    return _number(OFFSET_KEY, offset[OFFSET_KEY])


def _number(key: str, value: Any) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal():
        raise OffsetsMalformed(f"{key} must be a whole number from 0, not {value!r}")
    return int(text)
