"""Offsets of a connector, as rows, and as a text by which changed ones are known. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any


def offset_rows(offsets: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the partitions, in order, with their offsets; as JSON, unless they are a sink's."""
    ordered = sorted(offsets, key=lambda each: _place(each["partition"]))
    return [(_partition_text(each["partition"]), _offset_text(each["offset"])) for each in ordered]


def offsets_mark(offsets: Sequence[Mapping[str, Any]]) -> str:
    """Return a text that other offsets do not have."""
    ordered = sorted(json.dumps(each, sort_keys=True) for each in offsets)
    return hashlib.sha256("\n".join(ordered).encode()).hexdigest()


def _place(partition: Mapping[str, Any]) -> list[tuple[str, float, str]]:
    """Return by what partitions are ordered: 2 before 10."""
    return [
        (key, float(value), "") if isinstance(value, int | float) else (key, 0.0, str(value))
        for key, value in sorted(partition.items(), reverse=True)
    ]


def _partition_text(partition: Mapping[str, Any]) -> str:
    if set(partition) == {"kafka_topic", "kafka_partition"}:
        return f"{partition['kafka_topic']} {partition['kafka_partition']}"
    return json.dumps(partition, ensure_ascii=False)


def _offset_text(offset: Mapping[str, Any] | None) -> str:
    if offset is not None and set(offset) == {"kafka_offset"}:
        return (
            f"{offset['kafka_offset']:,}" if isinstance(offset["kafka_offset"], int) else str(offset["kafka_offset"])
        )
    return json.dumps(offset, ensure_ascii=False)
