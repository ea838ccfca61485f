"""Carries out statements one by one: what is Spark's in Spark's thread, what is the prompt's own here."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ottla_sdk import ConnectError
from ottla_spark.cluster.executors import WAITING
from ottla_spark.messages import in_plain_words
from ottla_spark.sql.catalog import Catalog
from ottla_spark.sql.deployment import Deployment
from ottla_spark.sql.grammar import made_view, parse
from ottla_spark.sql.help_text import HELP
from ottla_spark.sql.progress import ProgressLine, progress_line
from ottla_spark.sql.queries import Head, Piece, show_all, show_changes
from ottla_spark.sql.read_names import read_names
from ottla_spark.sql.result_format import ResultFormat
from ottla_spark.sql.results import Results, counted
from ottla_spark.sql.screen import note, write_out
from ottla_spark.sql.spark_thread import SparkThread, TimedOut, Work
from ottla_spark.sql.sql_errors import Interrupted, SqlProblem
from ottla_spark.sql.statement_kinds import (
    Declare,
    Deploy,
    DescribePipeline,
    DropPipeline,
    DropTable,
    ForSpark,
    Help,
    Leave,
    Parsed,
    Query,
    ShowPipelines,
    ShowTables,
    ShowTopics,
)
from ottla_spark.sql.tables import declared_table

TABLE_ROWS_MAX = 1_000
"""How many rows a table shows unless `--max-rows` says otherwise; other formats show all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementOptions:
    """How statements are carried out.

    Attributes:
        form: how results are written.
        rows_max: how many rows of a result are shown; None for the format's own number.
        timeout_s: how long a statement may take.
        stream: whether every query emits changes.
    """

    form: ResultFormat = ResultFormat.TABLE
    rows_max: int | None = None
    timeout_s: float | None = None
    stream: bool = False


class Interpreter:
    """A session: what was declared in it, and Spark.

    Args:
        spark: Spark's thread.
        catalog: what names stand for.
        deployment: where pipelines run.
        options: how results are shown.
    """

    def __init__(
        self, spark: SparkThread, catalog: Catalog, deployment: Deployment, options: StatementOptions
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._deployment = deployment
        self._options = options

    def run(self, text: str) -> bool:
        """Carry out a statement, and tell whether there may be another.

        Raises:
            SqlProblem: it cannot be carried out.
            Interrupted: Ctrl-C.
            ReaderGone: nobody reads the result.
        """
        with in_words():
            parsed = parse(text)
            if isinstance(parsed, Leave):
                return False
            self._run(parsed)
        return True

    def _run(self, parsed: Parsed) -> None:
        match parsed:
            case Help():
                write_out(HELP)
            case ShowTopics():
                topics = self._catalog.topics.visible()
                rows = [(each.name, each.partitions, each.replicas) for each in topics]
                self._show(["topic", "partitions", "replicas"], rows)
            case ShowTables():
                self._show(["table", "kind", "reads"], self._tables())
            case ShowPipelines():
                self._show(
                    ["pipeline", "state", "reads", "writes"], [list(each.values()) for each in self._deployment.all()]
                )
            case DescribePipeline(name):
                self._show(["property", "value"], list(self._deployment.described(name).items()))
            case DropPipeline(name, if_exists, keep_checkpoint):
                self._note(self._deployment.drop(name, if_exists=if_exists, keep_checkpoint=keep_checkpoint))
            case DropTable(name, text):
                self._drop_table(name, text)
            case Declare():
                self._declare(parsed)
            case Deploy():
                self._deploy(parsed)
            case Query():
                self._query(parsed)
            case ForSpark(text):
                self._for_spark(text)

    def _query(self, query: Query) -> None:
        if self._options.stream and not query.emit_changes:
            with_changes = parse(f"{query.text} EMIT CHANGES")
            assert isinstance(with_changes, Query), "a query stays one"
            query = with_changes
        if query.emit_changes:
            self._changes(query)
        else:
            self._for_spark(query.text)

    def _for_spark(self, text: str) -> None:
        rows_max = self._options.rows_max
        if rows_max is None and self._options.form is ResultFormat.TABLE:
            rows_max = TABLE_ROWS_MAX

        self._check_names(text)

        def statement(spark: SparkSession, work: Work) -> None:
            frame, _ = self._catalog.analyzed(spark, text)
            show_all(frame, work, rows_max)

        self._show_chunks(statement)
        made = made_view(text)
        if made is not None:
            self._catalog.temporary_views.pop(made.name, None)
            if made.statement:
                self._catalog.temporary_views[made.name] = made.statement

    def _check_names(self, text: str) -> None:
        """Tell of a topic that is not there before Spark has started, which takes seconds."""
        if self._spark.has_no_tables:
            self._catalog.check_names(read_names(text))

    def _changes(self, query: Query) -> None:
        self._check_names(query.text)
        limits = [each for each in (query.rows_max, self._options.rows_max) if each is not None]

        def statement(spark: SparkSession, work: Work) -> None:
            frame, _ = self._catalog.analyzed(spark, query.text, streaming=True)
            show_changes(frame, work, min(limits, default=None))

        try:
            self._show_chunks(statement)
        except TimedOut:
            return

    def _show_chunks(self, statement: Callable[[SparkSession, Work], None]) -> None:
        """Show what a statement emits, and how long it took."""
        results: Results | None = None
        is_cut = False
        with progress_line(self._spark.tasks, lambda: results.row_count if results is not None else 0) as line:
            self._spark.started()
            began_s = time.monotonic()
            shown = self._spark.chunks(statement, self._options.timeout_s, lambda: self._note(WAITING, line))
            with closing(shown) as chunks:
                for chunk in chunks:
                    if isinstance(chunk, Head):
                        results = (
                            Results(self._options.form, chunk.schema, chunk.zone) if chunk.schema.fields else None
                        )
                    elif isinstance(chunk, Piece) and results is not None:
                        _hide(line)
                        if chunk.rows or not results.row_count:
                            results.write(chunk.rows, anew=chunk.anew)
                        is_cut = is_cut or chunk.is_cut
        took = f"{time.monotonic() - began_s:.1f} s"
        if results is None:
            self._note(f"done in {took}")
        elif is_cut:
            self._note(f"the first {counted(results.row_count, 'row')}, in {took}; --max-rows shows more")
        else:
            self._note(f"{counted(results.row_count, 'row')} in {took}")

    def _deploy(self, deploy: Deploy) -> None:
        def statement(spark: SparkSession, work: Work) -> None:
            work.emit(self._deployment.configured(spark, self._catalog, deploy))

        if deploy.if_not_exists and self._deployment.exists(deploy.name):
            self._note(f"there is a pipeline {deploy.name} already")
            return
        self._check_names(deploy.query.text)
        with (
            progress_line(self._spark.tasks, int),
            closing(self._spark.chunks(statement, self._options.timeout_s)) as chunks,
        ):
            (config,) = chunks
        self._note(self._deployment.create(deploy.name, config, self._catalog.topics))
        self._catalog.topics.forget()

    def _declare(self, declared: Declare) -> None:
        key = declared.name.lower()
        if key in self._catalog.declared and not declared.or_replace:
            if declared.if_not_exists:
                return
            raise SqlProblem(f"there is a table {declared.name} already; CREATE OR REPLACE TABLE declares it anew")
        table = declared_table(declared)
        if table.topic:
            self._catalog.check_topic(table.topic)
        self._catalog.declared[key] = table
        self._note(f"declared {declared.name}")

    def _drop_table(self, name: str, text: str) -> None:
        if self._catalog.declared.pop(name.lower(), None) is None:
            self._for_spark(text)
        else:
            self._note(f"forgot {name}")

    def _tables(self) -> list[Sequence[Any]]:
        found: list[Sequence[Any]] = []

        def statement(spark: SparkSession, work: Work) -> None:
            self._catalog.drop_views(spark)
            for row in spark.sql("SHOW TABLES").collect():
                work.emit((row["tableName"], "view" if row["isTemporary"] else "table", row["namespace"] or None))

        with closing(self._spark.chunks(statement, self._options.timeout_s)) as chunks:
            found += chunks
        for table in self._catalog.declared.values():
            reads = table.topic or table.config.pattern or f"{table.config.format} {table.config.path}".strip()
            found.append((table.name, "declared", reads))
        found += [(topic.name, "topic", topic.name) for topic in self._catalog.topics.visible()]
        return found

    def _show(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Show a result of the prompt itself."""
        whole = [bool(rows) and all(isinstance(row[index], int) for row in rows) for index in range(len(columns))]
        fields = [
            StructField(name, LongType() if is_whole else StringType())
            for name, is_whole in zip(columns, whole, strict=True)
        ]
        Results(self._options.form, StructType(fields)).write(rows)

    def _note(self, text: str, line: ProgressLine | None = None) -> None:
        if self._options.form is ResultFormat.TABLE:
            if line is not None:
                line.hide()
            note(text)


def _hide(line: ProgressLine) -> None:
    """Take the line away before rows are shown: for good where they are on the same screen."""
    if sys.stdout.isatty():
        line.end()
    else:
        line.hide()


@contextmanager
def in_words() -> Iterator[None]:
    """Turn what Spark, Java and the plugin raise inside into one message.

    Raises:
        SqlProblem: instead of them.
        Interrupted: Ctrl-C.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted from None
    except (PySparkException, Py4JError, ConnectError, ConnectionError) as error:
        raise SqlProblem(in_plain_words(error)) from None
