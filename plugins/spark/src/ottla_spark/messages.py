"""Errors of PySpark, Py4J and Java in plain words: what a person needs to know, and what the runtime does.

The exceptions of a live driver are walked here, cause by cause, with care: when the Java process is gone, so is what
it could tell. `error_links.py` takes their texts apart, `error_words.py` decides what is said.
"""

from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from ottla_sdk import ConnectError
from ottla_spark.error_links import NO_NAMES, ErrorNames, Link, links
from ottla_spark.error_words import kind_of_chain, kind_of_class, worded

CAUSES_MAX = 20
SIGKILL_EXIT_CODE = -9


def in_plain_words(error: BaseException) -> str:
    """Return what a person needs to know of an error: its root cause on one line, without stack traces and plans.

    What Ottla's own code raised comes through unchanged, also out of Spark's Python workers.
    """
    if isinstance(error, ConnectError):
        return str(error)
    if (code := _java_exit_code()) is not None and _is_of_java(error):
        return _words_for_dead_java(code)
    if not _is_of_java(error):
        return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return worded(_chain(error)) or type(error).__name__


def kind_of(error: BaseException) -> type[ConnectError]:
    """Return what an error is to the runtime: which of the SDK's errors says whether trying again may help.

    A wrong query, data that does not fit, a checkpoint of another query are a `FatalError`. Brokers or a master that
    are away and a full disk are a `RetriableError`. A lost executor and a connection that broke are a `ConnectError`.
    """
    if isinstance(error, ConnectError):
        return kind_of_class(type(error))
    if _java_exit_code() is not None and _is_of_java(error):
        return ConnectError
    if not _is_of_java(error):
        return kind_of_chain([Link(type(error).__name__, str(error))])
    return kind_of_chain(_chain(error))


def _is_of_java(error: BaseException) -> bool:
    lost = isinstance(error, ConnectionError) and _java_exit_code() is not None
    return lost or isinstance(error, (PySparkException, Py4JError))


def _chain(error: BaseException) -> list[Link]:
    found = [link for kind, text, names in _exceptions(error) for link in links(kind, text, names)]
    return found[: 2 * CAUSES_MAX]


def _exceptions(error: BaseException) -> Iterator[tuple[str, str, ErrorNames]]:
    """Yield class, message and names of an exception and of its causes, outermost first."""
    of_java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    if of_java is not None:
        yield from _java_exceptions(of_java)
        return
    described = getattr(error, "_desc", None)
    yield _qualified_name(error), str(error) if described is None else described, _names_in_python(error)
    cause = getattr(error, "_cause", None)
    if isinstance(cause, PySparkException):
        yield from _exceptions(cause)


def _java_exceptions(throwable: Any) -> Iterator[tuple[str, str, ErrorNames]]:
    for _ in range(CAUSES_MAX):
        if throwable is None:
            return
        yield throwable.getClass().getName(), throwable.getMessage() or "", _names_in_java(throwable)
        throwable = throwable.getCause()


def _names_in_python(error: BaseException) -> ErrorNames:
    """Return the names of an error that PySpark has raised itself."""
    if not isinstance(error, PySparkException):
        return NO_NAMES
    return ErrorNames(error.getCondition() or "", error.getSqlState() or "")


def _names_in_java(throwable: Any) -> ErrorNames:
    """Return the names of one of Spark's exceptions; Java's own and those of libraries have none."""
    gateway = SparkContext._gateway  # noqa: SLF001 - as PySpark's own exceptions do for the outermost one
    if gateway is None or not is_instance_of(gateway, throwable, "org.apache.spark.SparkThrowable"):
        return NO_NAMES
    spark = gateway.jvm.PythonErrorUtils
    return ErrorNames(spark.getCondition(throwable) or "", spark.getSqlState(throwable) or "")


def _qualified_name(error: BaseException) -> str:
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}"


def _java_exit_code() -> int | None:
    """Return how Spark's Java process ended; None if it runs, or was not started by this process."""
    process = getattr(getattr(SparkContext, "_gateway", None), "proc", None)
    return None if process is None else process.poll()


def _words_for_dead_java(exit_code: int) -> str:
    if exit_code == SIGKILL_EXIT_CODE:
        how = "it was killed, perhaps because the machine ran out of memory"
    else:
        how = f"its exit code is {exit_code}; what it printed before is in the log"
    return f"Spark's Java process has ended: {how}"
