"""Kafka's own tools read the records of groups as we write them, every type of them."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ottla_core.wire.records import Record, encode_batch
from ottla_group_coordinator.records import encode_key, encode_value
from tests.compat.java.kafka_tools import DUMP_LOG_SEGMENTS, run_tool
from tests.support.groups.group_records import EXAMPLES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

LINE = re.compile(r"^\| offset: (\d+) .* key: (\{.*\}) payload: (.*)$", re.MULTILINE)
TOMBSTONE = "<DELETE>"
NOT_IN_THE_VERSION = {
    ("OffsetCommitValue", "4"): {"expireTimestamp"},
    ("OffsetCommitValue", "1"): {"leaderEpoch", "topicId"},
}
ORDERS_0 = {"topic": "orders", "partitions": [0]}


def test_the_offsets_decoder_reads_every_type_of_record(tmp_path: Path) -> None:
    segment = tmp_path / "__consumer_offsets-0" / "00000000000000000000.log"
    segment.parent.mkdir()
    keys_and_values = [*EXAMPLES, *((key, None) for key, _ in EXAMPLES)]
    segment.write_bytes(
        encode_batch(
            [
                Record(offset, 0, encode_key(key), None if value is None else encode_value(value))
                for offset, (key, value) in enumerate(keys_and_values)
            ]
        )
    )
    output = run_tool(DUMP_LOG_SEGMENTS, "--deep-iteration", "--offsets-decoder", "--files", str(segment))
    lines = LINE.findall(output)
    assert [int(offset) for offset, _, _ in lines] == list(range(len(keys_and_values))), output
    for (key, value), (_, key_text, value_text) in zip(keys_and_values, lines, strict=True):
        assert json.loads(key_text)["data"] == as_kafka_writes(key)
        if value is None:
            assert value_text == TOMBSTONE
        else:
            told = json.loads(value_text)
            left_out = NOT_IN_THE_VERSION.get((type(value).__name__, told["version"]), set())
            assert told["data"] == {
                name: item for name, item in as_kafka_writes(value).items() if name not in left_out
            }


def as_kafka_writes(item: Any) -> Any:
    """What Kafka's JSON has for a dataclass or for a value in one."""
    if is_dataclass(item):
        return {camel_case(f.name): as_kafka_writes_field(f.name, getattr(item, f.name)) for f in fields(item)}
    if isinstance(item, tuple):
        return [as_kafka_writes(inner) for inner in item]
    if isinstance(item, UUID):
        return urlsafe_b64encode(item.bytes).decode().rstrip("=")
    return b64encode(item).decode() if isinstance(item, bytes) else item


def as_kafka_writes_field(name: str, value: Any) -> Any:
    """A field's JSON; consumers' own bytes in a classic group are read further."""
    consumers_topic: dict[str, dict[str, Any]] = {
        "subscription": {"topics": ["orders"]},
        "assignment": {"assignedPartitions": [ORDERS_0]},
    }
    return {**consumers_topic[name], "userData": ""} if name in consumers_topic else as_kafka_writes(value)


def camel_case(name: str) -> str:
    """Kafka's name of a field."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
