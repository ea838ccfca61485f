"""Rows that are marked as deleted become tombstones."""

from typing import Any

from ottla_sdk import DataError, SourceRecord
from ottla_sdk import schema as connect
from ottla_sdk.conformance import transform_suite
from ottla_sql import SoftDelete


def record(value: Any, *, key: Any = 1) -> SourceRecord:
    return SourceRecord(
        topic="t",
        key=key,
        value=value,
        value_schema=connect.struct_schema({"id": connect.INT32, "deleted": connect.BOOLEAN.as_optional()}),
        source_partition={},
        source_offset={},
    )


BY_FLAG = {"field": "deleted"}
GONE = record({"id": 1, "deleted": True})
KEPT = [record({"id": 1, "deleted": mark}) for mark in (False, None)]
WITHOUT_FIELD = record({"id": 1})
TOMBSTONE = record(None).replaced(value_schema=None)

TestSoftDelete = transform_suite(
    SoftDelete,
    cases=[
        (BY_FLAG, GONE, TOMBSTONE),
        *((BY_FLAG, each, each) for each in [*KEPT, WITHOUT_FIELD, TOMBSTONE]),
        ({"field": "deleted_at"}, record({"id": 1, "deleted_at": "2013-01-01"}), TOMBSTONE),
        (BY_FLAG, record({"id": 1, "deleted": True}, key=None), DataError),
        (BY_FLAG, record("text"), DataError),
    ],
    bad_settings=[({"field": None}, ["field"])],
)
