"""MaskField: what fields hold, replaced by nothing or by a fixed text or number. Pure."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from ottla_sdk import ConnectRecord, DataError, Importance, Schema, SchemaAndValue, Type, setting
from ottla_sdk.config import CommaSeparated
from ottla_sdk.logical_types import EPOCH
from ottla_sdk.schema import INTEGER_BITS
from ottla_standard.transforms.part import (
    NullConfig,
    Part,
    PartTransform,
    field_value,
    java_names,
    require_map,
    require_struct,
)

_PURPOSE = "masking fields"


class MaskFieldConfig(NullConfig):
    """Settings of MaskField."""

    fields: CommaSeparated = setting("fields", doc="The fields.", importance=Importance.HIGH, min_length=1)
    replacement: str | None = setting(
        "replacement",
        None,
        doc="What stands in place of text and numbers, instead of an empty text and 0.",
        importance=Importance.LOW,
        min_length=1,
    )


class MaskField(PartTransform[MaskFieldConfig]):
    """Replaces what fields hold by the empty value of their type, or by a fixed text or number."""

    config_model = MaskFieldConfig

    def change(self, record: ConnectRecord, schema: Schema | None, value: Any) -> SchemaAndValue:
        """Mask; null fields stay null."""
        fields = self.config.fields
        if schema is None:
            found = require_map(value, _PURPOSE)
            return SchemaAndValue(None, found | {name: self._masked(None, found.get(name)) for name in fields})
        struct = require_struct(schema, value, _PURPOSE)
        made = {}
        for each in schema.fields:
            found = field_value(struct, each, self.config.replace_null_with_default)
            made[each.name] = self._masked(each.schema, found) if each.name in fields else found
        return SchemaAndValue(schema, made)

    def _masked(self, schema: Schema | None, value: Any) -> Any:
        if value is None:
            return None
        if self.config.replacement is not None:
            return _replaced(schema, value, self.config.replacement)
        if isinstance(value, dict) and schema is not None and schema.type is Type.STRUCT:
            raise DataError("a struct cannot be masked")
        for kind, make in _EMPTY:
            if isinstance(value, kind):
                return make()
        raise DataError(f"a value of the type {type(value).__name__} cannot be masked")


_EMPTY: tuple[tuple[type, Callable[[], Any]], ...] = (
    (bool, bool),
    (int, int),
    (float, float),
    (Decimal, Decimal),
    (str, str),
    (dt.datetime, lambda: EPOCH),  # before date: a datetime is one
    (dt.date, EPOCH.date),
    (dt.time, dt.time),
    (list, list),
    (dict, dict),
)


def _replaced(schema: Schema | None, value: Any, replacement: str) -> Any:
    if isinstance(value, str):
        return replacement
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise DataError(f"a value of the type {type(value).__name__} cannot be masked with a replacement")
    try:
        number = Decimal(replacement)
    except InvalidOperation:
        raise DataError(f"the replacement {replacement!r} is no number, and a number is to be masked") from None
    if isinstance(value, Decimal):
        return number
    if isinstance(value, float):
        return float(number)
    if not number.is_finite():
        raise DataError(f"the replacement {replacement!r} is no integer, and an integer is to be masked")
    bits = INTEGER_BITS.get(schema.type, 64) if schema is not None else 64
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise DataError(f"the replacement {replacement} is out of the range of INT{bits}")
    return int(number)


class MaskFieldKey(MaskField):
    """Masks fields of the key."""

    part = Part.KEY
    aliases = java_names("MaskField$Key")


class MaskFieldValue(MaskField):
    """Masks fields of the value."""

    part = Part.VALUE
    aliases = java_names("MaskField$Value")
