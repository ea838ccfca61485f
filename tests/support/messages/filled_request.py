"""Any kio request class filled with values that make sense for one topic, chosen by the fields' names and types.

Used to ask every version of every API without writing each by hand: topic fields get the topic's name or id, lists
get one element, numbers get what `NUMBERS` says for their name, and defaults of the schema are kept elsewhere.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.static.primitive import i32Timedelta

from tests.support.messages.record_batches import batch_of

TEXT = "ottla-test"
TIMEOUT = i32Timedelta.parse(timedelta(seconds=5))
TOPIC_NAME_FIELDS = frozenset({"name", "topic", "topic_name", "resource_name"})
# Lists that are better left empty: explicit replica assignments, fetch sessions, keys to describe.
EMPTY_LISTS = frozenset({"assignments", "forgotten_topics_data", "configuration_keys", "resource_types", "configs"})
NUMBERS: Mapping[str, int] = {
    "acks": -1,
    "replica_id": -1,
    "timestamp": -1,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 5,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "max_num_offsets": 1,
    "current_leader_epoch": -1,
    "resource_type": 2,
    "endpoint_type": 1,
    "session_epoch": -1,
    "last_fetched_epoch": -1,
    "log_start_offset": -1,
    "producer_id": -1,
    "producer_epoch": -1,
    "response_partition_limit": 100,
}
NULL_FIELDS = frozenset({"transactional_id", "cursor", "cluster_id", "rack_id", "replica_directory_id"})


def filled_request(request_type: type[Any], *, topic: str, topic_id: UUID) -> Any:
    """A request of this class about partition 0 of the topic."""
    return _Filler(topic, topic_id).entity(request_type)


class _Filler:
    def __init__(self, topic: str, topic_id: UUID):
        self._topic = topic
        self._topic_id = topic_id

    def entity(self, entity_type: type[Any]) -> Any:
        hints = typing.get_type_hints(entity_type)
        names_id_and_name = {"topic_id", "name"} <= hints.keys()
        values = {
            field.name: self._value(field, hints[field.name], names_id_and_name)
            for field in dataclasses.fields(entity_type)
        }
        return entity_type(**values)

    def _value(self, field: Any, hint: Any, names_id_and_name: bool) -> Any:
        inner, is_nullable = _without_none(hint)
        if field.name in NULL_FIELDS and is_nullable:
            return None
        if field.name == "topic_id":
            return None if names_id_and_name else self._topic_id
        if field.name in NUMBERS and inner not in (bytes, str):
            return NUMBERS[field.name]
        return self._by_type(field, inner)

    def _by_type(self, field: Any, inner: Any) -> Any:
        if typing.get_origin(inner) is tuple:
            return () if field.name in EMPTY_LISTS else (self._element(field, typing.get_args(inner)[0]),)
        if dataclasses.is_dataclass(inner):
            return self.entity(typing.cast("type[Any]", inner))
        base = _base_type(inner)
        if issubclass(base, timedelta):
            return TIMEOUT
        if issubclass(base, bool):
            return False
        if issubclass(base, int):
            return 0
        if issubclass(base, float):
            return 1.0
        if issubclass(base, UUID):
            return None
        if issubclass(base, str):
            return self._topic if field.name in TOPIC_NAME_FIELDS else TEXT
        return batch_of([b"filled"], key=b"k").encode()

    def _element(self, field: Any, inner: Any) -> Any:
        if dataclasses.is_dataclass(inner):
            return self.entity(typing.cast("type[Any]", inner))
        base = _base_type(inner)
        if issubclass(base, str):
            return self._topic
        return 0 if issubclass(base, int) else self._by_type(field, inner)


def _without_none(hint: Any) -> tuple[Any, bool]:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        arguments = [argument for argument in typing.get_args(hint) if argument is not type(None)]
        return arguments[0], True
    return hint, False


def _base_type(hint: Any) -> type[Any]:
    while not isinstance(hint, type):
        hint = hint.__supertype__
    return hint
