"""Found by Spark, which looks for modules named `pyspark_…`: so `format("ottla")` works without being registered."""

from ottla_spark.datasource.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
