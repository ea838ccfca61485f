"""Whether an application waits for executors: a cluster that has none to give says so in Spark's own log alone."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAITING = (
    "no executor works for this application: the cluster's cores or memory are all taken, or less than it asks for, "
    "or its workers are away; it begins as soon as there are some (spark.cores.max limits what an application takes)"
)
PATIENCE_S = 5.0
"""How long executors may take to come before anybody is told that they are missing."""
DRIVER = 1
"""The driver is listed among those that keep blocks."""


def waits_for_executors(session: "SparkSession") -> bool:
    """Return whether there is something to do and nobody to do it; never on `local[…]`."""
    try:
        context: Any = session.sparkContext._jsc.sc()  # noqa: SLF001 - no public way
        if context.isLocal() or context.getExecutorMemoryStatus().size() > DRIVER:
            return False
        return bool(session.sparkContext.statusTracker().getActiveStageIds())
    except Exception:  # noqa: BLE001 - Spark ends or has failed, and whoever runs something on it hears why
        return False
