"""Which columns a table of records has: what every record has, and the fields of values that are JSON. Pure.

DuckDB tells the structure that all values have together (`json_group_structure`): names of types, in objects and
arrays as the values are nested. Here it becomes the structure by which the values are taken apart, and the list of
columns that come out of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

OWN_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
COLUMNS_MAX: Final = 200
NESTED_FIELDS_MAX: Final = 100
"""A field with more below it, or deeper, stays JSON."""
NESTED_DEPTH_MAX: Final = 8
OWN_PREFIX: Final = "value_"
ANY: Final = "JSON"
WHOLE_NUMBERS: Final = ("UBIGINT", "HUGEINT", "BIGINT")
NUMBERS: Final = (*WHOLE_NUMBERS, "DOUBLE")


@dataclass(frozen=True, slots=True)
class FieldColumns:
    """How values are taken apart.

    Attributes:
        structure: types by the names of fields, as `json_transform` takes it.
        columns: names of columns with the names of their fields.
        left_out: fields that have no column, since there are too many, or another differs by upper case alone.
    """

    structure: Mapping[str, Any]
    columns: Sequence[tuple[str, str]]
    left_out: int


def field_columns(structure: object, *, whole_number: str = "BIGINT") -> FieldColumns:
    """Return how values of a structure are taken apart.

    Args:
        structure: of all values together; None, or no object, for values without fields.
        whole_number: the type of whole numbers; HUGEINT where some are too large for 64 bits.
    """
    fields = structure if isinstance(structure, dict) else {}
    taken = set(OWN_COLUMNS)
    names: set[str] = set()
    types: dict[str, Any] = {}
    columns: list[tuple[str, str]] = []
    for field, kind in fields.items():
        if len(columns) == COLUMNS_MAX:
            break
        if not field or "\0" in field or field.casefold() in names:
            continue
        column = field
        while column.casefold() in taken:
            column = OWN_PREFIX + column
        names.add(field.casefold())
        taken.add(column.casefold())
        types[field] = _type(kind, whole_number)
        columns.append((column, field))
    return FieldColumns(types, columns, len(fields) - len(columns))


def merged(one: object, other: object) -> object:
    """Return the structure of values that have one structure or the other; None stands for no values."""
    if one is None or one in ("NULL", other):
        return other
    if other is None or other == "NULL":
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: merged(one.get(name), other.get(name)) for name in {**one, **other}}
    if isinstance(one, list) and isinstance(other, list):
        return [merged(*one, *other)] if one and other else one or other
    if one in NUMBERS and other in NUMBERS:
        return "DOUBLE" if "DOUBLE" in (one, other) else "HUGEINT"
    return ANY


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def _type(kind: object, whole_number: str) -> Any:
    return _mapped(kind, whole_number) if _fields(kind, 0) <= NESTED_FIELDS_MAX else ANY


def _fields(kind: object, depth: int) -> int:
    """Return how many fields are in a structure; too many for one that is too deep, or has names that clash."""
    if depth > NESTED_DEPTH_MAX:
        return NESTED_FIELDS_MAX + 1
    if isinstance(kind, list):
        return sum(_fields(each, depth + 1) for each in kind)
    if not isinstance(kind, dict):
        return 1
    if not kind or "" in kind or len({each.casefold() for each in kind}) < len(kind):
        return NESTED_FIELDS_MAX + 1
    return sum(_fields(each, depth + 1) for each in kind.values())


def _mapped(kind: object, whole_number: str) -> Any:
    if isinstance(kind, dict):
        return {name: _mapped(each, whole_number) for name, each in kind.items()}
    if isinstance(kind, list):
        return [_mapped(each, whole_number) for each in kind] or [ANY]
    if kind in WHOLE_NUMBERS:
        return whole_number
    return ANY if kind == "NULL" else kind
