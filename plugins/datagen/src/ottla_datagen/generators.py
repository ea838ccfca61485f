"""Makes values out of draws: each field of a data schema becomes a schema and a function. Pure."""

import bisect
import datetime as dt
import decimal
import unicodedata
import uuid
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ottla_datagen import words
from ottla_datagen.data_schema import (
    ArrayGenerator,
    BooleanGenerator,
    BytesGenerator,
    ChoiceGenerator,
    DateGenerator,
    FieldGenerator,
    NameGenerator,
    NormalGenerator,
    NumberType,
    PatternGenerator,
    SequenceGenerator,
    StructGenerator,
    TimestampGenerator,
    UniformGenerator,
    UuidGenerator,
    WordsGenerator,
    ZipfGenerator,
    integer_range,
)
from ottla_datagen.draws import Draws
from ottla_datagen.patterns import pattern_writer
from ottla_sdk import Schema, schema
from ottla_sdk.schema import Type, array_schema, decimal_schema, struct_schema

_DECIMAL_DIGITS = 2
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_UUID_VERSION_4 = 4

Make = Callable[[Draws, int], Any]
"""Makes a value from the draws for a record and the record's number."""


class Made(NamedTuple):
    """How a field's values are made, and their schema."""

    schema: Schema
    make: Make


def compile_field(generator: FieldGenerator) -> Made:
    """Return how a field's values are made."""
    made = _compiled(generator)
    probability = generator.null_probability
    if not probability:
        return made
    make = made.make
    return Made(
        made.schema.as_optional(), lambda draws, number: None if draws.unit() < probability else make(draws, number)
    )


def _compiled(generator: FieldGenerator) -> Made:
    match generator:
        case StructGenerator():
            return _struct(generator)
        case ArrayGenerator():
            return _array(generator)
        case SequenceGenerator():
            return Made(_scalar(generator.type), _sequence(generator))
        case UniformGenerator() | NormalGenerator():
            return _number(generator)
        case ZipfGenerator():
            weights = [1 / rank**generator.exponent for rank in range(1, generator.size + 1)]
            return Made(_scalar(generator.type), _weighted(range(1, generator.size + 1), weights))
        case ChoiceGenerator():
            return _choice(generator)
        case TimestampGenerator():
            return Made(schema.TIMESTAMP, _timestamp(generator))
        case DateGenerator():
            return Made(schema.DATE, _date(generator))
        case BooleanGenerator(probability=probability):
            return Made(schema.BOOLEAN, lambda draws, _: draws.unit() < probability)
        case BytesGenerator():
            return Made(schema.BYTES, _bytes(generator.size))
        case _:
            return Made(schema.STRING, _string(generator))


def _string(generator: PatternGenerator | UuidGenerator | NameGenerator | WordsGenerator) -> Make:
    match generator:
        case PatternGenerator():
            write = pattern_writer(generator.pattern)
            return lambda draws, _: write(draws)
        case UuidGenerator():
            return _uuid
        case NameGenerator():
            return _NAMES[generator.kind]
        case WordsGenerator():
            return _words(generator)


def _scalar(name: str) -> Schema:
    return Schema(type=Type(name.upper()))


def _struct(generator: StructGenerator) -> Made:
    compiled = {name: compile_field(each) for name, each in generator.fields.items()}
    makers = [(name, each.make) for name, each in compiled.items()]
    shape = struct_schema({name: each.schema for name, each in compiled.items()}, name=generator.name)
    return Made(shape, lambda draws, number: {name: make(draws, number) for name, make in makers})


def _array(generator: ArrayGenerator) -> Made:
    items = compile_field(generator.items)
    make = items.make
    least, spread = generator.min_length, generator.max_length - generator.min_length + 1
    return Made(
        array_schema(items.schema),
        lambda draws, number: [make(draws, number) for _ in range(least + draws.below(spread))],
    )


def _sequence(generator: SequenceGenerator) -> Make:
    least, most = integer_range(generator.type)
    span = most - least + 1
    start, step, modulo = generator.start, generator.step, generator.modulo

    def make(_: Draws, number: int) -> int:
        value = start + step * (number % modulo if modulo else number)
        return least + (value - least) % span

    return make


def _number(generator: UniformGenerator | NormalGenerator) -> Made:
    if isinstance(generator, UniformGenerator):
        least, spread = generator.min, generator.max - generator.min
        if generator.type.startswith("int"):
            first, count = int(least), int(spread) + 1
            return Made(_scalar(generator.type), lambda draws, _: first + draws.below(count))
        return _rounded(generator.type, generator.digits, lambda draws: least + draws.unit() * spread)
    mean, deviation = generator.mean, generator.deviation
    low = float("-inf") if generator.min is None else generator.min
    high = float("inf") if generator.max is None else generator.max
    if generator.type.startswith("int"):
        low = max(low, integer_range(generator.type)[0])
        high = min(high, integer_range(generator.type)[1])
    return _rounded(
        generator.type, generator.digits, lambda draws: min(max(mean + deviation * draws.normal(), low), high)
    )


def _rounded(kind: NumberType, digits: int | None, draw: Callable[[Draws], float]) -> Made:
    if kind == "decimal":
        scale = _DECIMAL_DIGITS if digits is None else digits
        factor = 10**scale
        return Made(
            decimal_schema(scale), lambda draws, _: decimal.Decimal(round(draw(draws) * factor)).scaleb(-scale)
        )
    if kind.startswith("int"):
        least, most = integer_range(kind)
        return Made(_scalar(kind), lambda draws, _: min(max(round(draw(draws)), least), most))
    if digits is None:
        return Made(_scalar(kind), lambda draws, _: draw(draws))
    return Made(_scalar(kind), lambda draws, _: round(draw(draws), digits))


def _choice(generator: ChoiceGenerator) -> Made:
    kind = generator.kind
    values: Sequence[Any] = [float(each) for each in generator.values] if kind is Type.FLOAT64 else generator.values
    if generator.weights is None:
        return Made(Schema(type=kind), _one_of(values))
    return Made(Schema(type=kind), _weighted(values, generator.weights))


def _one_of(values: Sequence[Any]) -> Make:
    count = len(values)
    return lambda draws, _: values[draws.below(count)]


def _weighted(values: Sequence[Any], weights: Sequence[float]) -> Make:
    limits = list(accumulate(weights))
    total, last = limits[-1], len(values) - 1
    return lambda draws, _: values[min(bisect.bisect_right(limits, draws.unit() * total), last)]


def _timestamp(generator: TimestampGenerator) -> Make:
    start = generator.start if generator.start.tzinfo else generator.start.replace(tzinfo=dt.UTC)
    start_ms = (start - _EPOCH) // dt.timedelta(milliseconds=1)
    step_ms, jitter_ms = generator.step_ms, generator.jitter_ms

    def make(draws: Draws, number: int) -> dt.datetime:
        at_ms = start_ms + step_ms * number + (draws.below(jitter_ms + 1) if jitter_ms else 0)
        return _EPOCH + dt.timedelta(milliseconds=at_ms)

    return make


def _date(generator: DateGenerator) -> Make:
    first, count = generator.min.toordinal(), (generator.max - generator.min).days + 1
    return lambda draws, _: dt.date.fromordinal(first + draws.below(count))


def _uuid(draws: Draws, _: int) -> str:
    return str(uuid.UUID(int=draws.bits() << 64 | draws.bits(), version=_UUID_VERSION_4))


def _full_name(draws: Draws, _: int) -> str:
    return f"{_drawn(draws, words.FIRST_NAMES)} {_drawn(draws, words.LAST_NAMES)}"


def _email(draws: Draws, number: int) -> str:
    name = unicodedata.normalize("NFKD", _full_name(draws, number)).encode("ascii", "ignore").decode()
    return f"{name.lower().replace(' ', '.')}.{draws.below(1000)}@{_drawn(draws, words.EMAIL_DOMAINS)}"


def _drawn(draws: Draws, values: Sequence[str]) -> str:
    return values[draws.below(len(values))]


_NAMES: dict[str, Make] = {
    "first": _one_of(words.FIRST_NAMES),
    "last": _one_of(words.LAST_NAMES),
    "full": _full_name,
    "email": _email,
    "city": _one_of(words.CITIES),
    "country": _one_of(words.COUNTRIES),
}


def _words(generator: WordsGenerator) -> Make:
    least, spread = generator.min, generator.max - generator.min + 1
    return lambda draws, _: " ".join([_drawn(draws, words.WORDS) for _ in range(least + draws.below(spread))])


def _bytes(size: int) -> Make:
    return lambda draws, _: b"".join([draws.bits().to_bytes(8, "big") for _ in range((size + 7) // 8)])[:size]
