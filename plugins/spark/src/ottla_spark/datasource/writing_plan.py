"""What a query is to write, from its options and columns. Pure.

The rules are those of Spark's own Kafka sink (`KafkaWriter.validateQuery`): a column `value`, and perhaps `key`,
`topic`, `partition` and `headers`, each of its type; other columns are ignored; the option `topic` wins over the
column.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    VarcharType,
)

from ottla_sdk import InvalidConfig, Problem
from ottla_spark.datasource.client_options import Settings, librdkafka_settings

TOPIC = "topic"
VALUE = "value"
KEY = "key"
PARTITION = "partition"
HEADERS = "headers"

LEGAL_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """What every task of a query needs to know.

    Attributes:
        settings: librdkafka's.
        topic: where all records go; None where the column says it.
        columns: those of `value`, `key`, `partition`, `headers` that the rows have.
    """

    settings: Settings
    topic: str | None
    columns: frozenset[str]


def write_plan(options: Mapping[str, str], schema: StructType) -> WritePlan:
    """Return the plan.

    Args:
        options: of the query, in whatever case.
        schema: its columns.

    Raises:
        InvalidConfig: options or columns are wrong; all that is wrong is in it.
    """
    lowered = {key.lower(): value for key, value in options.items()}
    topic = lowered[TOPIC].strip() if TOPIC in lowered else None
    problems = [*_topic_problems(topic, schema), *_column_problems(schema, topic)]
    try:
        settings = librdkafka_settings(options, kind="producer")
    except InvalidConfig as error:
        raise InvalidConfig([*problems, *error.problems]) from None
    if problems:
        raise InvalidConfig(problems)
    columns = frozenset(_COLUMNS) & frozenset(schema.names) - {TOPIC}
    return WritePlan(settings=settings, topic=topic, columns=columns)


def _topic_problems(topic: str | None, schema: StructType) -> list[Problem]:
    if topic is None and TOPIC not in schema.names:
        return [Problem(TOPIC, "where to write to is missing: write the option 'topic', or select a column 'topic'")]
    if topic is not None and not LEGAL_TOPIC.fullmatch(topic):
        return [
            Problem(TOPIC, f"{topic!r} is no name of a topic: it takes 1 to 249 letters, digits, '.', '_' and '-'")
        ]
    return []


def _column_problems(schema: StructType, topic: str | None) -> list[Problem]:
    problems = []
    if VALUE not in schema.names:
        found = ", ".join(schema.names) or "none"
        problems.append(Problem(VALUE, f"the column is required, and the query has not got it; it has: {found}"))
    for field in schema.fields:
        if field.name not in _COLUMNS or (field.name == TOPIC and topic is not None):
            continue
        fits, wanted = _COLUMNS[field.name]
        if schema.names.count(field.name) > 1:
            problems.append(Problem(field.name, "the query has several columns of this name"))
        elif not fits(field.dataType):
            found = field.dataType.simpleString()
            problems.append(Problem(field.name, f"the column is of type {found}, and must be {wanted}"))
    return problems


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType | CharType | VarcharType)


def _is_text_or_bytes(kind: DataType) -> bool:
    return _is_text(kind) or isinstance(kind, BinaryType)


def _is_partition(kind: DataType) -> bool:
    return isinstance(kind, IntegerType)


def _is_headers(kind: DataType) -> bool:
    if not (isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType)):
        return False
    header = kind.elementType
    return [name.lower() for name in header.names] == ["key", "value"] and (
        _is_text(header.fields[0].dataType) and isinstance(header.fields[1].dataType, BinaryType)
    )


_COLUMNS: Mapping[str, tuple[Callable[[DataType], bool], str]] = {
    VALUE: (_is_text_or_bytes, "string or binary; encode it, for instance with to_json(struct(*)), or cast it"),
    KEY: (_is_text_or_bytes, "string or binary; cast it"),
    TOPIC: (_is_text, "string"),
    PARTITION: (_is_partition, "int; cast it"),
    HEADERS: (_is_headers, "array<struct<key:string,value:binary>>"),
}
