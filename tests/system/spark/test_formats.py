"""Formats on Spark: records become columns and columns records, batches and streams; what does not fit is named."""

import base64
import datetime as dt
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.errors import PySparkException
from pyspark.sql.functions import window

from ottla_spark.datasource.errors import MissingTopic
from ottla_spark.formats.decoding import decoded
from ottla_spark.formats.encoding import encoded
from ottla_spark.formats.errors import UnusableFormat
from ottla_spark.formats.format import Format
from ottla_spark.formats.inference import inferred
from tests.conftest import TopicFactory
from tests.support.servers.schema_registry_server import SchemaRegistryServer, running_schema_registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key string, value binary>>"
)
WRITTEN = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
BYTES = Format(name="bytes")
STRING = Format(name="string")
JSON = Format(name="json")
AVRO = Format(name="avro")
FLIGHT = Format(
    name="json", schema="carrier STRING, dep_delay DOUBLE, day TINYINT, plane STRUCT<tail: STRING, seats: INT>"
)


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    """A schema of a record; a field is its type, or its type and default."""
    made = [
        {"name": key, "type": each[0], "default": each[1]} if isinstance(each, tuple) else {"name": key, "type": each}
        for key, each in fields.items()
    ]
    return {"type": "record", "name": name, "fields": made}


def avro_bytes(schema: Any, content: Any) -> bytes:
    written = BytesIO()
    fastavro.schemaless_writer(written, schema, content)
    return written.getvalue()


def of_avro(schema: Any, **more: str) -> Format:
    return Format(name="avro", schema=json.dumps(schema), **more)


def records(spark: "SparkSession", *values: bytes | str | None, key: bytes | None = b"k") -> "DataFrame":
    """A frame as the data source's: the n-th value is at offset n."""
    rows = [
        (key, each.encode() if isinstance(each, str) else each, "flights", 3, offset, WRITTEN, 0, [("h", b"1")])
        for offset, each in enumerate(values)
    ]
    return spark.createDataFrame(rows, COLUMNS)


def values_of(frame: "DataFrame") -> list[dict[str, Any]]:
    """The columns of the values, without nulls, as JSON has them."""
    taken = frame.select(*(f"`{each}`" for each in frame.columns if not each.startswith("_")))
    return [json.loads(each) for each in taken.toJSON().collect()]


def failure(frame: "DataFrame") -> str:
    """What a query fails with."""
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    return str(caught.value)


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    """A registry of its own for each test: Spark's Python workers live on, and keep a number's schema for ever."""
    with running_schema_registry() as server:
        yield server


# JSON


def test_json_becomes_columns_of_the_declared_types_and_the_same_json_again(spark: "SparkSession") -> None:
    ddl = (
        "b BOOLEAN, i INT, l BIGINT, d DOUBLE, dec DECIMAL(9,2), s STRING, bin BINARY, day DATE, at TIMESTAMP, "
        "local TIMESTAMP_NTZ, tags ARRAY<STRING>, counts MAP<STRING, INT>, "
        "inner STRUCT<x: INT, deep: STRUCT<y: DATE>>, `with-dash` INT, `with.dot` INT, Capital INT"
    )
    full = {
        "b": True, "i": 1, "l": 2**60, "d": 0.5, "dec": 12.25, "s": "grüße", "bin": "AP8=",
        "day": "2026-01-02", "at": "2026-01-02T03:04:05.123456Z", "local": "2026-01-02T03:04:05.000000",
        "tags": ["a", None], "counts": {"x": 1}, "inner": {"x": 1, "deep": {"y": "2026-01-02"}},
        "with-dash": 1, "with.dot": 2, "Capital": 3,
    }  # fmt: skip
    frame = decoded(
        records(spark, json.dumps({**full, "more": 1}), "{}"), key=STRING, value=replace(JSON, schema=ddl)
    )
    assert frame.columns == [*full, "_key", "_topic", "_partition", "_offset", "_timestamp", "_headers"]
    written = encoded(frame, key=STRING, value=JSON, key_columns=[]).collect()
    assert json.loads(written[0].value) == full
    assert (written[0].key, written[0].topic, written[0].partition, written[0].headers[0].key) == (
        "k",
        "flights",
        3,
        "h",
    )
    assert frame.where("_offset = 0").select("at").dtypes == [("at", "timestamp")]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02 03:04:05"),
        ("2026-01-02T03:04:05.5+02:00", "2026-01-02 01:04:05.5"),
        ("2026-01-02 03:04:05", "2026-01-02 03:04:05"),
        (1_700_000_000, "2023-11-14 22:13:20"),
    ],
)
def test_a_json_timestamp_is_iso_8601_or_seconds(spark: "SparkSession", written: str | int, read: str) -> None:
    frame = decoded(
        records(spark, json.dumps({"at": written})), key=BYTES, value=replace(JSON, schema="at TIMESTAMP")
    )
    assert frame.selectExpr("cast(at AS STRING)").collect()[0][0] == read


def test_a_bad_json_record_fails_the_query_with_its_place_and_what_is_wrong(spark: "SparkSession") -> None:
    expected = {
        b'{"carrier": ': 'is malformed JSON: {"carrier": ',
        b"": "is empty, where JSON is expected",
        b"[1]": "is JSON, but no object: [1]",
        b'"AA"': 'is JSON, but no object: "AA"',
        b"\xff\xfe": "is not UTF-8 text; its first bytes are FFFE",
        b'{"carrier": "\xff"}': "is not UTF-8 text",
        b'{"carrier": "AA", "dep_delay": "late"}': "has in the column dep_delay what is no DOUBLE: late",
        b'{"day": 300}': "has in the column day what is no TINYINT: 300",
        b'{"plane": 5}': "has in the column plane what is no STRUCT<TAIL:STRING,SEATS:INT>: 5",
        b'{"plane": {"seats": "many"}}': "has a value of another type within one of the columns plane",
    }
    good = '{"carrier": "AA", "dep_delay": 1.5}'
    for bad, said in expected.items():
        message = failure(decoded(records(spark, good, bad), key=STRING, value=FLIGHT))
        assert f"topic flights, partition 3, offset 1: the value {said}" in message


def test_bad_json_records_are_made_null_or_left_out_on_demand(spark: "SparkSession") -> None:
    frame = records(spark, '{"day": 1}', "nonsense", '{"day": 300, "carrier": "AA"}', None, "null")
    empty: dict[str, Any] = {}
    null = decoded(frame, key=STRING, value=replace(FLIGHT, bad_records="null"))
    assert values_of(null) == [{"day": 1}, empty, empty, empty, empty]
    dropped = decoded(frame, key=STRING, value=replace(FLIGHT, bad_records="drop"))
    assert [each._offset for each in dropped.orderBy("_offset").collect()] == [0, 3, 4]


def test_a_key_of_json_is_a_struct_and_fails_like_a_value(spark: "SparkSession") -> None:
    key = replace(JSON, schema="carrier STRING")
    frame = decoded(records(spark, "x", key=b'{"carrier": "AA"}'), key=key, value=STRING)
    assert frame.select("_key.carrier", "value").collect() == [("AA", "x")]
    assert "offset 0: the key is malformed JSON" in failure(decoded(records(spark, "x"), key=key, value=STRING))


def test_a_record_is_parsed_once_whatever_is_filtered(
    spark: "SparkSession", capsys: pytest.CaptureFixture[str]
) -> None:
    avro = of_avro(record("R", day="int"))
    for value, parsing in ((FLIGHT, "SPARK_PARTITION_ID"), (avro, "[decode(")):
        frame = decoded(records(spark), key=BYTES, value=value).where("day > 1").groupBy("day").count()
        frame.explain()
        assert capsys.readouterr().out.count(parsing) == 1


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        (
            "carrier STRING, delay DUBLE",
            r"'carrier STRING, delay DUBLE' cannot be parsed: .*\"DUBLE\".*line 1, pos 22",
        ),
        ("carrier STRING,, delay INT", "cannot be parsed: .*line 1, pos 15"),
        ("STRING", "declares no columns"),
        ("a VARCHAR(3)", "column a of a type JSON lacks: write STRING"),
        ("_key STRING", "has a column _key: names that begin with _ are kept for"),
        ("a INT, A INT", "A and a are the same to Spark"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_at_once(spark: "SparkSession", ddl: str, message: str) -> None:
    with pytest.raises(UnusableFormat, match=message):
        decoded(records(spark), key=STRING, value=replace(JSON, schema=ddl))


def test_a_format_without_its_schema_and_a_frame_of_something_else_are_refused(spark: "SparkSession") -> None:
    with pytest.raises(UnusableFormat, match="the value's format json has no schema yet"):
        decoded(records(spark), key=STRING, value=JSON)
    with pytest.raises(UnusableFormat, match="the frame lacks the columns key, value"):
        decoded(spark.range(1), key=STRING, value=STRING)


# Text and bytes


def test_text_is_checked_and_bytes_are_left_alone(spark: "SparkSession") -> None:
    frame = records(spark, "grüße", b"\xff", None)
    assert [each.value for each in decoded(frame, key=STRING, value=BYTES).collect()] == [
        "grüße".encode(),
        b"\xff",
        None,
    ]
    dropped = decoded(frame, key=BYTES, value=replace(STRING, bad_records="drop"))
    assert [each.value for each in dropped.collect()] == ["grüße", None]
    assert "offset 1: the value is not UTF-8 text; its first bytes are FF" in failure(
        decoded(frame, key=STRING, value=STRING)
    )


# Avro

LOGICAL = {
    "date": {"type": "int", "logicalType": "date"},
    "millis": {"type": "long", "logicalType": "timestamp-millis"},
    "micros": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "long", "logicalType": "local-timestamp-micros"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "dec": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "fixdec": {"type": "fixed", "name": "Dec", "size": 6, "logicalType": "decimal", "precision": 10, "scale": 1},
    "uuid": {"type": "string", "logicalType": "uuid"},
}
EVERYTHING = record(
    "org.Everything", nothing="null", b="boolean", i="int", l="long", f="float", d="double", raw="bytes", s="string",
    fix={"type": "fixed", "name": "Fix", "size": 2}, e={"type": "enum", "name": "Enum", "symbols": ["A", "B"]},
    maybe=["null", "int"], ints={"type": "array", "items": ["null", "int"]},
    map={"type": "map", "values": record("Inner", at=LOGICAL["millis"])}, inner="Inner",
    union=["null", "int", "string", "Inner"], **LOGICAL,
)  # fmt: skip
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=dt.UTC)
CONTENT = {
    "nothing": None, "b": True, "i": -1, "l": 2**60, "f": 0.5, "d": 0.1, "raw": b"\0\xff", "s": "grüße", "fix": b"ab",
    "e": "B", "maybe": 7, "ints": [1, None], "map": {"k": {"at": AT}}, "inner": {"at": AT}, "union": "text",
    "date": dt.date(2026, 1, 2), "millis": AT, "micros": AT, "local": AT.replace(tzinfo=None),
    "time": dt.time(1, 2, 3), "dec": Decimal("1.25"), "fixdec": Decimal("-3.5"), "uuid": uuid.UUID(int=5),
}  # fmt: skip


def test_everything_that_fastavro_writes_is_read_and_written_again_the_same(spark: "SparkSession") -> None:
    contents = [CONTENT, {**CONTENT, "maybe": None, "union": {"at": AT}}, {**CONTENT, "union": None}]
    written = [avro_bytes(EVERYTHING, each) for each in contents]
    value = of_avro(EVERYTHING)
    frame = decoded(records(spark, *written, None), key=STRING, value=value)
    found = values_of(frame)
    at = "2026-01-02T03:04:05.678Z"
    assert found[0] == {
        "b": True, "i": -1, "l": 2**60, "f": 0.5, "d": 0.1, "raw": "AP8=", "s": "grüße", "fix": "YWI=", "e": "B",
        "maybe": 7, "ints": [1, None], "map": {"k": {"at": at}}, "inner": {"at": at}, "union": {"member1": "text"},
        "date": "2026-01-02", "millis": at, "micros": at, "local": at[:-1], "time": 3_723_000_000, "dec": 1.25,
        "fixdec": -3.5, "uuid": str(CONTENT["uuid"]),
    }  # fmt: skip
    assert found[1]["union"] == {"member2": {"at": at}}
    assert "maybe" not in found[1]
    assert "union" not in found[2]
    assert found[3] == {}
    again = encoded(frame, key=STRING, value=value, key_columns=["s"]).collect()
    assert [each.value for each in again] == [*written, None]


def test_an_avro_record_that_does_not_decode_is_named(spark: "SparkSession") -> None:
    schema = record("R", at=LOGICAL["micros"], s="string", i="int")
    good = avro_bytes(schema, {"at": AT, "s": "abc", "i": 1})
    wide = avro_bytes(record("R", at="long", s="string", i="long"), {"at": 1, "s": "", "i": 2**40})
    expected = {
        good[:-1]: "does not decode as Avro: ",
        b"": "does not decode as Avro: it ends too early",
        good + b"x": "does not decode as Avro: 1 of its bytes are left over",
        b"nonsense": "does not decode as Avro",
        wide: "is out of a type's range: Value 1099511627776 too large",
    }
    for bad, said in expected.items():
        message = failure(decoded(records(spark, good, bad), key=STRING, value=of_avro(schema)))
        assert f"topic flights, partition 3, offset 1: the value {said}" in message
    frame = records(spark, good, *expected, None)
    dropped = decoded(frame, key=STRING, value=of_avro(schema, bad_records="drop"))
    assert [each._offset for each in dropped.orderBy("_offset").collect()] == [0, 6]
    null = decoded(frame, key=STRING, value=of_avro(schema, bad_records="null"))
    assert [each.i for each in null.orderBy("_offset").collect()] == [1, *[None] * 6]


def test_columns_without_a_schema_are_written_by_one_made_of_them(spark: "SparkSession") -> None:
    frame = spark.sql(
        "SELECT 'AA' AS carrier, 1.50BD AS delay, timestamp'2026-01-02 03:04:05.678Z' AS at, "
        "array(named_struct('x', 1), null) AS xs, map('k', date'2026-01-02') AS days, cast(null AS INT) AS nothing"
    )
    row = encoded(frame, key=AVRO, value=AVRO, key_columns=["carrier"]).collect()[0]
    optional = lambda kind: ["null", kind]  # noqa: E731
    inner = record("S", x=optional("int"))
    schema = record(
        "Value", carrier=optional("string"), delay=optional({**LOGICAL["dec"], "precision": 3}),
        at=optional(LOGICAL["micros"]), xs=optional({"type": "array", "items": optional(inner)}),
        days=optional({"type": "map", "values": optional(LOGICAL["date"])}), nothing=optional("int"),
    )  # fmt: skip
    assert fastavro.schemaless_reader(BytesIO(row.value), schema, None) == {
        "carrier": "AA", "delay": Decimal("1.50"), "at": AT, "xs": [{"x": 1}, None],
        "days": {"k": dt.date(2026, 1, 2)}, "nothing": None,
    }  # fmt: skip
    assert fastavro.schemaless_reader(BytesIO(row.key), record("Key", carrier=optional("string")), None) == {
        "carrier": "AA"
    }


def test_columns_are_fitted_to_a_given_schema_by_name_or_refused(spark: "SparkSession") -> None:
    schema = record("R", a="long", s=record("S", x="int", y="string"), c=("int", 7), d=(["null", "int"], None))
    frame = spark.sql("SELECT named_struct('y', 'why', 'x', 1) AS s, 2 AS a")
    row = encoded(frame, key=STRING, value=of_avro(schema), key_columns=["a"]).collect()[0]
    expected = {"a": 2, "s": {"x": 1, "y": "why"}, "c": 7, "d": None}
    assert fastavro.schemaless_reader(BytesIO(row.value), schema, None) == expected
    refused = {
        "SELECT 1L AS a, named_struct('x', 1, 'y', 'why') AS s, 5 AS z": "lacks the columns z",
        "SELECT 1L AS a": "the columns s are missing: the Avro schema has no default",
        "SELECT '1' AS a, named_struct('x', 1, 'y', 'why') AS s": "the column a is STRING, .* wants BIGINT: cast it",
        "SELECT 1L AS a, named_struct('x', 'one', 'y', 'why') AS s": r"the column s\.x is STRING, .* wants INT",
    }
    for query, said in refused.items():
        with pytest.raises(UnusableFormat, match=said):
            encoded(spark.sql(query), key=STRING, value=of_avro(schema), key_columns=[])
    null = spark.sql("SELECT cast(null AS LONG) AS a, named_struct('x', 1, 'y', 'why') AS s")
    message = failure(encoded(null, key=STRING, value=of_avro(schema), key_columns=[]))
    assert "a row does not fit its Avro schema" in message
    assert "field a" in message


def test_an_avro_schema_of_no_record_is_one_column(spark: "SparkSession") -> None:
    text = of_avro("string")
    frame = decoded(
        records(spark, avro_bytes("string", "abc"), key=avro_bytes("long", 5)), key=of_avro("long"), value=text
    )
    assert frame.select("_key", "value").collect() == [(5, "abc")]
    row = encoded(frame, key=of_avro("long"), value=text, key_columns=[]).collect()[0]
    assert (row.key, row.value) == (avro_bytes("long", 5), avro_bytes("string", "abc"))


# The registry


def test_what_confluents_serializer_writes_is_read_and_its_deserializer_reads_what_is_written(
    spark: "SparkSession", registry: SchemaRegistryServer
) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    old, new = record("R", a="int", gone="string"), record("R", a="int", more=(["null", "string"], None))
    context = SerializationContext("flights", MessageField.VALUE)
    written = [
        AvroSerializer(client, json.dumps(old))({"a": 1, "gone": "x"}, context),
        AvroSerializer(client, json.dumps(new))({"a": 2, "more": "y"}, context),
    ]
    value = of_avro(new, registry_url=registry.url)
    frame = decoded(records(spark, *written, *[written[0]] * 20, None), key=STRING, value=value)
    registry.requests.clear()
    assert values_of(frame.coalesce(1)) == [{"a": 1}, {"a": 2, "more": "y"}, *[{"a": 1}] * 20, {}]
    assert len(registry.requests) <= 4  # Each of two Python workers asks for each schema once.

    written_again = encoded(
        frame, key=Format(name="avro", registry_url=registry.url), value=value, key_columns=["a"], topic="delays"
    ).collect()
    assert set(registry.subjects()) == {"flights-value", "delays-value", "delays-key"}
    context = SerializationContext("delays", MessageField.VALUE)
    assert AvroDeserializer(client)(written_again[1].value, context) == {"a": 2, "more": "y"}
    assert AvroDeserializer(client)(written_again[1].key, SerializationContext("delays", MessageField.KEY)) == {
        "a": 2
    }
    assert written_again[1].value == AvroSerializer(client, json.dumps(new))({"a": 2, "more": "y"}, context)
    assert written_again[-1].value is None


def test_what_the_registry_does_not_know_is_a_bad_record_and_its_refusals_are_shown(
    spark: "SparkSession", registry: SchemaRegistryServer
) -> None:
    number = registry.register("flights-value", json.dumps(record("R", a="int")))
    other = registry.register("other", json.dumps(record("R", a="string")))
    value = of_avro(record("R", a="int"), registry_url=registry.url)
    good = b"\0" + number.to_bytes(4, "big") + b"\x02"
    expected = {
        b"\0\0\0\0\x63\x02": "was written with the schema 99, which is not known: the Schema Registry at http://127",
        b"plain": "begins with 706c61696e, not with 00 and a schema's number",
        b"\0" + other.to_bytes(4, "big") + b"\x02A": "does not decode as Avro: SchemaResolutionError",
    }
    for bad, said in expected.items():
        message = failure(decoded(records(spark, good, bad), key=STRING, value=value))
        assert f"topic flights, partition 3, offset 1: the value {said}" in message
    registry.authorization = "Basic " + base64.b64encode(b"user:secret").decode()
    frame = spark.sql("SELECT 1 AS a")
    with pytest.raises(UnusableFormat, match="refuses: 401 Unauthorized"):
        encoded(frame, key=STRING, value=value, key_columns=[], topic="delays")
    known = replace(value, registry_url=registry.url.replace("//", "//user:secret@"))
    assert encoded(frame, key=STRING, value=known, key_columns=[], topic="delays").collect()[0].value == good
    with pytest.raises(UnusableFormat, match="not known which topic"):
        encoded(frame, key=STRING, value=known, key_columns=[])


# Columns to records


def test_keys_are_made_of_one_column_of_several_or_taken_over(spark: "SparkSession") -> None:
    frame = spark.sql("SELECT 'AA' AS carrier, 5 AS hour, X'6162' AS raw, named_struct('k', 1) AS _key")

    def key(form: Format, *columns: str) -> Any:
        return encoded(frame, key=form, value=JSON, key_columns=columns).collect()[0].key

    assert key(STRING, "hour") == "5"
    assert key(STRING, "carrier", "hour") == '{"carrier":"AA","hour":5}'
    assert key(JSON, "carrier") == '{"carrier":"AA"}'
    assert key(BYTES, "raw") == b"ab"
    assert key(BYTES, "carrier") == b"AA"
    assert key(JSON) == key(STRING) == '{"k":1}'
    plain = encoded(frame.selectExpr("1 AS a", "'it\"s' AS _key"), key=JSON, value=JSON, key_columns=[])
    assert plain.collect()[0].key == '"it\\"s"'
    assert encoded(frame.select("carrier"), key=STRING, value=STRING, key_columns=[]).collect() == [(None, "AA")]


def test_what_cannot_be_written_is_refused_with_the_names_of_columns(spark: "SparkSession") -> None:
    frame = spark.sql("SELECT 'AA' AS carrier, 5 AS hour, 'k' AS _key")

    def refused(frame: "DataFrame", message: str, value: Format = JSON, **more: Sequence[str]) -> None:
        with pytest.raises(UnusableFormat, match=message):
            encoded(frame, **{"key": STRING, "value": value, "key_columns": [], **more})  # type: ignore[arg-type]

    refused(frame, r"value in the format string is one column, and there are carrier, hour.*value_columns", STRING)
    refused(frame, "there is no column delay for the value: there are carrier, hour, _key", value_columns=["delay"])
    refused(frame, "there is no column delay for the key", key_columns=["delay"])
    refused(frame, "the value is INT: the format bytes takes BINARY or STRING", BYTES, value_columns=["hour"])
    refused(frame.select("_key"), "no column to write as the value")
    refused(frame.join(frame.select("carrier")), "the column carrier is there twice")
    chosen = encoded(frame, key=STRING, value=STRING, key_columns=[], value_columns=["carrier"]).collect()
    assert chosen == [("k", "AA")]


def test_nulls_are_written_and_a_row_of_nulls_is_a_tombstone(spark: "SparkSession") -> None:
    frame = decoded(records(spark, '{"carrier": null, "day": 1}', None), key=STRING, value=FLIGHT)
    rows = encoded(frame, key=STRING, value=JSON, key_columns=[]).collect()
    assert json.loads(rows[0].value) == {"carrier": None, "dep_delay": None, "day": 1, "plane": None}
    assert (rows[1].key, rows[1].value) == ("k", None)


# Streams


@pytest.mark.parametrize("name", ["json", "avro"])
def test_a_stream_has_watermarks_on_its_columns_and_fails_on_a_bad_record(
    spark: "SparkSession", tmp_path: Path, name: str
) -> None:
    hours = [f"2026-01-02T0{hour}:30:00Z" for hour in (1, 1, 2, 9)]
    if name == "json":
        value = replace(JSON, schema="at TIMESTAMP")
        written = [json.dumps({"at": each}).encode() for each in hours]
    else:
        schema = record("R", at=LOGICAL["millis"])
        value = of_avro(schema)
        written = [avro_bytes(schema, {"at": dt.datetime.fromisoformat(each)}) for each in hours]
    topic = str(tmp_path / "topic")
    counts: list[tuple[str, int]] = []

    def collect(batch: "DataFrame", _: int) -> None:
        counts.extend(tuple(each) for each in batch.selectExpr("cast(window.start AS STRING)", "count").collect())

    def run() -> None:
        source = spark.readStream.schema(COLUMNS).parquet(topic)
        timed = decoded(source, key=STRING, value=value).withWatermark("at", "1 hour")
        windows = timed.groupBy(window("at", "1 hour")).count()
        query = windows.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.outputMode("append").trigger(availableNow=True).start().awaitTermination()

    records(spark, *written).write.mode("append").parquet(topic)
    run()
    assert sorted(counts) == [("2026-01-02 01:00:00", 2), ("2026-01-02 02:00:00", 1)]
    records(spark, b"nonsense").write.mode("append").parquet(topic)
    with pytest.raises(PySparkException, match="topic flights, partition 3, offset 0: the value"):
        run()


# Inference


def fill(bootstrap: str, topic: str, *values: bytes | str | None, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for each in values:
        producer.produce(topic, each, key=b'{"id": 1}', partition=partition)
    assert producer.flush(30) == 0


def test_columns_are_inferred_from_the_latest_records_of_a_topic(
    spark: "SparkSession", bootstrap: str, new_topic: TopicFactory
) -> None:
    topic = new_topic(partitions=3)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    fill(bootstrap, topic, '{"old": 1}', *['{"z": 1}'] * 20, None)
    fill(bootstrap, topic, "nonsense", '{"z": 1.5, "at": "2026-01-02T03:04:05Z", "year": "2026"}', partition=2)
    fill(bootstrap, topic, '{"in-ner": {"day": "2026-01-02"}, "_id": 5, "list": [1]}', partition=2)
    found = inferred(spark, options, replace(JSON, sample_rows=20), part="value")
    assert found.schema == ("z DOUBLE,at TIMESTAMP,year STRING,`in-ner` STRUCT<day: STRING>,list ARRAY<BIGINT>")
    assert inferred(spark, options, JSON, part="key").schema == "id BIGINT"
    assert inferred(spark, options, found, part="value") is found
    assert inferred(spark, options, STRING, part="value") is STRING


def test_a_topic_that_says_nothing_about_its_columns_is_refused(
    spark: "SparkSession", bootstrap: str, new_topic: TopicFactory
) -> None:
    topic = new_topic()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}

    def refused(message: str, value: Format = JSON) -> None:
        with pytest.raises(UnusableFormat, match=message):
            inferred(spark, options, value, part="value")

    refused(f"no records to infer a schema of the values of the topic {topic} from: give one")
    fill(bootstrap, topic, "abc")
    refused("are no JSON .*abc.* choose the format string")
    fill(bootstrap, topic, '"text"', "5")
    refused(r"are JSON, but no objects \(\"text\"\), in all of the 3 records looked at: choose the format string")
    refused("needs value.schema", AVRO)
    with pytest.raises(MissingTopic, match="there is no topic nowhere"):
        inferred(spark, {**options, "subscribe": "nowhere"}, JSON, part="value")


def test_an_avro_schema_is_that_of_the_subject_or_of_the_records(
    spark: "SparkSession", bootstrap: str, new_topic: TopicFactory, registry: SchemaRegistryServer
) -> None:
    topic = new_topic()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    known = Format(name="avro", registry_url=registry.url)
    with pytest.raises(UnusableFormat, match=f"no subject {topic}-value, and no schema of the 0 records looked at"):
        inferred(spark, options, known, part="value")
    schemas = [json.dumps(record("R", a="int", **more)) for more in ({}, {"b": ("int", 1)}, {"c": ("int", 2)})]
    numbers = [registry.register("elsewhere", each) for each in schemas]
    fill(bootstrap, topic, *(b"\0" + each.to_bytes(4, "big") + b"\2" for each in numbers[:2]))
    assert inferred(spark, options, known, part="value").schema == schemas[1]
    registry.register(f"{topic}-value", schemas[2])
    assert inferred(spark, options, known, part="value").schema == schemas[2]
