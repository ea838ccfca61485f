"""How values look in tables, CSV and JSON."""

import io
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla_spark.sql.rendering import cell_text, json_value, zone_named
from ottla_spark.sql.result_format import ResultFormat
from ottla_spark.sql.results import Results

MOMENT = datetime(2013, 1, 1, 5, 0, 0, 500_000, tzinfo=UTC).astimezone().replace(tzinfo=None)
"""As Spark hands times over: naive, in the zone of this process."""
NESTED = StructType([StructField("at", TimestampType()), StructField("tags", ArrayType(StringType()))])
ROWS = StructType([StructField("carrier", StringType()), StructField("flights", LongType())])


@pytest.mark.parametrize(
    ("value", "data_type", "text"),
    [
        ("plain", StringType(), "plain"),
        ("two\nlines \x1b[31m", StringType(), "two\\nlines \\x1b[31m"),
        (True, IntegerType(), "true"),
        (1.5, DoubleType(), "1.5"),
        (Decimal("1.50"), DecimalType(10, 2), "1.50"),
        (date(2013, 1, 1), DateType(), "2013-01-01"),
        (MOMENT, TimestampType(), "2013-01-01 05:00:00.5"),
        (datetime(2013, 1, 1, 5), TimestampNTZType(), "2013-01-01 05:00:00"),  # noqa: DTZ001 - without a zone
        (bytearray(b"text"), BinaryType(), "text"),
        (bytearray(b"\x00\xff"), BinaryType(), "0x00ff"),
        ((MOMENT, ["a", None]), NESTED, '{"at": "2013-01-01T05:00:00.500000Z", "tags": ["a", null]}'),
        (timedelta(seconds=90), StringType(), "0:01:30"),
    ],
)
def test_a_cell_is_text_on_one_line(value: Any, data_type: DataType, text: str) -> None:
    assert cell_text(value, data_type, UTC) == text


@pytest.mark.parametrize(
    ("value", "data_type", "document"),
    [
        (None, StringType(), None),
        (7, LongType(), 7),
        (float("nan"), DoubleType(), "nan"),
        (Decimal("2.00"), DecimalType(10, 2), 2),
        (Decimal("2.5"), DecimalType(10, 2), 2.5),
        (Decimal("0.12345678901234567890"), DecimalType(30, 20), "0.12345678901234567890"),
        (bytearray(b"\x00"), BinaryType(), "AA=="),
        ({1: MOMENT}, MapType(IntegerType(), TimestampType()), {"1": "2013-01-01T05:00:00.500000Z"}),
    ],
)
def test_a_value_is_json_of_its_kind(value: Any, data_type: DataType, document: Any) -> None:
    assert json_value(value, data_type, UTC) == document


def test_times_are_shown_in_the_zone_of_the_session() -> None:
    assert cell_text(MOMENT, TimestampType(), zone_named("Europe/Berlin")) == "2013-01-01 06:00:00.5"
    assert json_value(MOMENT, TimestampType(), zone_named("-05:30")) == "2012-12-31T23:30:00.500000-05:30"


def test_zones_are_known_by_name_and_by_offset() -> None:
    assert zone_named("+01:00") == timezone(timedelta(hours=1))
    assert zone_named("GMT-5:30") == timezone(-timedelta(hours=5, minutes=30))
    assert zone_named("Nowhere/Land") == UTC


def written(monkeypatch: pytest.MonkeyPatch, form: ResultFormat, *pieces: list[tuple[Any, ...]]) -> list[str]:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stdout", screen)
    results = Results(form, ROWS)
    for piece in pieces:
        results.write(piece)
    assert results.row_count == sum(map(len, pieces))
    return [line.rstrip() for line in screen.getvalue().splitlines() if line.strip()]


def test_numbers_stand_to_the_right_and_null_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(monkeypatch, ResultFormat.TABLE, [("UA", 12), (None, None)]) == [
        "carrier   flights",
        "─────────────────",
        "UA             12",
        "NULL         NULL",
    ]


def test_a_table_that_goes_on_shows_its_head_again_only_when_a_column_has_grown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = written(monkeypatch, ResultFormat.TABLE, [("UA", 1)], [("AA", 2)], [("a longer name", 3)], [("B6", 4)])
    words = [line.split() for line in lines if "─" not in line]
    head = ["carrier", "flights"]
    assert words == [head, ["UA", "1"], ["AA", "2"], head, ["a", "longer", "name", "3"], ["B6", "4"]]
    assert len(lines[2].rstrip()) == len(lines[3].rstrip())


def test_markup_of_the_terminal_library_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "[bold]x[/bold]" in written(monkeypatch, ResultFormat.TABLE, [("[bold]x[/bold]", 1)])[2]


def test_csv_has_its_head_once_and_quotes_where_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(monkeypatch, ResultFormat.CSV, [("a,b", 1)], [(None, None)]) == ["carrier,flights", '"a,b",1', ","]


def test_json_is_one_document_per_row(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = written(monkeypatch, ResultFormat.JSON, [("é", 1), (None, 2)])
    assert lines == ['{"carrier": "é", "flights": 1}', '{"carrier": null, "flights": 2}']
