"""Offsets as they are typed or written in a file, for `ottla connect offsets set`. Pure."""

import json
from collections.abc import Sequence
from typing import Any

REMOVED = "none"


class BadOffset(ValueError):
    """What was typed or written is no offset; the message says why."""


def parse_sink_offsets(arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Read ``TOPIC:PARTITION=OFFSET`` arguments; an offset of ``none`` removes it.

    Returns:
        Pairs of partition and offset, as the REST API takes them.

    Raises:
        BadOffset: one is written otherwise.
    """
    return [_parse_sink_offset(each) for each in arguments]


def parse_offset_document(text: str) -> list[dict[str, Any]]:
    """Read JSON as `ottla connect offsets show --json` prints it.

    Raises:
        BadOffset: it is something else.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadOffset(f"it is no JSON: {error}") from None
    offsets = document.get("offsets") if isinstance(document, dict) else document
    if not isinstance(offsets, list) or not all(isinstance(each, dict) and "partition" in each for each in offsets):
        raise BadOffset('write it as {"offsets": [{"partition": {…}, "offset": {…}}]}')
    return offsets


def _parse_sink_offset(text: str) -> dict[str, Any]:
    where, equals, offset = text.rpartition("=")
    topic, colon, partition = where.rpartition(":")
    if not equals or not colon or not topic or not partition.isdecimal():
        raise BadOffset(f"{text}: write it as TOPIC:PARTITION=OFFSET")
    if offset != REMOVED and not offset.isdecimal():
        raise BadOffset(f"{text}: an offset is a number, or {REMOVED}")
    return {
        "partition": {"kafka_topic": topic, "kafka_partition": int(partition)},
        "offset": None if offset == REMOVED else {"kafka_offset": int(offset)},
    }
