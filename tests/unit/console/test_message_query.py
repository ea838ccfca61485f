"""Which messages an address asks for; rows and files of messages."""

import csv
import io
import json

import pytest

from ottla_console.views.message_query import PARTITIONS_MAX, BadQuery, message_query, place_text, time_text
from ottla_console.views.message_rows import csv_table, json_lines, message_row
from ottla_operations.records.record_line import Format, LineOptions, Record, record_reader


def test_an_address_says_all_of_a_query() -> None:
    given = {"order": "oldest", "start": "170", "partition": "2", "q": "$.a > 1", "where": "value"}
    query = message_query({**given, "at": "2:180"}, 3)
    assert query.parameters() == given
    assert query.place == {2: 180}
    assert place_text({1: 5, 0: 7}) == "0:7,1:5"


def test_without_parameters_the_newest_of_all_partitions_are_asked_for() -> None:
    query = message_query({}, 3)
    assert (query.newest_first, query.partition, query.start, query.place) == (True, None, None, None)
    assert message_query({}, PARTITIONS_MAX + 1).partition == 0


@pytest.mark.parametrize(
    "given",
    [
        {"order": "sideways"},
        {"start": "yesterday"},
        {"start": "1960-01-01"},
        {"partition": "3"},
        {"partition": "-1"},
        {"partition": "²"},
        {"where": "elsewhere"},
        {"q": "x" * 1001},
        {"at": "0:1;1:2"},
        {"at": "0:" + "1" * 30},
        {"at": ",".join(["0:1"] * 5000)},
    ],
)
def test_what_an_address_cannot_ask_for_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(BadQuery):
        message_query(given, 3)


@pytest.mark.parametrize("time_ms", [2**63 - 1, -(2**62), None, 0])
def test_any_time_is_written(time_ms: int | None) -> None:
    assert time_text(time_ms)
    assert time_text(1_357_034_400_123) == "2013-01-01 10:00:00.123"


RECORD = Record(
    value=b'{"a": 1}',
    key=b"=cmd()",
    headers=(("h", b"v"), ("n", None)),
    partition=1,
    offset=7,
    timestamp=5,
    topic="t",
)


def test_json_lines_can_be_published_again() -> None:
    binary = Record(value=b"\xff\x00", key=None, partition=0, offset=1, timestamp=1, topic="t")
    read = record_reader(LineOptions(Format.RECORD))
    first, second = (read(line) for line in json_lines([RECORD, binary], None).splitlines())
    assert (first.key, first.value, first.headers) == (RECORD.key, RECORD.value, RECORD.headers)
    assert (second.key, second.value) == (None, b"\xff\x00")
    decoded = json.loads(json_lines([binary], lambda _: {"from": "JFK"}))
    assert decoded["value"] == {"from": "JFK"}
    assert "value_base64" not in decoded


def test_a_cell_of_a_table_is_no_formula() -> None:
    (names, cells) = csv.reader(io.StringIO(csv_table([RECORD], None).decode()))
    row = dict(zip(names, cells, strict=True))
    assert row["key"] == "'=cmd()"
    assert row["value"] == '{"a": 1}'
    assert (row["partition"], row["offset"]) == ("1", "7")


def test_a_message_of_many_headers_shows_the_first() -> None:
    many = Record(value=None, headers=(("<b>\x1b", b"x" * 5000),) * 1000, partition=0, offset=0)
    row = message_row(many, None, 600)
    assert (len(row.headers), row.headers_total, row.is_cut) == (100, 1000, True)
    assert row.headers[0][0] == "<b>\\x1b"
