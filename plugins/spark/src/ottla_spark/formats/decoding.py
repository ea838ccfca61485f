"""Records to columns: a frame of the data source becomes one with the fields of keys and values.

The work is expressions of Spark: a part is parsed once, into a struct that says whether the record fits; then bad
records are refused, emptied or left out; then the fields become columns. It is lazy, for batches and streams. Since
Spark leaves out what nobody asks for, a query that uses no column of the value (`count(*)`) does not look at values
either, and "fail" finds nothing to fail for.
"""

from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructType

from ottla_spark.formats.avro_format import AvroPart
from ottla_spark.formats.errors import UnusableFormat
from ottla_spark.formats.format import AVRO, BYTES, DROP, FAIL, JSON, Format, check_columns
from ottla_spark.formats.json_format import JsonPart, columns_of
from ottla_spark.formats.plain_format import BytesPart, StringPart

SOURCE_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
HEADERS = "headers"
_PARSED = {"key": "__key", "value": "__value"}


class Part(Protocol):
    """How a key or a value becomes a column.

    Attributes:
        content_type: what comes out: a struct of columns, or a plain type.
    """

    content_type: DataType

    def parsed(self, raw: Column) -> Column:
        """Return what the bytes are parsed to."""

    def is_bad(self, raw: Column, parsed: Column) -> Column:
        """Return whether a record does not fit; never null."""

    def problem(self, raw: Column, parsed: Column) -> Column:
        """Return what is wrong with a bad record, from "the value …" on."""

    def content(self, parsed: Column) -> Column:
        """Return what comes out, of what was parsed."""


def decoded(frame: DataFrame, *, key: Format, value: Format) -> DataFrame:
    """Return the records of a frame of the data source with their fields as columns.

    A record whose value is missing (a tombstone) has nulls in all of the value's columns. So has one whose value is
    the JSON `null`.

    Args:
        frame: with the data source's columns; a batch or a stream.
        key: becomes `_key`: a struct if it has fields, else of a plain type.
        value: its fields become columns; what has no fields becomes the one column `value`.

    Returns:
        The value's columns, `_key`, `_topic`, `_partition`, `_offset`, `_timestamp`, and `_headers` if there are any.

    Raises:
        UnusableFormat: a schema is missing (see `inferred`), cannot be parsed, or has columns of reserved names; or
            the frame is none of the data source.
    """
    if missing := [each for each in SOURCE_COLUMNS if each not in frame.columns]:
        raise UnusableFormat(f'the frame lacks the columns {", ".join(missing)}: it is none of format("ottla")')
    parts = {"key": (key, _part(frame, key, "key")), "value": (value, _part(frame, value, "value"))}
    columns = parts["value"][1].content_type
    if isinstance(columns, StructType):
        case_sensitive = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
        check_columns(columns.names, where="the schema of the value", case_sensitive=case_sensitive)
    headers = [HEADERS] if HEADERS in frame.columns else []
    parsed = frame.select(
        *SOURCE_COLUMNS,
        *headers,
        *(part.parsed(sf.col(name)).alias(_PARSED[name]) for name, (_, part) in parts.items()),
    )
    for name, (asked, part) in parts.items():
        if asked.bad_records == DROP:
            parsed = parsed.where(~part.is_bad(sf.col(name), sf.col(_PARSED[name])))
    checked = parsed.select(
        *(_checked(name, asked, part).alias(name) for name, (asked, part) in parts.items()),
        *(sf.col(each).alias(f"_{each}") for each in ("topic", "partition", "offset", "timestamp", *headers)),
    )
    content = sf.col("value")
    values = [content.getField(each).alias(each) for each in columns.names] if isinstance(columns, StructType) else []
    beside = [each for each in checked.columns if each.startswith("_")]
    return checked.select(*(values or [content]), sf.col("key").alias("_key"), *beside)


def _part(frame: DataFrame, asked: Format, name: str) -> Part:
    if asked.needs_schema:
        raise UnusableFormat(f"the {name}'s format {asked.name} has no schema yet: give one, or have one inferred")
    if asked.name == JSON:
        return JsonPart(columns_of(frame.sparkSession, asked.schema))
    if asked.name == AVRO:
        return AvroPart(asked.schema, asked.registry_url)
    return BytesPart() if asked.name == BYTES else StringPart()


def _checked(name: str, asked: Format, part: Part) -> Column:
    raw, parsed = sf.col(name), sf.col(_PARSED[name])
    content = part.content(parsed)
    if isinstance(part, BytesPart) or asked.bad_records == DROP:
        return content
    bad = part.is_bad(raw, parsed)
    if asked.bad_records != FAIL:
        return sf.when(~bad, content)
    position = [
        text
        for each in ("topic", "partition", "offset")
        for text in (sf.lit(f"{each} "), sf.col(each).cast("string"), sf.lit(", "))
    ]
    message = sf.concat(*position[:-1], sf.lit(f": the {name} "), part.problem(raw, parsed))
    return sf.when(bad, sf.raise_error(message)).otherwise(content)
