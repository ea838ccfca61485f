"""Which records are shown: those that hold a text, or for which an expression of jq is true.

The expression sees a record as `ottla consume --format record` prints it, with two differences that make expressions
short: headers are an object, and a value that is a JSON object or array is one, whatever format was asked for.
"""

import json
from collections.abc import Callable
from typing import Any

from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.records.field_codec import BadField, FieldCodec
from ottla_operations.records.record_line import TEXT, LineOptions, Record

Matches = Callable[[Record], bool]


class NotDecided(Exception):
    """An expression cannot be evaluated for a record; the message says why."""


def text_filter(text: str) -> Matches:
    """Return whether the key, the value or a header of a record holds this text."""
    wanted = text.encode()

    def matches(record: Record) -> bool:
        fields = [record.key, record.value, *(value for _, value in record.headers)]
        return any(field is not None and wanted in field for field in fields) or any(
            text in name for name, _ in record.headers
        )

    return matches


def expression_filter(expression: str, options: LineOptions) -> Matches:
    """Return whether an expression of jq is true for a record; it raises `NotDecided`.

    Args:
        expression: such as ``.value.delay > 60``. One that yields several values is true if one of these is.
        options: what keys and values are.

    Raises:
        UsageProblem: it is no expression.
        OperationError: jq is not installed.
    """
    try:
        import jq  # noqa: PLC0415 - needed for filters only
    except ImportError:
        raise OperationError("--filter needs the package jq: pip install jq") from None
    try:
        program = jq.compile(expression)
    except ValueError as error:
        raise UsageProblem(f"--filter: {_first_line(error)}") from None

    def matches(record: Record) -> bool:
        document = json.dumps(filter_document(record, options))
        try:
            return any(answer not in (None, False) for answer in program.input_text(document))
        except ValueError as error:
            raise NotDecided(_first_line(error)) from None

    return matches


def filter_document(record: Record, options: LineOptions) -> dict[str, Any]:
    """Return what an expression sees of a record."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _seen(record.key, options.key_codec),
        "value": _seen(record.value, options.value_codec),
        "headers": {name: _seen(value, TEXT) for name, value in record.headers},
    }


def _seen(data: bytes | None, codec: FieldCodec) -> Any:
    if data is None:
        return None
    try:
        seen = codec.to_json(data)
    except BadField:  # it is shown as text, too, when it is not what its format says
        seen = TEXT.to_json(data)
    if not isinstance(seen, str) or seen[:1] not in ("{", "["):
        return seen
    try:
        return json.loads(seen)
    except ValueError:
        return seen


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(":")
