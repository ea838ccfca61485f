"""The records of the offset topic, as Kafka Connect writes them (its OffsetStorageWriter and OffsetUtils). Pure.

Key: ``["connector",{partition}]``, value: ``{offset}``, both schemaless JSON; no value removes the offset. A
partition and an offset are objects of text, numbers and booleans.

Kafka Connect finds an offset by the bytes of its key, so the order of the names in a partition matters. Java's
connectors mostly use a HashMap, and so does what reads the topic for Kafka's REST API; `key_of` writes the names in
the order in which that yields them.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla_connect.state.config_records import BadRecord, decode_json_object, encode_json

HASH_MAP_CAPACITY = 16
HASH_MAP_LOAD = 0.75

Partition = Mapping[str, Any]
Offset = Mapping[str, Any]


class SourcePartition(NamedTuple):
    """A connector's partition, in a form that is equal for equal partitions."""

    connector: str
    canonical: str

    def partition(self) -> dict[str, Any]:
        """Return the partition itself."""
        partition: dict[str, Any] = json.loads(self.canonical)
        return partition


class NotStorable(ValueError):
    """A partition or an offset holds something that has no place in the offset topic."""


def source_partition(connector: str, partition: Partition) -> SourcePartition:
    """Return a partition in its canonical form.

    Raises:
        NotStorable: it is no object of text, numbers and booleans.
    """
    check_storable(partition)
    return SourcePartition(connector, json.dumps(partition, sort_keys=True, ensure_ascii=False, allow_nan=False))


def check_storable(document: Mapping[str, Any]) -> None:
    """Return if this may be a partition or an offset.

    Raises:
        NotStorable: it may not.
    """
    if not isinstance(document, Mapping):
        raise NotStorable(f"a partition or offset must be an object, not {type(document).__name__}")
    for key, value in document.items():
        if not isinstance(key, str):
            raise NotStorable(f"names in a partition or offset must be text, not {key!r}")
        if value is not None and not isinstance(value, str | bool | int | float):
            raise NotStorable(
                f"{key} in a partition or offset must be text, a number or a boolean, not {type(value).__name__}"
            )
        if isinstance(value, float) and value - value != 0:
            raise NotStorable(f"{key} in a partition or offset must be a finite number, not {value}")


def key_of(source: SourcePartition) -> bytes:
    """Return the key of a partition's record."""
    partition = source.partition()
    ordered = {name: partition[name] for name in _as_in_hash_map(partition)}
    return encode_json([source.connector, ordered])


def value_of(offset: Offset) -> bytes:
    """Return the value of an offset's record.

    Raises:
        NotStorable: it is no object of text, numbers and booleans.
    """
    check_storable(offset)
    return encode_json(dict(offset))


def decode_key(key: bytes | None) -> SourcePartition | None:
    """Return whose offset a record has; None if it belongs to no partition, as connectors in Java may say.

    Raises:
        BadRecord: the topic has no keys of this form.
    """
    try:
        document = json.loads(key) if key is not None else None
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"its key is no JSON: {error}") from None
    if not isinstance(document, list) or len(document) != 2 or not isinstance(document[0], str):
        raise BadRecord("its key is not a connector's name and a partition")
    connector, partition = document
    if partition is None:
        return None
    try:
        return source_partition(connector, partition)
    except (NotStorable, ValueError) as problem:
        raise BadRecord(f"its key is not usable: {problem}") from None


def decode_value(value: bytes) -> dict[str, Any]:
    """Return an offset.

    Raises:
        BadRecord: it is malformed.
    """
    offset = decode_json_object(value)
    try:
        check_storable(offset)
    except NotStorable as problem:
        raise BadRecord(str(problem)) from None
    return offset


def _as_in_hash_map(names: Mapping[str, object]) -> list[str]:
    """Return names in the order in which a java.util.HashMap of them yields them.

    A name's place is the lower bits of its hash; among those of one place, of which order there is none to go by, the
    names decide.
    """
    capacity = HASH_MAP_CAPACITY
    while len(names) > capacity * HASH_MAP_LOAD:
        capacity *= 2
    return sorted(names, key=lambda name: (_spread(_java_hash(name)) & (capacity - 1), name))


def _java_hash(text: str) -> int:
    """Return java.lang.String.hashCode, as an unsigned number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[index : index + 2], "big")) & 0xFFFFFFFF
    return value


def _spread(value: int) -> int:
    return value ^ (value >> 16)
