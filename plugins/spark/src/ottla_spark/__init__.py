"""Apache Spark for Ottla: a data source for topics, connectors whose tasks are Spark drivers, and SQL over topics.

`datasource/` is what `spark.read.format("ottla")` and `write` do, `formats/` turns keys and values into columns and
back, `job/` is a Spark driver as a connector's task, `cluster/` ships dependencies to executors, `sql/` is the
prompt.

The connectors are imported when they are asked for: Spark's Python workers import this package, and need none.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla_spark.job.connectors import SparkPipeline, SparkSink, SparkSource

__all__ = ["SparkPipeline", "SparkSink", "SparkSource"]


def __getattr__(name: str) -> object:
    """Import a connector."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ottla_spark.job import connectors  # noqa: PLC0415 - see above

    return getattr(connectors, name)
