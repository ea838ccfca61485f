"""Random Kafka messages of any schema that kio knows, for fuzzing."""

import random
import types
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from kio.schema.errors import ErrorCode

ITEMS_MAX = 3
INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}


def random_message(source: random.Random, schema: type[Any]) -> Any:
    """Return a message of a schema with random content; unusual numbers are likelier than chance would have them."""
    hints = get_type_hints(schema)
    return schema(
        **{f.name: _random_value(source, hints[f.name], f.metadata.get("kafka_type", "")) for f in fields(schema)}
    )


def _random_value(source: random.Random, hint: Any, kafka_type: str) -> Any:
    if get_origin(hint) in {Union, types.UnionType}:
        if source.random() < 0.3 and "uuid" not in kafka_type:
            return None
        (hint,) = (argument for argument in get_args(hint) if argument is not types.NoneType)
    if get_origin(hint) is tuple:
        return tuple(
            _random_value(source, get_args(hint)[0], kafka_type) for _ in range(source.randrange(ITEMS_MAX + 1))
        )
    if isinstance(hint, type) and is_dataclass(hint):
        return random_message(source, hint)
    return _random_primitive(source, kafka_type)


def _random_primitive(source: random.Random, kafka_type: str) -> Any:
    match kafka_type:
        case "error_code":
            return source.choice(list(ErrorCode))
        case "bool":
            return source.random() < 0.5
        case "string":
            return "".join(source.choices("abc._-é", k=source.randrange(12)))
        case "bytes" | "records":
            return source.randbytes(source.randrange(80))
        case "uuid":
            return UUID(int=source.getrandbits(128))
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=source.choice([0, 1, 30_000, -1, 2**31 - 1]))
        case "datetime_i64":
            return datetime.fromtimestamp(source.randrange(2**31), UTC)
        case "float64":
            return source.random()
    bits = INTEGER_BITS[kafka_type]
    lowest, highest = (0, 2**bits - 1) if kafka_type[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return source.choice([0, 1, -1 if lowest else 0, lowest, highest, source.randint(lowest, highest)])
