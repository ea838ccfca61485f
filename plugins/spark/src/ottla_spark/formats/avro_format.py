"""Avro to columns and back: fastavro, in Python, in Arrow batches.

Only the bytes go to Python and only the columns come back; the rest of a frame stays in Java. A record that does not
decode comes back as what is wrong with it, and Spark's side (`decoding.py`) decides what becomes of it.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from fastavro import schemaless_reader, schemaless_writer
from pyspark.sql import Column, types
from pyspark.sql.pandas.functions import arrow_udf

from ottla_spark.formats.avro_types import avro_type, wire_schema
from ottla_spark.formats.errors import UnusableFormat
from ottla_spark.formats.registry import FRAME_BYTES, MAGIC, UnknownSchema, registry_at

CONTENT = "content"
PROBLEM = "problem"
READERS_MAX = 1000
"""How many writers' schemas a Python worker keeps in their parsed form."""

Records = Iterator[pa.Array]
Reader = Callable[[bytes], Any]


class AvroPart:
    """Keys or values that are Avro.

    Args:
        schema: what they are read as; without a registry, also what they were written with.
        registry_url: has the schemas they were written with; empty: they are not framed.
    """

    def __init__(self, schema: str, registry_url: str) -> None:
        self.content_type: types.DataType = avro_type(schema).spark
        made = types.StructType(
            [types.StructField(CONTENT, self.content_type), types.StructField(PROBLEM, types.StringType())]
        )
        # Otherwise Spark copies the decoding into every filter on one of the columns.
        decode = arrow_udf(_decoder(schema, registry_url), made)  # type: ignore[call-overload]
        self._decode = decode.asNondeterministic()

    def parsed(self, raw: Column) -> Column:
        """Return a struct of the content, and of what is wrong."""
        parsed: Column = self._decode(raw)
        return parsed

    def is_bad(self, raw: Column, parsed: Column) -> Column:
        """Return whether a record did not decode; a missing one (null) is not bad."""
        return parsed.getField(PROBLEM).isNotNull()

    def problem(self, raw: Column, parsed: Column) -> Column:
        """Return what is wrong with a bad one."""
        return parsed.getField(PROBLEM)

    def content(self, parsed: Column) -> Column:
        """Return the content."""
        return parsed.getField(CONTENT)


def as_avro(content: Column, schema: str, *, number: int | None) -> Column:
    """Return Avro bytes; null for null.

    Args:
        content: of the type the schema stands for; fields that have defaults may be missing.
        schema: what it is written by.
        number: the schema's number in the registry, for the frame; None: without a frame.
    """
    encode = arrow_udf(_encoder(schema, number), types.BinaryType())  # type: ignore[call-overload]
    encoded: Column = encode.asNondeterministic()(content)
    return encoded


def _decoder(schema: str, registry_url: str) -> Callable[[Records], Records]:
    def decode(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        reading = _Reading(schema, registry_url)
        for batch in batches:
            yield reading.decoded(batch)

    return decode


def _encoder(schema: str, number: int | None) -> Callable[[Records], Records]:
    def encode(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        wanted = avro_type(schema)
        wire = wire_schema(wanted)
        frame = b"" if number is None else bytes((MAGIC,)) + number.to_bytes(4, "big")
        for batch in batches:
            timed = _cast(batch, _in_units_of(batch.type, wanted.arrow))
            contents = _cast(timed, _plain(timed.type)).to_pylist(maps_as_pydicts="strict")
            yield pa.array([_written(each, wire, frame) for each in contents], pa.binary())

    return encode


class _Reading:
    """Decodes batches of records, in a Python worker.

    Args:
        schema: what they are read as.
        registry_url: has what they were written with.
    """

    def __init__(self, schema: str, registry_url: str) -> None:
        self._schema = schema
        self._registry_url = registry_url
        self._type = avro_type(schema).arrow
        self._wanted = _in_microseconds(self._type)

    def decoded(self, batch: pa.Array) -> pa.Array:
        """Return the content and the problem of each record."""
        contents: list[Any] = []
        problems: list[str | None] = []
        readers: dict[int, Reader | str] = {}
        for data in batch.to_pylist():
            content = problem = None
            if data is not None:
                try:
                    content = self._read(data, readers)
                except _Unreadable as error:
                    problem = str(error)
            contents.append(content)
            problems.append(problem)
        columns = self._as_arrow(contents, problems)
        return pa.StructArray.from_arrays([columns, pa.array(problems, pa.string())], [CONTENT, PROBLEM])

    def _read(self, data: bytes, readers: dict[int, Reader | str]) -> Any:
        if not self._registry_url:
            return _reader(self._schema, self._schema)(data)
        if len(data) < FRAME_BYTES or data[0] != MAGIC:
            raise _Unreadable(f"begins with {data[:FRAME_BYTES].hex()}, not with 00 and a schema's number")
        number = int.from_bytes(data[1:FRAME_BYTES], "big")
        if number not in readers:
            readers[number] = self._reader_of(number)
        reader = readers[number]
        if isinstance(reader, str):
            raise _Unreadable(reader)
        return reader(data[FRAME_BYTES:])

    def _reader_of(self, number: int) -> Reader | str:
        """Return what reads the records of a schema, or why nothing does."""
        try:
            return _reader(registry_at(self._registry_url).schema(number), self._schema)
        except UnknownSchema as error:
            return f"was written with the schema {number}, which is not known: {error}"
        except UnusableFormat as error:
            return f"was written with the schema {number}, which cannot be read: {error}"

    def _as_arrow(self, contents: list[Any], problems: list[str | None]) -> pa.Array:
        try:
            return _array(contents, self._type, self._wanted)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            pass  # One of them is out of range: they are tried one by one.
        for index, content in enumerate(contents):
            try:
                _array([content], self._type, self._wanted)
            except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
                contents[index] = None
                problems[index] = f"is out of a type's range: {error}"
        return _array(contents, self._type, self._wanted)


class _Unreadable(Exception):
    """A record does not decode."""


@lru_cache(maxsize=READERS_MAX)
def _reader(writer: str, reader: str) -> Reader:
    """Return what reads records that were written by one schema as those of another."""
    written = wire_schema(avro_type(writer))
    wanted = None if writer == reader else wire_schema(avro_type(reader))

    def read(data: bytes) -> Any:
        stream = BytesIO(data)
        try:
            content = schemaless_reader(stream, written, wanted)
        except Exception as error:  # noqa: BLE001 - whatever strange bytes make of fastavro is a record's fault
            said = f"{type(error).__name__}: {error}" if str(error) else "it ends too early"
            raise _Unreadable(f"does not decode as Avro: {said}") from None
        if left := len(data) - stream.tell():
            raise _Unreadable(
                f"does not decode as Avro: {left} of its bytes are left over; was it written with this schema?"
            )
        return content

    return read


def _written(content: Any, wire: Any, frame: bytes) -> bytes | None:
    if content is None:
        return None
    stream = BytesIO()
    stream.write(frame)
    try:
        schemaless_writer(stream, wire, content)
    except Exception as error:  # noqa: BLE001 - fastavro has no type for what does not fit
        raise UnusableFormat(f"a row does not fit its Avro schema: {error}; it is {content!r:.300}") from None
    return stream.getvalue()


def _array(contents: list[Any], own: pa.DataType, wanted: pa.DataType) -> pa.Array:
    return _cast(pa.array(contents, own), wanted)


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    return array if array.type == wanted else pc.cast(array, options=pc.CastOptions(wanted, allow_time_truncate=True))


def _in_microseconds(arrow: pa.DataType) -> pa.DataType:
    """Return a type with all times in microseconds, as Spark has them."""
    return _mapped(arrow, lambda leaf: pa.timestamp("us", leaf.tz) if pa.types.is_timestamp(leaf) else leaf)


def _plain(arrow: pa.DataType) -> pa.DataType:
    """Return a type with numbers instead of dates and times, as fastavro takes them here."""

    def number(leaf: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(leaf):
            return pa.int64()
        return pa.int32() if pa.types.is_date(leaf) else leaf

    return _mapped(arrow, number)


def _mapped(arrow: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with others at its leaves."""
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(each.name, _mapped(each.type, leaf)) for each in arrow])
    if pa.types.is_list(arrow):
        return pa.list_(_mapped(arrow.value_type, leaf))
    if pa.types.is_map(arrow):
        return pa.map_(arrow.key_type, _mapped(arrow.item_type, leaf))
    return leaf(arrow)


def _in_units_of(arrow: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return what a type is to be cast to: what a schema wants, of the fields that there are."""
    if pa.types.is_struct(arrow):
        wanted_types = {each.name: each.type for each in wanted}
        return pa.struct([pa.field(each.name, _in_units_of(each.type, wanted_types[each.name])) for each in arrow])
    if pa.types.is_list(arrow):
        return pa.list_(_in_units_of(arrow.value_type, wanted.value_type))
    if pa.types.is_map(arrow):
        return pa.map_(arrow.key_type, _in_units_of(arrow.item_type, wanted.item_type))
    return wanted
