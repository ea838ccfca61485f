"""What Spark's thread does for a statement: run a query over what is there now, or one that goes on.

Results are handed to the main thread as a `Head` and pieces of rows. A query that emits changes is a streaming query
whose batches are collected here; how its results change follows from its plan.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import tzinfo

from py4j.java_gateway import JavaObject
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import Row, StructType

from ottla_spark.sql.pipelines import output_mode
from ottla_spark.sql.rendering import zone_named
from ottla_spark.sql.row_streams import RowsLost, row_batches
from ottla_spark.sql.spark_thread import LOOK_INTERVAL_S, Cancelled, Work
from ottla_spark.sql.sql_errors import SqlProblem

COLLECTED_ROWS_MAX = 1_000
"""So many rows may be in Java's memory at once."""
TRIGGER = "300 milliseconds"
ZONE_KEY = "spark.sql.session.timeZone"
COMPLETE = "complete"
AGGREGATIONS = ("Aggregate", "Distinct")
"""Names of a plan's nodes that keep a row per group."""
ROW_BY_ROW = ("Project", "LocalLimit", "GlobalLimit")
"""Nodes that make no more rows than they get."""
MODES = ("append", "update", COMPLETE)


@dataclass(frozen=True, slots=True)
class Head:
    """What a result consists of; comes before its rows.

    Attributes:
        schema: its columns; without any, the statement has no result.
        zone: in which times are to be shown.
    """

    schema: StructType
    zone: tzinfo


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows.

    Attributes:
        rows: in the columns' order.
        anew: whether they replace all rows before them.
        is_cut: whether there are more that are not shown.
    """

    rows: list[Row]
    anew: bool = False
    is_cut: bool = False


def show_all(frame: DataFrame, work: Work, rows_max: int | None) -> None:
    """Emit what a query finds now.

    Args:
        frame: the query.
        work: to which it belongs.
        rows_max: how many rows are shown; None for all.

    Raises:
        SqlProblem: Python has no such value, as a time beyond the year 9999, or rows were lost on their way.
    """
    work.emit(Head(frame.schema, _zone(frame.sparkSession)))
    if not frame.columns:
        return
    try:
        _show_rows(frame, work, rows_max)
    except (OverflowError, ValueError) as error:
        raise SqlProblem(f"a value cannot be shown ({error}): have Spark write it, by CAST(… AS STRING)") from None
    except RowsLost as error:
        raise SqlProblem(f"the result is not complete: {error}") from None


def _show_rows(frame: DataFrame, work: Work, rows_max: int | None) -> None:
    if _has_few_rows(frame) or (rows_max is not None and rows_max <= COLLECTED_ROWS_MAX):
        few = (frame if rows_max is None else frame.limit(rows_max + 1)).collect()
        work.emit(Piece(few[:rows_max], is_cut=rows_max is not None and len(few) > rows_max))
        return

    def on_part(number: int, count: int) -> None:
        work.parts_done, work.parts = number, count

    with contextlib.closing(row_batches(frame, on_part)) as batches:
        for piece in _pieces(batches, rows_max):
            work.emit(piece)


def _has_few_rows(frame: DataFrame) -> bool:
    """Return whether a query surely has few rows: Spark has them already, or there is a LIMIT.

    Of a LIMIT, Spark collects the rows by as few tasks as it needs. All of a topic's slices would be read otherwise.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - no public way
    most = plan.maxRows()
    if most.isDefined() and most.get() <= COLLECTED_ROWS_MAX:
        return True
    while plan.nodeName() in ROW_BY_ROW:
        plan = plan.children().apply(0)
    return bool(plan.nodeName() == "LocalRelation")


def show_changes(frame: DataFrame, work: Work, rows_max: int | None) -> None:
    """Emit what a query finds, and how that changes, until it is cancelled.

    Args:
        frame: the query, over streams.
        work: to which it belongs.
        rows_max: how many rows are shown before it ends; None for no end.

    Raises:
        SqlProblem: nothing can change.
        PySparkException: the query cannot run as a stream, or has failed.
    """
    mode = mode_of(frame)
    has_enough = threading.Event()
    remaining = rows_max
    work.emit(Head(frame.schema, _zone(frame.sparkSession)))

    def show(batch: DataFrame, _number: int) -> None:
        nonlocal remaining
        if work.cancelled.is_set() or has_enough.is_set():
            return
        with contextlib.suppress(Cancelled), contextlib.closing(row_batches(batch)) as batches:
            for number, rows in enumerate(batches):
                wanted = rows[:remaining]
                work.emit(Piece(wanted, anew=mode == COMPLETE and number == 0))
                if remaining is not None:
                    remaining -= len(wanted)
                    if remaining == 0:
                        has_enough.set()
                        return

    _run_stream(frame, mode, show, lambda: work.cancelled.is_set() or has_enough.is_set())


def mode_of(frame: DataFrame) -> str:
    """Return how a streaming query's results change: append, update or complete.

    Raises:
        SqlProblem: it reads no stream.
        AnalysisException: Spark cannot run it as a stream.
    """
    if not frame.isStreaming:
        raise SqlProblem(
            "nothing that this query reads can change: it reads no topic as a stream; leave EMIT CHANGES out"
        )
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - no public way
    nodes = list(_nodes(plan))
    aggregates = any(name in AGGREGATIONS and streaming for name, streaming in nodes)
    mode = output_mode(aggregates=aggregates, sorts=any(name == "Sort" for name, _ in nodes))
    check_mode(frame, mode)
    return mode


def check_mode(frame: DataFrame, mode: str) -> None:
    """Check that Spark can run a streaming query in one of the `MODES`.

    Raises:
        AnalysisException: it cannot.
    """
    jvm, plan = frame.sparkSession._jvm, frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - no public way
    assert jvm is not None, "a running session has one"
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    chosen = {"append": modes.Append, "update": modes.Update, COMPLETE: modes.Complete}[mode]()
    jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, chosen)


def _run_stream(
    frame: DataFrame, mode: str, show: Callable[[DataFrame, int], None], is_over: Callable[[], bool]
) -> None:
    query = frame.writeStream.foreachBatch(show).outputMode(mode).trigger(processingTime=TRIGGER).start()
    try:
        while not is_over() and not query.awaitTermination(LOOK_INTERVAL_S):  # type: ignore[arg-type] # takes fractions
            pass
    except PySparkException:
        if not is_over():
            raise
    finally:
        query.stop()


def _nodes(plan: JavaObject) -> Iterator[tuple[str, bool]]:
    """Yield name and whether it is a stream of each node of a plan."""
    yield plan.nodeName(), plan.isStreaming()
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))


def _pieces(batches: Iterable[list[Row]], rows_max: int | None) -> Iterator[Piece]:
    """Yield rows up to the most that are shown; of an empty result one piece without any."""
    shown = 0
    for batch in batches:
        wanted = batch if rows_max is None else batch[: rows_max - shown]
        is_cut = len(wanted) < len(batch)
        yield Piece(wanted, is_cut=is_cut)
        if is_cut:
            return
        shown += len(wanted)
    if not shown:
        yield Piece([])


def _zone(spark: SparkSession) -> tzinfo:
    return zone_named(str(spark.conf.get(ZONE_KEY)))
