"""The settings of `DatagenSource`."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Literal

from ottla_datagen.data_schema import InvalidSchema, StructGenerator, parse_schema
from ottla_datagen.quick_starts import quick_start
from ottla_sdk import Importance, PluginConfig, Problem, Width, setting
from ottla_sdk.file_policy import permitted_path

_DATA = "Data"
_AMOUNT = "Amount"


class DatagenConfig(PluginConfig):
    """What to make, and how much of it."""

    topic: str = setting("topic", doc="The topic for the records.", importance=Importance.HIGH, min_length=1)
    quick_start: Literal["clickstream", "orders", "sensors", "trades", "users"] | None = setting(
        "datagen.quickstart",
        None,
        doc="A data schema that is ready to use. This, datagen.schema or datagen.schema.file must be set.",
        importance=Importance.HIGH,
        group=_DATA,
    )
    inline_schema: str | None = setting(
        "datagen.schema",
        None,
        doc="The data schema, in JSON: the fields, and for each how its values are made.",
        importance=Importance.HIGH,
        group=_DATA,
        width=Width.LONG,
    )
    schema_file: Path | None = setting(
        "datagen.schema.file", None, doc="A file with the data schema, on every worker.", group=_DATA
    )
    key_field: str = setting(
        "datagen.key.field", "", doc="The field that is the key of the records too; none if empty.", group=_DATA
    )
    timestamp_field: str = setting(
        "datagen.timestamp.field",
        "",
        doc="The field, made by the generator timestamp, that is the records' timestamp too; if empty, the records "
        "have the time at which they are produced.",
        group=_DATA,
    )
    seed: int = setting(
        "datagen.seed",
        0,
        doc="Every record is a function of this and of its number: the same seed gives the same records again.",
        group=_DATA,
        ge=0,
    )
    count: int = setting(
        "datagen.count", 0, doc="How many records there are, all tasks together; 0 means no end.", group=_AMOUNT, ge=0
    )
    rate_per_second: float = setting(
        "datagen.rate",
        10.0,
        doc="How many records are made in a second, all tasks together; 0 means as many as possible.",
        importance=Importance.HIGH,
        group=_AMOUNT,
        ge=0,
        le=10_000_000,
    )
    batch_records_max: int = setting(
        "datagen.batch.records.max", 1000, doc="Most records to hand on at once.", group=_AMOUNT, ge=1, le=100_000
    )

    @cached_property
    def data_schema(self) -> StructGenerator:
        """The data schema.

        Raises:
            InvalidSchema: it cannot be used, or its file cannot be read.
        """
        if self.quick_start is not None:
            return parse_schema(quick_start(self.quick_start))
        if self.inline_schema is not None:
            return parse_schema(self.inline_schema)
        assert self.schema_file is not None, "check has seen that one of the three is set"
        try:
            return parse_schema(permitted_path(self.schema_file).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidSchema([f"cannot be read: {error}"]) from None

    def check(self) -> Iterable[Problem]:
        """Return what is wrong with the settings taken together; a schema's file is looked into later."""
        given = {
            "datagen.quickstart": self.quick_start,
            "datagen.schema": self.inline_schema,
            "datagen.schema.file": self.schema_file,
        }
        chosen = [key for key, value in given.items() if value is not None]
        if not chosen:
            yield Problem("datagen.quickstart", "this, datagen.schema or datagen.schema.file must be set")
        for extra in chosen[1:]:
            yield Problem(extra, f"must not be set, as {chosen[0]} is")
        if len(chosen) == 1 and self.schema_file is None:
            yield from self.schema_problems()

    def schema_problems(self) -> Iterable[Problem]:
        """Return what is wrong with the data schema, and with the settings that name its fields."""
        key = "datagen.schema.file" if self.schema_file is not None else "datagen.schema"
        try:
            fields = self.data_schema.fields
        except InvalidSchema as error:
            yield from (Problem(key, problem) for problem in error.problems)
            return
        if self.key_field and self.key_field not in fields:
            yield Problem("datagen.key.field", f"there is no field {self.key_field}, but {', '.join(fields)}")
        if self.timestamp_field and (
            self.timestamp_field not in fields or fields[self.timestamp_field].generator != "timestamp"
        ):
            yield Problem("datagen.timestamp.field", f"there is no field {self.timestamp_field} made by timestamp")


class DatagenTaskConfig(DatagenConfig):
    """A task's settings: the connector's, and which part of the numbers is its own."""

    task_index: int = setting("datagen.task.index", 0, doc="The task's number, from 0; set by the connector.", ge=0)
    task_count: int = setting(
        "datagen.task.count", 1, doc="How many tasks share the numbers; set by the connector.", ge=1
    )
