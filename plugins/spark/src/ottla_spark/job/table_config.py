"""Settings of what is read: how records become columns, and tables, which are topics or anything that Spark reads."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from ottla_sdk import CommaSeparated, Importance, InvalidConfig, PluginConfig, Problem, Width, setting
from ottla_spark.formats.format import AVRO, SAMPLE_ROWS_MAX, Format
from ottla_spark.job.nested_settings import NestedConfig
from ottla_spark.job.setting_types import BadRecords, FormatName, OptionalWatermark, Pattern, StartingOffsets

Part = Literal["key", "value"]

_RECORDS = "Records"
_SETTINGS = {
    "registry_url": "value.schema.registry.url",
    "sample_rows": "value.sample.records",
    "bad_records": "bad.records",
}
"""Keys of `Format` that are no setting of the key's or the value's alone."""


class DecodingConfig(PluginConfig):
    """How keys and values become columns, and where to begin."""

    key_format: FormatName = setting(
        "key.format",
        "string",
        doc="What keys are: the column `_key`, a struct with `json` and `avro`.",
        group=_RECORDS,
    )
    key_schema: str = setting(
        "key.schema", "", doc="The schema of keys with `json` or `avro`, as `value.schema`.", group=_RECORDS,
        width=Width.LONG,
    )  # fmt: skip
    value_format: FormatName = setting(
        "value.format",
        "json",
        doc="What values are. `json` and `avro`: their fields become columns; `string` and `bytes`: one column "
        "`value`.",
        importance=Importance.HIGH,
        group=_RECORDS,
    )
    value_schema: str = setting(
        "value.schema",
        "",
        doc="With `json`: names and types of the columns as SQL has them, such as `carrier STRING, dep_delay "
        "DOUBLE`. With `avro`: the schema in JSON. By default it is inferred from a sample of the topic when the "
        "connector starts for the first time, and kept in the checkpoint; with a schema registry, it is the latest "
        "there.",
        importance=Importance.HIGH,
        group=_RECORDS,
        width=Width.LONG,
    )
    sample_records: int = setting(
        "value.sample.records", 1000, doc="How many records to infer a schema from: the "
        "latest.", group=_RECORDS, ge=1,
        le=SAMPLE_ROWS_MAX,
    )  # fmt: skip
    registry_url: str = setting(
        "value.schema.registry.url",
        "",
        doc="With `avro`: the schema registry of records that begin with their schema's id, as Confluent's and "
        "Ottla's converters write them; for keys in `avro`, too.",
        group=_RECORDS,
        width=Width.LONG,
    )
    bad_records: BadRecords = setting(
        "bad.records",
        "fail",
        doc="What becomes of a record that does not match its format: it fails the query with a message that says "
        "which it is, has only nulls for columns, or is left out.",
        group=_RECORDS,
    )
    headers: bool = setting("include.headers", False, doc="Whether there is a column `_headers`.", group=_RECORDS)
    watermark: OptionalWatermark = setting(
        "watermark",
        None,
        doc="A column with the time of rows, and how late they may come, such as `time_hour 1 hour`. Windows end, "
        "and state is dropped, when that time has passed.",
        group=_RECORDS,
    )
    deduplicate_by: CommaSeparated = setting(
        "deduplicate.by",
        (),
        doc="Columns, with commas between: of rows that are equal in them only the first counts. With `watermark`, "
        "for as long as that is late; without, for ever, with state that only grows.",
        group=_RECORDS,
    )
    starting_offsets: StartingOffsets = setting(
        "starting.offsets",
        "earliest",
        doc="Where to begin without a checkpoint: `earliest`, `latest`, or offsets in JSON, in which -2 is the "
        "earliest and "
        '-1 the latest: `{"flights": {"0": 23, "1": -2}}`.',
        group=_RECORDS,
    )

    def format_of(self, part: Part) -> Format:
        """Return how keys or values are decoded.

        Raises:
            InvalidConfig: with keys of `Format`; `format_problems` translates them.
        """
        name, schema = (self.key_format, self.key_schema) if part == "key" else (self.value_format, self.value_schema)
        return Format(
            name=name,
            schema=schema.strip(),
            sample_rows=self.sample_records,
            registry_url=self.registry_url if name == AVRO else "",
            bad_records=self.bad_records,
        )

    def check(self) -> Iterable[Problem]:
        """Check the formats."""
        yield from super().check()
        yield from format_problems(self.format_of)
        yield from registry_problems(self.registry_url, self.key_format, self.value_format)
        for part, name, schema in (
            ("key", self.key_format, self.key_schema),
            ("value", self.value_format, self.value_schema),
        ):
            if name == AVRO and not schema.strip() and not self.registry_url:
                yield Problem(f"{part}.schema", "must be set with avro, unless value.schema.registry.url is")


class TableConfig(DecodingConfig, NestedConfig):
    """A table: a topic, topics that match a pattern, or anything that Spark reads."""

    mode: Literal["stream", "static"] = setting(
        "mode",
        "stream",
        doc="`stream`: rows are processed as they come. `static`: what is there, as a whole, to join a stream with "
        "it; a topic is read anew for every batch of the stream.",
        importance=Importance.HIGH,
    )
    topic: str = setting("topic", "", doc="The topic; by default the table's name.", importance=Importance.HIGH)
    pattern: Pattern = setting(
        "pattern", "", doc="Instead of `topic`: a regular expression; topics whose whole names match it."
    )
    format: str = setting(
        "format", "", doc="Instead of a topic: anything that Spark reads, such as `csv`, `parquet`, `jdbc`."
    )
    path: str = setting("path", "", doc="The path for `format`.", width=Width.LONG)
    row_schema: str = setting(
        "schema",
        "",
        doc="With `format`: names and types of the columns, as SQL has them; by default the format's own, or "
        "inferred.",
        width=Width.LONG,
    )
    reader_options: str = setting(
        "options.*", "", doc="Options of Spark's reader: of `format`, or of the data source of topics."
    )

    def check(self) -> Iterable[Problem]:
        """Check that it is one thing only."""
        yield from super().check()
        chosen = [
            key for key, value in (("topic", self.topic), ("pattern", self.pattern), ("format", self.format)) if value
        ]
        if len(chosen) > 1:
            yield Problem(chosen[1], f"is set beside {chosen[0]}; a table is one of both")
        if self.mode == "static" and self.watermark is not None:
            yield Problem("watermark", "is for streams; rows of a static table are never late")
        if not self.format:
            for key, value in (("path", self.path), ("schema", self.row_schema)):
                if value:
                    yield Problem(key, "is for tables that have a format, as topics have not")


class ReadConfig(NestedConfig):
    """What a SparkSource reads."""

    format: str = setting(
        "format",
        doc="Anything that Spark reads, such as `csv`, `json`, `parquet`, `jdbc`, `delta`, `rate`.",
        importance=Importance.HIGH,
        min_length=1,
    )
    path: str = setting(
        "path", "", doc="The path, for formats that have one.", importance=Importance.HIGH, width=Width.LONG
    )
    row_schema: str = setting(
        "schema",
        "",
        doc="Names and types of the columns, as SQL has them: `id BIGINT, name STRING`; by default the format's "
        "own, or inferred.",
        width=Width.LONG,
    )
    streaming: bool = setting(
        "streaming",
        False,
        doc="Whether to follow what is added, such as new files in a folder. Otherwise what is there is written "
        "once.",
        importance=Importance.HIGH,
    )
    watermark: OptionalWatermark = setting(
        "watermark", None, doc="With `streaming`: a column with the time of rows, and how late they may come."
    )
    reader_options: str = setting(
        "options.*", "", doc="Options of Spark's reader, such as `read.options.header` for `csv`."
    )

    def check(self) -> Iterable[Problem]:
        """Check that only streams have a watermark."""
        yield from super().check()
        if self.watermark is not None and not self.streaming:
            yield Problem("watermark", "is for streams; set streaming to true, or leave it out")


def format_problems(format_of: Callable[[Part], Format]) -> Iterator[Problem]:
    """Yield what is wrong with the formats of keys and values, under the settings' keys."""
    parts: tuple[Part, ...] = ("key", "value")
    for part in parts:
        try:
            format_of(part)
        except InvalidConfig as error:
            for problem in error.problems:
                yield Problem(_SETTINGS.get(problem.key, f"{part}.{problem.key}"), problem.message)


def registry_problems(url: str, *formats: str) -> Iterator[Problem]:
    """Yield a problem if there is a schema registry, but nothing in Avro."""
    if url and AVRO not in formats:
        yield Problem("value.schema.registry.url", "is set, but neither key.format nor value.format is avro")
