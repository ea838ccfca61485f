"""Dates, times, timestamps and decimals in the forms that Connect has for them."""

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_sdk import DataError
from ottla_sdk import logical_types as logical
from ottla_sdk.schema import BYTES


@given(st.dates())
def test_dates_come_back(value):
    assert logical.days_to_date(logical.date_to_days(value)) == value


@given(st.integers(0, logical.MS_PER_DAY - 1))
def test_times_come_back(ms):
    assert logical.time_to_ms(logical.ms_to_time(ms)) == ms


@given(st.datetimes(timezones=st.just(dt.UTC)))
def test_timestamps_come_back_to_the_millisecond(value):
    back = logical.ms_to_timestamp(logical.timestamp_to_ms(value))
    assert back == value.replace(microsecond=value.microsecond // 1000 * 1000)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=7))
def test_decimals_come_back(value):
    assert logical.bytes_to_decimal(logical.decimal_to_bytes(value, 7), 7) == value


@pytest.mark.parametrize(
    ("value", "scale", "data"),
    [
        ("1.56", 2, b"\x00\x9c"),
        ("-1.56", 2, b"\xff\x64"),
        ("0", 0, b"\0"),
        ("127", 0, b"\x7f"),
        ("128", 0, b"\0\x80"),
        ("-128", 0, b"\x80"),
        ("1200", -2, b"\x0c"),
    ],
)
def test_decimals_are_the_shortest_twos_complement(value, scale, data):
    assert logical.decimal_to_bytes(Decimal(value), scale) == data
    assert logical.bytes_to_decimal(data, scale) == Decimal(value)


@pytest.mark.parametrize(("value", "scale"), [("1.5", 0), ("1E+20000", 0), ("1E-20000", 0), ("Infinity", 2)])
def test_decimals_that_do_not_fit_are_refused(value, scale):
    with pytest.raises(DataError):
        logical.decimal_to_bytes(Decimal(value), scale)


@pytest.mark.parametrize(
    "call",
    [
        lambda: logical.days_to_date(10**9),
        lambda: logical.days_to_date(-(10**6)),
        lambda: logical.ms_to_time(-1),
        lambda: logical.ms_to_time(logical.MS_PER_DAY),
        lambda: logical.ms_to_timestamp(10**18),
        lambda: logical.timestamp_to_ms(dt.datetime(2024, 1, 1)),  # noqa: DTZ001 - that it has no zone is the case
        lambda: logical.scale_of(BYTES),
    ],
)
def test_what_stands_for_nothing_is_refused(call):
    with pytest.raises(DataError):
        call()
