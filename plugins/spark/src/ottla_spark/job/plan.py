"""What a job is to do, between the settings that say so and the Spark that does it. Nothing here knows either."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla_spark.formats.format import Format
from ottla_spark.job.query_text import SqlQuery
from ottla_spark.job.setting_types import Watermark

FILE_SINKS = frozenset({"parquet", "csv", "json", "orc", "text", "delta", "avro"})
"""Formats whose streaming sinks keep a batch's number beside its files: every row is there once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRead:
    """Topics as a table.

    Attributes:
        topics: their names; empty if there is a pattern.
        pattern: a regular expression for their names, or empty.
        options: of the data source, without those of Kafka clients that hold for the whole job.
        key: how keys are decoded.
        value: how values are decoded.
    """

    topics: tuple[str, ...] = ()
    pattern: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    key: Format
    value: Format

    def __str__(self) -> str:
        """Return what is read, as `ottla-query.json` and messages say it."""
        return f"topics matching {self.pattern}" if self.pattern else f"topic {', '.join(sorted(self.topics))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRead:
    """Anything that Spark reads.

    Attributes:
        format: its name.
        path: where it is; empty for formats without a path.
        schema: names and types of the columns; empty for the format's own.
        options: of Spark's reader.
    """

    format: str
    path: str = ""
    schema: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return what is read, as `ottla-query.json` and messages say it."""
        return f"{self.format} {self.path}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a query reads.

    Attributes:
        name: by which the query knows it.
        streaming: whether its rows are processed as they come.
        reading: what it is.
        watermark: how late its rows may come.
        deduplicate_by: columns; of rows that are equal in them only the first counts.
    """

    name: str
    streaming: bool
    reading: TopicRead | FormatRead
    watermark: Watermark | None = None
    deduplicate_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWrite:
    """A topic to write to.

    Attributes:
        topic: its name.
        key: how keys are encoded.
        value: how values are encoded.
        key_columns: the key's columns; empty for `_key`.
        value_columns: the value's columns; empty for all that do not begin with `_`.
        options: of the data source.
        exactly_once: whether each batch is one transaction, which is not written again.
    """

    topic: str
    key: Format
    value: Format
    key_columns: tuple[str, ...] = ()
    value_columns: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    exactly_once: bool = False

    def __str__(self) -> str:
        """Return what is written, as `ottla-query.json` and messages say it."""
        return f"topic {self.topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatWrite:
    """Anything else that Spark writes.

    Attributes:
        format: its name.
        path: where to; empty for formats without a path.
        partition_by: columns by whose values rows go to folders of their own.
        options: of Spark's writer.
    """

    format: str
    path: str = ""
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return what is written, as `ottla-query.json` and messages say it."""
        return f"{self.format} {self.path}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a query writes.

    Attributes:
        name: of the query and of its checkpoint.
        writing: where to.
        mode: append, update or complete.
        view: what is written; empty for the job's query.
    """

    name: str
    writing: TopicWrite | FormatWrite
    mode: str = "append"
    view: str = ""

    @property
    def is_exactly_once(self) -> bool:
        """Return whether it is a topic that is written in transactions."""
        return isinstance(self.writing, TopicWrite) and self.writing.exactly_once


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFunction:
    """A function that makes outputs of tables.

    Attributes:
        module: where it is.
        name: it.
        files: with the module and what it imports; shipped to the executors.
    """

    module: str
    name: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """All that a job does.

    Attributes:
        connector: the connector's name.
        tables: what is read.
        query: what is made of it.
        outputs: what is written.
        checkpoint_location: a path or a URI.
        trigger_interval: how often a batch begins.
        available_now: whether it ends when what there was at its start is done.
        topic_source: the format that reads and writes topics.
        kafka: options of Kafka clients that the connector sets, with `kafka.` before their names.
        spark: Spark's settings.
        commit_group: the group to which offsets are committed; empty for none.
    """

    connector: str
    tables: tuple[Table, ...]
    query: SqlQuery | PythonFunction
    outputs: tuple[Output, ...]
    checkpoint_location: str
    trigger_interval: str = "0 seconds"
    available_now: bool = False
    topic_source: str = "ottla"
    kafka: Mapping[str, str] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    commit_group: str = ""

    def commit_group_of(self, output: Output) -> str:
        """Return the group to which an output's query commits: its own, if there are several outputs."""
        if not self.commit_group or len(self.outputs) == 1:
            return self.commit_group
        return f"{self.commit_group}-{output.name}"
