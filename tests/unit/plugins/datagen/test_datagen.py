"""Test data: the same for the same seed, in the schema that was asked for, at the rate that was asked for."""

import datetime as dt
import decimal
import json
import re
import time
from collections import Counter
from pathlib import Path
from statistics import mean, stdev
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_datagen import DatagenSource
from ottla_datagen.config import DatagenConfig
from ottla_datagen.data_schema import GENERATORS, FieldGenerator, InvalidSchema, parse_schema
from ottla_datagen.draws import Draws
from ottla_datagen.generators import compile_field
from ottla_datagen.patterns import InvalidPattern, pattern_writer
from ottla_datagen.quick_starts import NAMES
from ottla_sdk import InvalidConfig
from ottla_sdk.conformance import SourceRun, source_connector_suite
from ottla_sdk.schema import check_value

TestOrders = source_connector_suite(
    DatagenSource,
    settings={
        "topic": "orders",
        "datagen.quickstart": "orders",
        "datagen.count": "40",
        "datagen.rate": "0",
        "datagen.batch.records.max": "7",
        "datagen.key.field": "order_id",
        "datagen.timestamp.field": "ordered_at",
    },
    expect_records=40,
    bad_settings=[
        ({"datagen.quickstart": None}, ["datagen.quickstart"]),
        ({"datagen.schema": "{}", "topic": ""}, ["topic"]),
        ({"datagen.schema": "{}"}, ["datagen.schema"]),
        ({"datagen.quickstart": None, "datagen.schema": "{"}, ["datagen.schema"]),
        (
            {"datagen.key.field": "x", "datagen.timestamp.field": "status"},
            ["datagen.key.field", "datagen.timestamp.field"],
        ),
    ],
)
TestEndless = source_connector_suite(
    DatagenSource,
    settings={"topic": "t", "datagen.quickstart": "users", "datagen.rate": "0", "datagen.batch.records.max": "5"},
    expect_records=30,
    is_endless=True,
)


def values(fields: dict[str, Any], count: int = 2000) -> dict[str, list[Any]]:
    """Return what the fields of a schema hold in so many records, all of which fit the schema."""
    shape, make = compile_field(parse_schema(json.dumps({"fields": fields})))
    draws = Draws(1)
    made = []
    for number in range(count):
        draws.begin(number)
        made.append(make(draws, number))
        check_value(shape, made[-1])
    return {name: [each[name] for each in made] for name in fields}


@pytest.mark.parametrize("name", NAMES)
def test_every_quick_start_makes_records_of_its_schema(name: str) -> None:
    with SourceRun(DatagenSource, {"topic": "t", "datagen.quickstart": name, "datagen.rate": "0"}) as run:
        for record in run.poll():
            assert record.value_schema is not None
            check_value(record.value_schema, record.value)


def test_the_setting_knows_every_quick_start() -> None:
    (choices, _) = get_args(DatagenConfig.model_fields["quick_start"].annotation)

    assert get_args(choices) == NAMES


def test_every_generator_is_in_the_union_and_documented() -> None:
    (union, *_) = get_args(FieldGenerator)

    assert get_args(union) == GENERATORS
    for generator in GENERATORS:
        assert generator.__doc__
        undocumented = [name for name, info in generator.model_fields.items() if not info.description]
        assert undocumented == ["generator"]


def test_records_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    def first(seed: int) -> list[object]:
        settings = {"topic": "t", "datagen.quickstart": "clickstream", "datagen.rate": "0", "datagen.seed": str(seed)}
        with SourceRun(DatagenSource, settings) as run:
            return [record.value for record in run.poll()]

    assert first(1) == first(1)
    assert not [pair for pair in zip(first(1), first(2), strict=True) if pair[0] == pair[1]]


def test_the_first_records_of_a_seed_stay_what_they_are() -> None:
    # Whoever counts on the same data would notice another release.
    draws = Draws(42)
    draws.begin(0)
    first = [draws.bits(), draws.below(100), round(draws.unit(), 6), round(draws.normal(), 6)]
    draws.begin(1)

    assert [*first, draws.bits()] == FIRST_OF_42


FIRST_OF_42 = [11_338_124_010_319_451_123, 45, 0.206392, -0.025002, 816363384554698877]


def test_a_connector_goes_on_where_it_stopped_with_another_number_of_tasks() -> None:
    settings = {"topic": "t", "datagen.quickstart": "trades", "datagen.rate": "0", "datagen.count": "100"}
    everything = [*settings.items(), ("datagen.batch.records.max", "9")]
    with SourceRun(DatagenSource, dict(everything), tasks_max=3) as run:
        for number in (0, 1, 1, 2, 0):
            run.poll(number)
        run.commit()
    before = [record.source_offset["number"] for record in run.all_records]
    with SourceRun(DatagenSource, dict(everything), tasks_max=50, offsets=run.offsets) as run:
        assert len(run.tasks) == 16
        run.read(100 - len(before))
    after = [record.source_offset["number"] for record in run.all_records]
    assert sorted(before + after) == list(range(100))


def test_records_come_at_the_rate_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [time.monotonic()]
    monkeypatch.setattr("ottla_datagen.source.time.monotonic", lambda: now_s[0])
    settings = {"topic": "t", "datagen.quickstart": "sensors", "datagen.rate": "50"}
    with SourceRun(DatagenSource, settings) as run:
        run.tasks[0].context.request_stop()  # so that nothing waits
        for _ in range(1000):
            run.poll()
            now_s[0] += 0.01
        assert 495 <= len(run.all_records) <= 505
        now_s[0] += 3600
        assert len(run.poll()) <= 51


def test_numbers_are_distributed_as_they_should() -> None:
    made = values(
        {
            "sequence": {"generator": "sequence", "type": "int8", "start": 126, "step": 1},
            "cycle": {"generator": "sequence", "modulo": 3, "step": -2},
            "uniform": {"generator": "uniform", "min": -3, "max": 3},
            "part": {"generator": "uniform", "type": "float64", "min": 0, "max": 1},
            "price": {"generator": "uniform", "type": "decimal", "min": 0, "max": 10, "digits": 3},
            "normal": {"generator": "normal", "mean": 100, "deviation": 10},
            "bounded": {"generator": "normal", "type": "int8", "mean": 120, "deviation": 50, "min": 0},
            "zipf": {"generator": "zipf", "size": 100, "exponent": 1.0},
            "rare": {"generator": "boolean", "probability": 0.1, "null_probability": 0.5},
        }
    )

    assert made["sequence"][:4] == [126, 127, -128, -127]
    assert made["cycle"][:4] == [0, -2, -4, 0]
    assert set(made["uniform"]) == set(range(-3, 4))
    assert 0.47 < mean(made["part"]) < 0.53
    assert {price.as_tuple().exponent for price in made["price"]} == {-3}
    assert 99 < mean(made["normal"]) < 101
    assert 9.5 < stdev(made["normal"]) < 10.5
    assert max(made["bounded"]) == 127
    counts = Counter(made["zipf"])
    assert 1.6 < counts[1] / counts[2] < 2.5
    assert 900 < sum(each is None for each in made["rare"]) < 1100
    assert 60 < sum(each is True for each in made["rare"]) < 140


def test_other_values_are_what_they_should() -> None:
    made = values(
        {
            "choice": {"generator": "choice", "values": ["a", "b"], "weights": [0, 1]},
            "level": {"generator": "choice", "values": [1, 2.5]},
            "id": {"generator": "uuid"},
            "at": {"generator": "timestamp", "start": "2026-01-01T01:00:00+01:00", "step_ms": 1000, "jitter_ms": 999},
            "day": {"generator": "date", "min": "2026-01-01", "max": "2026-01-02"},
            "mail": {"generator": "name", "kind": "email"},
            "text": {"generator": "words", "min": 2, "max": 3},
            "raw": {"generator": "bytes", "size": 11},
            "list": {"generator": "array", "min_length": 1, "max_length": 2, "items": {"generator": "uuid"}},
            "date": {"generator": "struct", "fields": {"deep": {"generator": "sequence"}}},
        },
        count=200,
    )

    assert set(made["choice"]) == {"b"}
    assert set(made["level"]) == {1.0, 2.5}
    assert len(set(made["id"])) == 200
    assert all(
        re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", each)
        for each in made["id"]
    )
    assert made["at"] == sorted(made["at"])
    assert made["at"][0].replace(microsecond=0) == dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert set(made["day"]) == {dt.date(2026, 1, 1), dt.date(2026, 1, 2)}
    assert all(re.fullmatch(r"[a-z.]+\.\d+@example\.(com|net|org)", each) for each in made["mail"])
    assert {len(each.split()) for each in made["text"]} == {2, 3}
    assert {len(each) for each in made["raw"]} == {11}
    assert {len(each) for each in made["list"]} == {1, 2}
    assert made["date"][7] == {"deep": 7}


@pytest.mark.parametrize(
    "pattern",
    [r"[A-C]{2}-\d{1,3}", r"(one|two|)x?", r"\w\\\[[^\]-]", r"a(b(c|d){2}){0,2}", "192\\.0", "[-a]", "ü{3}"],
)
def test_patterns_match_what_they_make(pattern: str) -> None:
    write = pattern_writer(pattern)
    draws = Draws(7)
    made = set()
    for number in range(200):
        draws.begin(number)
        made.add(write(draws))

    if "^" not in pattern:  # which means nothing special here
        assert all(re.fullmatch(pattern, each) for each in made)
    assert made


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "a)",
        "[",
        "[]",
        "[b-a]",
        "a{",
        "a{2",
        "a{x}",
        "a{3,2}",
        "a{1001}",
        "*",
        "a+",
        "\\",
        "((a{1000}){1000})",
        "{2}",
    ],
)
def test_patterns_that_make_no_sense_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        pattern_writer(pattern)


@given(st.text(st.sampled_from("ab(|)[]{2,}?\\d-"), max_size=12))
def test_every_pattern_is_refused_or_written(pattern: str) -> None:
    try:
        write = pattern_writer(pattern)
    except InvalidPattern:
        return
    assert isinstance(write(Draws(0)), str)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("{", ["is not JSON"]),
        ('{"fields": {"a": {"generator": "uuid"}, "a": {"generator": "uuid"}}}', ["'a' stands twice"]),
        ('{"fields": {}}', ["fields: "]),
        (
            '{"fields": {"date": {"generator": "uniform", "min": 2, "max": 1}, "b": {"generator": "no such"},'
            ' "c": {"generator": "array", "items": {"generator": "zipf", "size": 0}},'
            ' "d": {"generator": "uuid", "x": 1}}}',
            ["fields.date: min is greater than max", "fields.b: ", "fields.c.items.size: ", "fields.d.x: "],
        ),
        (
            '{"fields": {"a": {"generator": "uniform", "type": "int8", "min": 0, "max": 128}}}',
            ["fields.a: 128 is no int8"],
        ),
        (
            '{"fields": {"a": {"generator": "choice", "values": [1, "x"]}}}',
            ["fields.a: the values must be of one type"],
        ),
        ('{"fields": {"a": {"generator": "pattern", "pattern": "("}}}', ["fields.a: pattern '('"]),
    ],
)
def test_everything_wrong_with_a_schema_is_named_with_its_place(text: str, problems: list[str]) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse_schema(text)
    for problem in problems:
        assert [each for each in refused.value.problems if problem in each], refused.value.problems


def test_a_schema_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    settings = {"topic": "t", "datagen.schema.file": str(path), "datagen.rate": "0", "datagen.key.field": "b"}
    source = DatagenSource()
    source.configure(settings)
    assert ["cannot be read" in problem.message for problem in source.check()] == [True]

    path.write_text('{"fields": {"a": {"generator": "uniform", "type": "decimal", "min": 1, "max": 1}}}')
    source = DatagenSource()
    source.configure(settings)
    assert [problem.key for problem in source.check()] == ["datagen.key.field"]

    with SourceRun(DatagenSource, {**settings, "datagen.key.field": "a"}) as run:
        assert run.poll()[0].value == {"a": decimal.Decimal("1.00")}


def test_offsets_that_users_set_must_be_numbers_of_their_lane() -> None:
    source = DatagenSource()

    assert not list(source.check_offsets([({"lane": 3}, {"number": 19}), ({"lane": 3}, None)]))
    assert len(list(source.check_offsets([({"lane": 16}, None), ({"lane": 3}, {"number": 18}), ({}, None)]))) == 3


def test_bad_settings_name_the_field_of_the_schema() -> None:
    with pytest.raises(InvalidConfig, match=r"datagen\.schema: fields\.a\.mean"):
        DatagenConfig.parse(
            {"topic": "t", "datagen.schema": '{"fields": {"a": {"generator": "normal", "deviation": 1}}}'}
        )
