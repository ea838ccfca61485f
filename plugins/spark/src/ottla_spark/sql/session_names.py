"""Whether a query means the same where a pipeline runs: in a session of its own, which knows nothing of this one.

The query is analyzed in a new session that has got what the pipeline gets: the session's settings, the views of
topics and tables, and the user's temporary views. What fails there and not here is this session's own: a function, a
variable, a view over those, the current database. Tables, views and functions of Spark's catalog are seen from all
sessions of a process; where that catalog is kept in memory, they are refused as well.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from ottla_spark.messages import in_plain_words
from ottla_spark.sql.catalog import Catalog
from ottla_spark.sql.sql_errors import SqlProblem
from ottla_spark.sql.tables import Table
from ottla_spark.statement_splitting import Kind, tokens

CATALOG_KEY = "spark.sql.catalogImplementation"
IN_MEMORY = "in-memory"
ADVICE = (
    "a pipeline runs in a session of its own: have the query say what they stand for, or use a temporary view of "
    "such a query, which goes with it"
)


def analyzed_elsewhere(
    spark: SparkSession, catalog: Catalog, query: str, views: Sequence[str]
) -> tuple[DataFrame, list[Table]]:
    """Give a query to a session that has what a pipeline of it gets, with topics as streams.

    Args:
        spark: the session of the prompt.
        catalog: what names stand for.
        query: its text.
        views: the statements of the temporary views that it uses.

    Returns:
        The query, and the tables that it reads.

    Raises:
        SqlProblem: it needs something that only this session has, or a name is unknown.
        PySparkException: Spark does not understand the query.
    """
    there = _new_session(spark)
    catalog.drop_views(spark)
    tables: dict[str, Table] = {}
    try:
        for view in views:
            tables |= {each.name: each for each in catalog.analyzed(there, view, streaming=True)[1]}
        frame, own = catalog.analyzed(there, query, streaming=True)
    except (AnalysisException, SqlProblem) as error:
        catalog.drop_views(there)
        catalog.analyzed(spark, query, streaming=True)  # fails with the same, if that is all
        said = str(error) if isinstance(error, SqlProblem) else in_plain_words(error)
        raise SqlProblem(f"the query needs what only this session has: {said}; {ADVICE}") from None
    if names := [*_kept_in_memory(there, frame), *_functions_kept_in_memory(there, [*views, query])]:
        catalog.drop_views(there)
        raise SqlProblem(f"the query needs what only this session has, {', '.join(sorted(set(names)))}; {ADVICE}")
    return frame, list({**tables, **{each.name: each for each in own}}.values())


def session_settings(spark: SparkSession) -> dict[str, str]:
    """Return what a session has got by `SET`."""
    initial = spark.newSession().conf.getAll
    return {key: value for key, value in spark.conf.getAll.items() if initial.get(key) != value}


def _new_session(spark: SparkSession) -> SparkSession:
    there = spark.newSession()
    for key, value in session_settings(spark).items():
        there.conf.set(key, value)
    return there


def _kept_in_memory(spark: SparkSession, frame: DataFrame) -> Iterator[str]:
    """Yield the tables and views of Spark's catalog that a query reads, if that is gone with this process."""
    if spark.conf.get(CATALOG_KEY) != IN_MEMORY:
        return
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - no public way
    subqueries = plan.subqueriesAll()
    for root in (plan, *(subqueries.apply(index) for index in range(subqueries.size()))):
        yield from _of_catalog(root)


def _of_catalog(plan: Any) -> Iterator[str]:
    kind = plan.getClass().getSimpleName()
    if kind == "View":
        name = plan.desc().identifier()
        # A temporary view without a database is a topic's, or goes with the pipeline; others are global.
        if not plan.isTempView() or name.database().isDefined():
            yield f"the view {name.table()}"
            return
    if kind == "LogicalRelation" and plan.catalogTable().isDefined():
        yield f"the table {plan.catalogTable().get().identifier().table()}"
    children = plan.children()
    for index in range(children.size()):
        yield from _of_catalog(children.apply(index))


def _functions_kept_in_memory(spark: SparkSession, statements: Sequence[str]) -> Iterator[str]:
    """Yield the functions of Spark's catalog that statements name, if that is gone with this process."""
    if spark.conf.get(CATALOG_KEY) != IN_MEMORY:
        return
    made = {str(row[0]).rpartition(".")[2].lower() for row in spark.sql("SHOW USER FUNCTIONS").collect()}
    mentioned = {
        token.value.lower()
        for statement in statements
        for token in tokens(statement)
        if token.kind in (Kind.WORD, Kind.NAME)
    }
    yield from (f"the function {each}" for each in made & mentioned)
