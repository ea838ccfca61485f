"""Found by Spark, which looks for modules named `pyspark_…`: so `format("ottla")` works without being registered."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla_spark.datasource.source import OttlaDataSource as DefaultSource

if TYPE_CHECKING:
    from ottla_spark.datasource.exactly_once import ExactlyOnceWriter

__all__ = ["DefaultSource", "exactly_once"]


def exactly_once(options: Mapping[str, str]) -> "ExactlyOnceWriter":
    """Return a function for `foreachBatch` that writes each batch of a streaming query to topics exactly once.

    Args:
        options: those of `format("ottla")`, such as `kafka.bootstrap.servers` and `topic`, and perhaps
            `batchNumbersTopic`, `transactionalIdPrefix` and `exactlyOnceSince`.
    """
    from ottla_spark.datasource.exactly_once import ExactlyOnceWriter  # noqa: PLC0415 - only for those who write

    return ExactlyOnceWriter(options)
