"""What Spark's file sink keeps in the folder of a table: which files belong to it, by the number of their batch.

A batch whose number stands there is not written again: that is how every row is in the table once. A query that
begins anew counts from 0, so in the folder of another one its first batches would be taken for written, and be lost.
So would those of a query whose checkpoint was put back: it makes batches of the same numbers anew, with other rows.
"""

from typing import TYPE_CHECKING

from ottla_sdk import FatalError
from ottla_spark.job.checkpoint import BEGUN, folder_at, last_batch
from ottla_spark.job.plan import FormatWrite, JobPlan, Output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = "_spark_metadata"
_CHECKPOINT = "metadata"


def check_table_log(session: "SparkSession", plan: JobPlan, output: Output, writing: FormatWrite) -> None:
    """Check that a stream does not write into the folder of one whose checkpoint is gone, or was ahead of its own.

    Raises:
        FatalError: it would.
    """
    if not writing.path:
        return
    table = folder_at(writing.path, session)
    checkpoint = folder_at(f"{plan.checkpoint_location}/{output.name}", session)
    assert table is not None, "there is Spark"
    assert checkpoint is not None, "there is Spark"
    if table.has(_LOG) and not checkpoint.has(_CHECKPOINT):
        raise FatalError(
            f"the output {output.name} has no checkpoint at {plan.checkpoint_location}, but in {writing.path} is the "
            "table of a query that had one: Spark would take the first batches for written and lose their rows. "
            "Bring the checkpoint back, or choose another path, or delete the folder to begin anew"
        )
    written, begun = last_batch(table, _LOG), last_batch(checkpoint, BEGUN)
    if written > begun:
        known = "has begun no batch" if begun < 0 else f"goes up to batch {begun}"
        raise FatalError(
            f"the checkpoint of the output {output.name} at {plan.checkpoint_location} {known}, but in "
            f"{writing.path} is batch {written} of its query: it was put back to an earlier state, and Spark would "
            "take the batches up to there for written and lose their rows. Bring the later checkpoint back, or begin "
            "anew with another checkpoint.location and another path"
        )
