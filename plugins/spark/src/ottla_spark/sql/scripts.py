"""Carries out the statements of one command in a session of Spark, and says how it ended."""

import signal
from collections.abc import Callable

from ottla_spark.sql.catalog import Catalog
from ottla_spark.sql.connect_rest import ConnectRest
from ottla_spark.sql.deployment import Deployment
from ottla_spark.sql.grammar import parse
from ottla_spark.sql.interpreter import Interpreter, StatementOptions
from ottla_spark.sql.invocation import Connections, Invocation
from ottla_spark.sql.spark_thread import SparkThread
from ottla_spark.sql.sql_errors import ReaderGone, SqlProblem
from ottla_spark.sql.statement_kinds import Deploy, DropPipeline, ForSpark
from ottla_spark.sql.topics import Topics
from ottla_spark.statement_splitting import split

EXIT_INTERRUPTED = 128 + signal.SIGINT


def catalog_of(connections: Connections, topics: Topics) -> Catalog:
    """Return what names stand for at the beginning."""
    client_options = {f"kafka.{key}": value for key, value in connections.client_settings.items()}
    return Catalog(topics, {"kafka.bootstrap.servers": connections.bootstrap, **client_options})


def interpreter_of(invocation: Invocation, catalog: Catalog, connect: ConnectRest, spark: SparkThread) -> Interpreter:
    """Return what carries out the statements of a command."""
    options = StatementOptions(
        form=invocation.form, rows_max=invocation.rows_max, timeout_s=invocation.timeout_s, stream=invocation.stream
    )
    return Interpreter(spark, catalog, Deployment(connect, invocation.connections.spark_settings), options)


def run_script(script: str, run: Callable[[str], bool]) -> None:
    """Carry out statements up to the first that fails.

    Raises:
        SqlProblem: one cannot be carried out, or is not, as nobody reads the results of one before it.
        Interrupted: Ctrl-C.
        ReaderGone: nobody reads a result, and what follows would only show more.
    """
    found = split(script)
    for number, statement in enumerate(found, start=1):
        try:
            if not run(statement.text):
                return
        except SqlProblem as problem:
            where = f"statement {number} (line {statement.line}): " if len(found) > 1 else ""
            raise SqlProblem(f"{where}{problem}") from None
        except ReaderGone:
            if left := [each for each in found[number:] if _changes_something(each.text)]:
                raise SqlProblem(
                    f"nobody reads the result of statement {number}, so the script ends there; the statement at line "
                    f"{left[0].line} was not carried out"
                ) from None
            raise


def _changes_something(statement: str) -> bool:
    """Return whether a statement does more than show something, as far as can be told without Spark."""
    try:
        return isinstance(parse(statement), Deploy | DropPipeline | ForSpark)
    except SqlProblem:
        return True  # whoever reads on would have been told what is wrong with it
