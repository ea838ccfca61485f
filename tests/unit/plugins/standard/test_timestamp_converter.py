"""TimestampConverter: between text, numbers and Connect's types."""

import datetime as dt

import pytest

from ottla_sdk import DataError, InvalidConfig, Schema, SourceRecord, Type
from ottla_sdk.schema import DATE, INT32, INT64, STRING, TIME, TIMESTAMP, struct_schema
from ottla_standard import TimestampConverterKey, TimestampConverterValue
from ottla_standard.java_date_format import compile_format

# The moment that Kafka's own tests use: 1970-01-02T00:00:01.234Z.
MOMENT = dt.datetime(1970, 1, 2, 0, 0, 1, 234_000, tzinfo=dt.UTC)
PATTERN = "yyyy MM dd HH mm ss SSS z"
TEXT = "1970 01 02 00 00 01 234 UTC"
FORMS = {
    "Timestamp": (TIMESTAMP, MOMENT),
    "Date": (DATE, dt.date(1970, 1, 2)),
    "Time": (TIME, dt.time(0, 0, 1, 234_000)),
    "unix": (INT64, 86401234),
    "string": (STRING, TEXT),
}


def converter(target, kind=TimestampConverterValue, **config):
    made = kind()
    settings = {"target.type": target, "format": PATTERN}
    made.configure(settings | {key.replace("_", "."): value for key, value in config.items()})
    return made


def converted(transform, schema, value):
    record = SourceRecord(source_partition={}, source_offset={}, topic="t", value_schema=schema, value=value)
    changed = transform.apply(record)
    return changed.value_schema, changed.value


@pytest.mark.parametrize("source", ["Timestamp", "unix", "string"])
@pytest.mark.parametrize("target", FORMS)
def test_each_form_becomes_each_other(source, target):
    from_schema, value = FORMS[source]
    to_schema, expected = FORMS[target]
    assert converted(converter(target), from_schema, value) == (to_schema, expected)
    assert converted(converter(target), None, value) == (None, expected)
    optional = converted(converter(target), from_schema.as_optional(), None)
    assert optional == (to_schema.as_optional(), None)


@pytest.mark.parametrize(("source", "ms"), [("Date", 86400000), ("Time", 1234)])
def test_dates_and_times_of_day_become_the_moments_they_stand_for(source, ms):
    schema, value = FORMS[source]
    assert converted(converter("unix"), schema, value) == (INT64, ms)


@pytest.mark.parametrize(
    ("precision", "number", "moment", "back"),
    [
        ("seconds", 86401, MOMENT.replace(microsecond=0), 86401),
        ("milliseconds", 86401234, MOMENT, 86401234),
        ("microseconds", 86401234999, MOMENT, 86401234000),
        ("nanoseconds", 86401234999999, MOMENT, 86401234000000),
        ("microseconds", -1999, dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC), -1000),
    ],
)
def test_numbers_have_the_unit_of_the_settings_and_lose_what_is_below_a_millisecond(precision, number, moment, back):
    assert converted(converter("Timestamp", unix_precision=precision), INT64, number)[1] == moment
    assert converted(converter("unix", unix_precision=precision), TIMESTAMP, moment)[1] == back


def test_one_field_is_converted_and_the_others_stay():
    schema = struct_schema({"ts": INT64.as_optional(), "other": STRING}, name="s")
    transform = converter("Timestamp", field="ts")
    changed = converted(transform, schema, {"ts": 86401234, "other": "x"})
    assert changed == (
        struct_schema({"ts": TIMESTAMP.as_optional(), "other": STRING}, name="s"),
        {"ts": MOMENT, "other": "x"},
    )
    assert converted(transform, schema, {"ts": None, "other": "x"})[1] == {"ts": None, "other": "x"}
    assert converted(transform, None, {"ts": 86401234, "x": 1})[1] == {"ts": MOMENT, "x": 1}
    assert converted(transform, None, {"x": 1})[1] == {"x": 1, "ts": None}
    assert converted(transform, None, None) == (None, None)
    assert converted(transform, schema.as_optional(), None)[1] is None


def test_defaults_are_converted_too():
    field = Schema(type=Type.INT64, optional=True, default=86401234)
    assert converted(converter("Timestamp", field="ts"), struct_schema({"ts": field}), {"ts": None})[1] == {
        "ts": MOMENT
    }
    kept = converter("Timestamp", field="ts", replace_null_with_default="false")
    assert converted(kept, struct_schema({"ts": field}), {"ts": None})[1] == {"ts": None}
    whole = Schema(type=Type.STRUCT, optional=True, fields=struct_schema({"ts": INT64}).fields, default={"ts": 0})
    schema, _ = converted(converter("Timestamp", field="ts"), whole, {"ts": 1})
    assert schema.default == {"ts": dt.datetime(1970, 1, 1, tzinfo=dt.UTC)}


def test_a_key_is_converted():
    record = SourceRecord(source_partition={}, source_offset={}, topic="t", key_schema=INT64, key=86401234)
    assert converter("Timestamp", TimestampConverterKey).apply(record).key == MOMENT


def test_what_is_no_timestamp_is_refused():
    transform = converter("unix", format="")
    for schema, value in (
        (INT32, 5),
        (None, 1.5),
        (None, True),
        (None, "text"),
        (None, [1]),
        (TIMESTAMP, MOMENT.replace(tzinfo=None)),
    ):
        with pytest.raises(DataError):
            converted(transform, schema, value)
    with pytest.raises(DataError, match="does not match"):
        converted(converter("unix"), STRING, "yesterday")
    with pytest.raises(DataError, match="year"):
        converted(converter("Timestamp", unix_precision="seconds"), INT64, 2**62)


def test_wrong_settings_are_refused_before_it_starts():
    with pytest.raises(InvalidConfig, match="format"):
        converter("string", format="")
    with pytest.raises(InvalidConfig, match="letter b"):
        converter("string", format="bad-format")
    with pytest.raises(InvalidConfig, match=r"target\.type"):
        converter("invalid")
    with pytest.raises(InvalidConfig, match=r"unix\.precision"):
        converter("unix", unix_precision="weeks")


@pytest.mark.parametrize(
    ("pattern", "text", "ms"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSX", "2024-02-29T12:00:00.123Z", 1709208000123),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2024-02-29T14:00:00.123+02:00", 1709208000123),
        ("yyyy-MM-dd HH:mm:ss Z", "2024-02-29 07:00:00 -0500", 1709208000000),
        ("yyyyMMddHHmmss", "20240229120000", 1709208000000),
        ("yyyy-MM-dd", "2024-02-29 and more", 1709164800000),
        ("d/M/yy h:mm a", "29/2/24 12:00 PM", 1709208000000),
        ("EEE, d MMM yyyy HH:mm:ss z", "Thu, 29 Feb 2024 12:00:00 GMT", 1709208000000),
        ("dd MMMM yyyy", "29 february 2024", 1709164800000),
        ("yyyy.D", "2024.60", 1709164800000),
        ("HH 'o''clock'", "12 o'clock", 43200000),
        ("HH''", "12'", 43200000),
        ("K a", "0 PM", 43200000),
        ("k", "24", 0),
        ("ss.S", "01.5", 1005),
        ("ss.SSSSSS", "01.500000", 1500),
    ],
)
def test_text_is_read_by_javas_patterns(pattern, text, ms):
    assert compile_format(pattern, this_year=2024).parse(text) == ms


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2024-02-29T12:00:00.123Z"),
        ("yy M d H m s S", "24 2 29 12 0 0 123"),
        ("EEEE EEE MMMM MMM a h K k D", "Thursday Thu February Feb PM 12 0 12 60"),
        ("SSSSSS Z z", "123000 +0000 UTC"),
    ],
)
def test_times_are_written_by_javas_patterns(pattern, text):
    assert compile_format(pattern, this_year=2024).format(1709208000123) == text


@pytest.mark.parametrize(("text", "year"), [("44-01-01", 2044), ("43-06-15", 2043), ("45-01-01", 1945)])
def test_two_digits_of_a_year_are_one_of_the_hundred_around_now(text, year):
    moment = compile_format("yy-MM-dd", this_year=2025).parse(text)
    assert dt.datetime.fromtimestamp(moment / 1000, dt.UTC).year == year


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", "2023-02-29"),
        ("yyyy-MM-dd", "24/02/29"),
        ("HH:mm", "24:00"),
        ("h a", "13 PM"),
        ("yyyy.D", "2023.366"),
        ("s.S", "1.1000"),
    ],
)
def test_times_that_do_not_exist_are_refused(pattern, text):
    with pytest.raises(DataError):
        compile_format(pattern, this_year=2024).parse(text)


@pytest.mark.parametrize("pattern", ["'open", "yyyy-QQ", "u"])
def test_patterns_that_are_not_understood_are_refused(pattern):
    with pytest.raises(ValueError, match="pattern"):
        compile_format(pattern, this_year=2024)
