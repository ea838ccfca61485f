"""The value of an expression that needs no rows, found by Spark's optimizer, so that no job has to run for it."""

from typing import Any

from pyspark.sql import Column, SparkSession


def folded(spark: SparkSession, expression: Column) -> Any:
    """Return the value as Java has it; None for null.

    Raises:
        PySparkException: Spark does not understand the expression.
        Py4JError: it is none of constants.
    """
    plan = spark.sql("SELECT 1").select(expression)._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - no public way
    return plan.expressions().apply(0).child().value()
