"""The schema of test data, as users write it in JSON: a struct, and for each of its fields how values are made. Pure.

    {"name": "reading", "fields": {
        "sensor": {"generator": "pattern", "pattern": "s-[0-9]{3}"},
        "at": {"generator": "timestamp", "start": "2026-01-01T00:00:00Z", "step_ms": 1000},
        "celsius": {"generator": "normal", "mean": 21, "deviation": 3, "digits": 1, "null_probability": 0.01}}}

Each generator is a model here; its docstring and its fields' descriptions are what the documentation shows.
"""

import datetime as dt
import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ottla_datagen.patterns import InvalidPattern, pattern_writer
from ottla_sdk.schema import INTEGER_BITS, Type

CHOICES_MAX = 10_000
ITEMS_MAX = 1_000

IntegerType = Literal["int8", "int16", "int32", "int64"]
NumberType = Literal["int8", "int16", "int32", "int64", "float32", "float64", "decimal"]


class InvalidSchema(ValueError):
    """A schema cannot be used.

    Attributes:
        problems: all that is wrong with it, each with its place.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class _Generator(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    null_probability: float = Field(0.0, ge=0, le=1, description="How often there is no value, from 0 to 1.")


def integer_range(name: str) -> tuple[int, int]:
    """Return the least and the greatest value of a type of integers."""
    bits = INTEGER_BITS[Type(name.upper())]
    return -(1 << bits - 1), (1 << bits - 1) - 1


class _Number(_Generator):
    type: NumberType = Field("int32", description="The type of the numbers.")
    digits: int | None = Field(
        None, ge=0, le=18, description="Digits behind the point; of a decimal 2 if nothing is said."
    )

    def _check_range(self, *bounds: float | None) -> None:
        if self.type.startswith("int"):
            least, most = integer_range(self.type)
            for bound in bounds:
                if bound is not None and not least <= bound <= most:
                    raise ValueError(f"{bound:g} is no {self.type}")


class SequenceGenerator(_Generator):
    """Numbers in order: `start`, `start + step`, … A number beyond the type goes on at its other end."""

    generator: Literal["sequence"]
    type: IntegerType = Field("int64", description="The type of the numbers.")
    start: int = Field(0, description="The first record's number.")
    step: int = Field(1, description="What is added for each record.")
    modulo: int | None = Field(None, ge=1, description="After so many records the sequence begins again.")


class UniformGenerator(_Number):
    """Numbers that are all equally likely, from `min` to `max`."""

    generator: Literal["uniform"]
    min: float = Field(description="The least.")
    max: float = Field(description="The greatest.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_range(self.min, self.max)
        if self.min > self.max:
            raise ValueError("min is greater than max")
        if self.type.startswith("int") and not (self.min.is_integer() and self.max.is_integer()):
            raise ValueError("min and max must be whole numbers")
        return self


class NormalGenerator(_Number):
    """Numbers around `mean`, in the normal distribution."""

    generator: Literal["normal"]
    type: NumberType = Field("float64", description="The type of the numbers.")
    mean: float = Field(description="The mean.")
    deviation: float = Field(ge=0, description="The standard deviation.")
    min: float | None = Field(None, description="Numbers below are this.")
    max: float | None = Field(None, description="Numbers above are this.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_range(self.mean, self.min, self.max)
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min is greater than max")
        return self


class ZipfGenerator(_Generator):
    """Whole numbers from 1 to `size`, of which k is as likely as 1/k^`exponent`: few are frequent, many rare."""

    generator: Literal["zipf"]
    type: IntegerType = Field("int32", description="The type of the numbers.")
    size: int = Field(ge=1, le=1_000_000, description="The greatest number.")
    exponent: float = Field(1.0, ge=0, le=10, description="0: all are equally likely.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.size > integer_range(self.type)[1]:
            raise ValueError(f"{self.size} is no {self.type}")
        return self


class ChoiceGenerator(_Generator):
    """One of some values: all strings, all whole numbers, all numbers, or all booleans."""

    generator: Literal["choice"]
    values: list[bool | int | float | str] = Field(min_length=1, max_length=CHOICES_MAX, description="The values.")
    weights: list[Annotated[float, Field(ge=0)]] | None = Field(
        None, description="How likely each is, in proportion to the others; by default all are equally likely."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.weights is not None and (len(self.weights) != len(self.values) or not sum(self.weights)):
            raise ValueError("there must be as many weights as values, not all of them 0")
        self.kind  # noqa: B018  raises if there is none
        return self

    @property
    def kind(self) -> Type:
        """The type of the values."""
        kinds = {type(value) for value in self.values}
        if kinds == {int, float}:
            kinds = {float}
        if len(kinds) > 1:
            raise ValueError("the values must be of one type")
        (kind,) = kinds
        return {bool: Type.BOOLEAN, int: Type.INT64, float: Type.FLOAT64, str: Type.STRING}[kind]


class PatternGenerator(_Generator):
    r"""Strings that a pattern matches.

    In it are characters, `\d`, `\w`, `[a-f0-9]`, `(one|two)`, and behind each of these `?`, `{3}` or `{2,5}`.
    """

    generator: Literal["pattern"]
    pattern: str = Field(description="The pattern.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            pattern_writer(self.pattern)
        except InvalidPattern as error:
            raise ValueError(str(error)) from None
        return self


class UuidGenerator(_Generator):
    """UUIDs of version 4, as strings."""

    generator: Literal["uuid"]


class BooleanGenerator(_Generator):
    """True or false."""

    generator: Literal["boolean"]
    probability: float = Field(0.5, ge=0, le=1, description="How often true, from 0 to 1.")


class TimestampGenerator(_Generator):
    """Times that go on with the records: `start`, then `step_ms` later for each, and up to `jitter_ms` more."""

    generator: Literal["timestamp"]
    start: dt.datetime = Field(
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC), description="The first, in ISO 8601; without a zone it is UTC."
    )
    step_ms: int = Field(1000, ge=0, description="The time between two records, in ms.")
    jitter_ms: int = Field(0, ge=0, description="Up to so much is added at random, in ms.")


class DateGenerator(_Generator):
    """Dates that are all equally likely, from `min` to `max`."""

    generator: Literal["date"]
    min: dt.date = Field(description="The first, such as 2026-01-31.")
    max: dt.date = Field(description="The last.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min > self.max:
            raise ValueError("min is later than max")
        return self


class NameGenerator(_Generator):
    """Names of people and places."""

    generator: Literal["name"]
    kind: Literal["first", "last", "full", "email", "city", "country"] = Field(
        "full", description="What is named; email is an address made of a name."
    )


class WordsGenerator(_Generator):
    """Texts of several words."""

    generator: Literal["words"]
    min: int = Field(3, ge=0, le=ITEMS_MAX, description="Fewest words.")
    max: int = Field(8, ge=0, le=ITEMS_MAX, description="Most words.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min > self.max:
            raise ValueError("min is greater than max")
        return self


class BytesGenerator(_Generator):
    """Random bytes."""

    generator: Literal["bytes"]
    size: int = Field(ge=0, le=1_048_576, description="How many.")


class StructGenerator(_Generator):
    """A struct with fields of its own."""

    generator: Literal["struct"] = "struct"
    name: str | None = Field(None, description="The name of the struct's schema.")
    fields: "dict[str, FieldGenerator]" = Field(min_length=1, description="The fields, by name.")


class ArrayGenerator(_Generator):
    """A list."""

    generator: Literal["array"]
    items: "FieldGenerator" = Field(description="How each item is made.")
    min_length: int = Field(0, ge=0, le=ITEMS_MAX, description="Fewest items.")
    max_length: int = Field(3, ge=0, le=ITEMS_MAX, description="Most items.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min_length > self.max_length:
            raise ValueError("min_length is greater than max_length")
        return self


FieldGenerator = Annotated[
    SequenceGenerator
    | UniformGenerator
    | NormalGenerator
    | ZipfGenerator
    | ChoiceGenerator
    | PatternGenerator
    | UuidGenerator
    | BooleanGenerator
    | TimestampGenerator
    | DateGenerator
    | NameGenerator
    | WordsGenerator
    | BytesGenerator
    | StructGenerator
    | ArrayGenerator,
    Field(discriminator="generator"),
]

GENERATORS: tuple[type[_Generator], ...] = (
    SequenceGenerator,
    UniformGenerator,
    NormalGenerator,
    ZipfGenerator,
    ChoiceGenerator,
    PatternGenerator,
    UuidGenerator,
    BooleanGenerator,
    TimestampGenerator,
    DateGenerator,
    NameGenerator,
    WordsGenerator,
    BytesGenerator,
    StructGenerator,
    ArrayGenerator,
)
"""All there are, in the order of the documentation."""

StructGenerator.model_rebuild()
ArrayGenerator.model_rebuild()


def parse_schema(text: str) -> StructGenerator:
    """Return the schema that a JSON text says.

    Raises:
        InvalidSchema: lists everything that is wrong.
    """
    try:
        document = json.loads(text, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema([f"is not JSON: {error}"]) from None
    try:
        return StructGenerator.model_validate(document)
    except ValidationError as error:
        raise InvalidSchema([_problem(each) for each in error.errors(include_url=False)]) from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in an object")
    return made


def _problem(error: Any) -> str:
    # Behind a field's name, and behind `items`, pydantic puts the generator's name; users wrote no such level.
    location = iter(map(str, error["loc"]))
    parts = []
    for part in location:
        parts.append(part)
        if part == "fields":
            parts += [name for name in (next(location, None),) if name is not None]
        if part in ("fields", "items"):
            next(location, None)
    message = error["msg"].removeprefix("Value error, ")
    return f"{'.'.join(parts)}: {message}" if parts else message
