"""A query as its address has it, and its answer as a table, as charts and as files."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from ottla_console.views.message_query import BadQuery
from ottla_console.views.query_chart import BARS_MAX, bar_chart, time_chart
from ottla_console.views.query_form import RECORDS, topic_query
from ottla_console.views.query_result import Cell, result_csv, result_json_lines, result_rows
from ottla_operations.queries.query_answer import Answer, Column


def answer(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]) -> Answer:
    named = [Column(name=name, type=kind) for name, kind in columns]
    return Answer(columns=named, rows=rows, is_cut=False, table=[], fields_left_out=0, seconds=0.1)


def test_a_query_is_over_the_newest_records_unless_it_begins_somewhere() -> None:
    plain = topic_query({"q": "SELECT 1"}, 3)
    assert (plain.records, plain.source.newest_first) == (RECORDS, True)
    assert plain.parameters() == {"q": "SELECT 1", "records": "", "start": "", "partition": ""}
    given = {"q": "SELECT 1", "records": "200,000", "start": "-100", "partition": "2"}
    ranged = topic_query(given, 3)
    assert (ranged.records, ranged.source.newest_first, ranged.source.partition) == (200_000, False, 2)
    assert ranged.parameters() == {**given, "records": "200000"}


@pytest.mark.parametrize("records", ["0", "200001", "many", "-1", "9" * 5000, "²"])
def test_a_number_of_records_that_cannot_be_is_told(records: str) -> None:
    with pytest.raises(BadQuery, match="Records: a number from 1 to 200,000"):
        topic_query({"records": records}, 1)


def test_cells_are_shown_as_text_with_steering_characters_written_out() -> None:
    found = answer(
        [("a", "VARCHAR"), ("b", "DECIMAL(9,2)"), ("c", "INTEGER[]"), ("d", "BOOLEAN")],
        [["\x1b[2J", 1.5, [1, None], True], [None, None, None, None], ["x" * 1000, 1, [], False]],
    )
    rows = result_rows(found)
    assert rows[0] == [Cell(r"\x1b[2J", False), Cell("1.5", True), Cell("[1, null]", False), Cell("true", False)]
    assert {each.text for each in rows[1]} == {None}
    assert rows[2][0].text == "x" * 300 + "…"


def test_json_lines_have_each_column_under_a_name_of_its_own() -> None:
    found = answer([("n", "BIGINT"), ("n", "BIGINT"), ("n_2", "VARCHAR")], [[2**70, 2, "ü"]])
    assert json.loads(result_json_lines(found)) == {"n": 2**70, "n_2": 2, "n_2_2": "ü"}


def test_csv_has_no_formulas_and_numbers_as_they_are() -> None:
    found = answer([("=a", "VARCHAR"), ("b", "BIGINT"), ("c", "VARCHAR")], [["=1+1", -5, None], ["-x", 2.5, "a\nb"]])
    assert result_csv(found).decode().splitlines() == ["'=a,b,c", "'=1+1,-5,", "'-x,2.5,\"a", 'b"']


def test_a_text_and_a_number_make_bars_that_go_below_0() -> None:
    chart = bar_chart(
        answer([("carrier", "VARCHAR"), ("x", "VARCHAR"), ("n", "BIGINT")], [["UA", "", 30], [None, "", -10]])
    )
    assert chart is not None
    assert chart.title == "n"
    assert [(bar.label, bar.value, bar.x, bar.width) for bar in chart.bars] == [
        ("UA", "30", 250, 750),
        ("NULL", "-10", 0, 250),
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(31.7, "31.7"), (107.0, "107"), (-0.0125, "-0.0125"), (1234.5678, "1,234.57"), (2_500_000.4, "2,500,000")],
)
def test_a_number_is_written_with_the_digits_that_it_has(value: float, text: str) -> None:
    chart = bar_chart(answer([("carrier", "VARCHAR"), ("delay", "DOUBLE")], [["UA", value], ["DL", 1]]))
    assert chart is not None
    assert [each.value for each in chart.bars] == [text, "1"]


def test_rows_with_one_label_have_no_bars() -> None:
    columns = [("topic", "VARCHAR"), ("partition", "INTEGER")]
    assert bar_chart(answer(columns, [["flights", 0], ["flights", 1]])) is None


def test_there_are_only_so_many_bars() -> None:
    chart = bar_chart(answer([("a", "INTEGER"), ("n", "DOUBLE")], [[n, n / 3] for n in range(500)]))
    assert chart is not None
    assert (len(chart.bars), chart.is_cut) == (BARS_MAX, True)


def test_a_time_and_a_number_make_a_line_in_the_order_of_time() -> None:
    rows = [["2013-01-01 02:00:00", 10], ["2013-01-01 00:00:00", 0], ["not a time", 5], ["2013-01-01 01:00:00", None]]
    chart = time_chart(answer([("hour", "TIMESTAMP"), ("n", "BIGINT")], rows))
    assert chart is not None
    assert chart.line == "4.0,92.0 596.0,4.0"
    assert chart.zero == 92
    assert chart.summary == "n from 2013-01-01 00:00:00 to 2013-01-01 02:00:00: between 0 and 10"


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ([("n", "BIGINT")], [[1], [2]]),
        ([("a", "VARCHAR"), ("b", "VARCHAR")], [["x", "y"], ["x", "y"]]),
        ([("a", "VARCHAR"), ("n", "BIGINT")], [["x", 1]]),
        ([("a", "STRUCT(a INTEGER)"), ("n", "BIGINT")], [[{}, 1], [{}, 2]]),
        ([("t", "TIMESTAMP"), ("n", "DOUBLE")], [["2013-01-01", "nan"], ["2013-01-02", 1.0]]),
        ([], []),
    ],
)
def test_what_makes_no_chart_makes_none(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]) -> None:
    assert bar_chart(answer(columns, rows)) is None
    assert time_chart(answer(columns, rows)) is None


def test_bars_and_lines_of_nothing_but_0_are_drawn() -> None:
    assert bar_chart(answer([("a", "VARCHAR"), ("n", "BIGINT")], [["x", 0], ["y", 0]])) is not None
    assert time_chart(answer([("t", "DATE"), ("n", "BIGINT")], [["2013-01-01", 0], ["2013-01-01", 0]])) is not None
