"""The JSON that sinks write without a converter."""

import datetime as dt
import decimal
import math

import pytest

from ottla_sdk import DataError, Header, SinkRecord
from ottla_sdk.json_text import json_text, record_object, utf_8


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1, "b": [None, True, "ü"]}, '{"a":1,"b":[null,true,"ü"]}'),
        (b"\x00\xff", '"AP8="'),
        (decimal.Decimal("1.500"), '"1.500"'),
        (dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC), '"2026-01-02T03:04:00+00:00"'),
        (dt.date(2026, 1, 2), '"2026-01-02"'),
        (dt.time(3, 4, 5), '"03:04:05"'),
    ],
)
def test_every_value_of_a_record_has_a_text(value, text):
    assert json_text(value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), {1j: 2}])
def test_what_json_cannot_say_is_bad_data(value):
    with pytest.raises(DataError, match="cannot be written as JSON"):
        json_text(value)


def test_half_of_a_surrogate_pair_is_bad_data():
    with pytest.raises(DataError, match="no valid text"):
        utf_8("\ud800")


def test_a_whole_record_has_its_place_and_headers():
    record = SinkRecord(
        topic="t", partition=2, offset=7, key="k", value=1, headers=(Header("h", "v"),), timestamp_ms=5
    )
    assert record_object(record) == {
        "topic": "t",
        "partition": 2,
        "offset": 7,
        "timestamp_ms": 5,
        "key": "k",
        "headers": [{"key": "h", "value": "v"}],
        "value": 1,
    }
