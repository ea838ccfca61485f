"""Settings of what is written: how columns become keys and values, and outputs, which are topics or anything else."""

from collections.abc import Iterable, Iterator

from ottla_sdk import CommaSeparated, Importance, PluginConfig, Problem, Width, setting
from ottla_spark.formats.format import AVRO, Format
from ottla_spark.job.nested_settings import NestedConfig
from ottla_spark.job.plan import FILE_SINKS
from ottla_spark.job.setting_types import (
    AT_LEAST_ONCE,
    DELIVERY_GUARANTEE,
    EXACTLY_ONCE,
    DeliveryGuarantee,
    FormatName,
    OutputMode,
)
from ottla_spark.job.table_config import Part, format_problems, registry_problems

_RECORDS = "Records"
TOPIC = "topic"


class EncodingConfig(PluginConfig):
    """How columns become keys and values."""

    key_columns: CommaSeparated = setting(
        "key.columns",
        (),
        doc="The columns that make the key; they stay in the value, too. By default the column `_key`, if there is "
        "one, and otherwise records have no key.",
        importance=Importance.HIGH,
        group=_RECORDS,
    )
    key_format: FormatName = setting(
        "key.format", "string", doc="How keys are written; several columns are an object in JSON with `string`, "
        "too, and cannot be `bytes`.",
        group=_RECORDS,
    )  # fmt: skip
    key_schema: str = setting(
        "key.schema", "", doc="With `avro`: the schema of keys; by default made from the columns.", group=_RECORDS,
        width=Width.LONG,
    )  # fmt: skip
    value_columns: CommaSeparated = setting(
        "value.columns",
        (),
        doc="The columns that make the value; by default all whose names do not begin with `_`.",
        group=_RECORDS,
    )
    value_format: FormatName = setting(
        "value.format", "json", doc="How values are written; `string` and `bytes` take one column.", group=_RECORDS
    )
    value_schema: str = setting(
        "value.schema", "", doc="With `avro`: the schema of values; by default made from the "
        "columns.", group=_RECORDS,
        width=Width.LONG,
    )  # fmt: skip
    registry_url: str = setting(
        "value.schema.registry.url",
        "",
        doc="With `avro`: a schema registry, in which the schema is kept; records begin with its id. For keys in "
        "`avro`, too.",
        group=_RECORDS,
        width=Width.LONG,
    )

    delivery_guarantee: DeliveryGuarantee = setting(
        DELIVERY_GUARANTEE,
        AT_LEAST_ONCE,
        doc="Of topics: `at-least-once`, or `exactly-once`, with which each batch is one transaction with its "
        "number in it, and is not written again when it is done again. Readers need "
        "`isolation.level=read_committed`.",
        group=_RECORDS,
    )

    @property
    def is_exactly_once(self) -> bool:
        """Return whether a topic is written in transactions."""
        return self.delivery_guarantee == EXACTLY_ONCE

    def format_of(self, part: Part) -> Format:
        """Return how keys or values are encoded.

        Raises:
            InvalidConfig: with keys of `Format`; `format_problems` translates them.
        """
        name, schema = (self.key_format, self.key_schema) if part == "key" else (self.value_format, self.value_schema)
        return Format(name=name, schema=schema.strip(), registry_url=self.registry_url if name == AVRO else "")

    def check(self) -> Iterable[Problem]:
        """Check what formats need."""
        yield from super().check()
        if len(self.key_columns) > 1 and self.key_format == "bytes":
            yield Problem(
                "key.columns", f"must be one column with the key.format {self.key_format}; json takes several"
            )
        if len(self.value_columns) > 1 and self.value_format in ("string", "bytes"):
            yield Problem("value.columns", f"must be one column with the value.format {self.value_format}")
        yield from format_problems(self.format_of)
        yield from registry_problems(self.registry_url, self.key_format, self.value_format)


class OutputConfig(EncodingConfig, NestedConfig):
    """An output: a topic, files, or anything that Spark writes."""

    topic: str = setting("topic", "", doc="The topic to write to.", importance=Importance.HIGH)
    format: str = setting(
        "format",
        "",
        doc="Anything that Spark writes. `parquet`, `csv`, `json`, `orc`, `text` and `delta` are written exactly "
        "once, others, such as `jdbc`, and topics, at least once. `topic` stands for a topic.",
        importance=Importance.HIGH,
    )
    path: str = setting(
        "path", "", doc="Where to, for formats that have a path.", importance=Importance.HIGH, width=Width.LONG
    )
    mode: OutputMode = setting(
        "mode",
        "append",
        doc="`append`: rows that change no more, which for windows with a watermark is when they have ended. "
        "`update`: rows that a batch has changed. `complete`: all rows of an aggregation, after every batch.",
        importance=Importance.HIGH,
    )
    partition_by: CommaSeparated = setting(
        "partition.by", (), doc="With files: columns by whose values rows go to folders of their own."
    )
    writer_options: str = setting("options.*", "", doc="Options of Spark's writer.")

    @property
    def is_topic(self) -> bool:
        """Return whether it is a topic."""
        return self.format in ("", TOPIC)

    def check(self) -> Iterable[Problem]:
        """Check that it is one thing only, and can be written in its mode."""
        yield from super().check()
        if self.is_topic:
            yield from self._topic_problems()
        else:
            yield from self._format_problems()

    def _topic_problems(self) -> Iterator[Problem]:
        if not self.topic:
            yield Problem("topic", "must be set, unless format says what else to write")
        for key, value in (("path", self.path), ("partition.by", self.partition_by)):
            if value:
                yield Problem(key, "is for files; a topic has none")

    def _format_problems(self) -> Iterator[Problem]:
        if self.is_exactly_once:
            yield Problem(DELIVERY_GUARANTEE, f"is for topics; how {self.format} is written is the format's own")
        if self.topic:
            yield Problem("topic", f"is set beside format {self.format}; an output is one of both")
        if self.format in FILE_SINKS:
            if not self.path:
                yield Problem("path", f"must be set for {self.format}")
            if self.mode != "append" and self.format != "delta":
                yield Problem("mode", f"must be append for {self.format}, as files are not changed once written")
        elif self.partition_by and not self.path:
            yield Problem("partition.by", f"is for files, which {self.format} without a path has not")


class NamedOutputConfig(OutputConfig):
    """An output of a pipeline."""

    view: str = setting(
        "from",
        "",
        doc="The view that is written: one that `sql` creates, or a table; by default what `sql` ends with.",
    )
