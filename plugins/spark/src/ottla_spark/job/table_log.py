"""What Spark's file sink keeps in the folder of a table: which files belong to it, by the number of their batch.

A batch whose number stands there is not written again: that is how every row is in the table once. A query that
begins anew counts from 0, so in the folder of another one its first batches would be taken for written, and be lost.
"""

from typing import TYPE_CHECKING

from ottla_sdk import FatalError
from ottla_spark.job.checkpoint import folder_at
from ottla_spark.job.plan import FormatWrite, JobPlan, Output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = "_spark_metadata"
_CHECKPOINT = "metadata"


def check_table_log(session: "SparkSession", plan: JobPlan, output: Output, writing: FormatWrite) -> None:
    """Check that a stream that begins anew does not write into the folder of one whose checkpoint is gone.

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
