"""What a statement can be. Pure data, between those who read statements and those who carry them out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class DeployedKind(StrEnum):
    """The noun of a `CREATE … AS`."""

    PIPELINE = "pipeline"
    TABLE = "table"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class Leave:
    """`EXIT`."""


@dataclass(frozen=True, slots=True)
class Help:
    """`HELP`."""


@dataclass(frozen=True, slots=True)
class ShowTopics:
    """`SHOW TOPICS`."""


@dataclass(frozen=True, slots=True)
class ShowTables:
    """`SHOW TABLES`: topics, declared tables and Spark's own."""


@dataclass(frozen=True, slots=True)
class ShowPipelines:
    """`SHOW PIPELINES`."""


@dataclass(frozen=True, slots=True)
class DescribePipeline:
    """`DESCRIBE PIPELINE name`."""

    name: str


@dataclass(frozen=True, slots=True)
class DropPipeline:
    """`DROP PIPELINE [IF EXISTS] name [KEEP CHECKPOINT]`."""

    name: str
    if_exists: bool
    keep_checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class DropTable:
    """`DROP TABLE [IF EXISTS] name`; Spark's unless the name is declared.

    Attributes:
        text: the statement, for Spark.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Declare:
    """`CREATE TABLE name (columns) WITH (settings)`.

    Attributes:
        columns: as typed; empty where they are to be found out.
    """

    name: str
    columns: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A query.

    Attributes:
        text: for Spark, without EMIT CHANGES and, where that stood, without the LIMIT.
        emit_changes: whether results are shown as they change.
        rows_max: where a query that emits changes is to end; None for never.
    """

    text: str
    emit_changes: bool = False
    rows_max: int | None = None


@dataclass(frozen=True, slots=True)
class Deploy:
    """`CREATE PIPELINE name WITH (settings) AS query`."""

    kind: DeployedKind
    name: str
    settings: Mapping[str, str]
    query: Query
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class ForSpark:
    """Anything else."""

    text: str


Parsed = (
    Leave
    | Help
    | ShowTopics
    | ShowTables
    | ShowPipelines
    | DescribePipeline
    | DropPipeline
    | DropTable
    | Declare
    | Deploy
    | Query
    | ForSpark
)


@dataclass(frozen=True, slots=True)
class MadeView:
    """A temporary view that a statement of Spark's makes or drops.

    Attributes:
        name: the view's.
        statement: that makes it; empty if it is dropped.
    """

    name: str
    statement: str
