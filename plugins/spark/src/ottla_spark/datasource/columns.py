"""The columns of a topic, the same as those of Spark's own Kafka source, for Spark and for Arrow."""

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_RECORD = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def spark_schema(*, with_headers: bool) -> StructType:
    """Return the columns that Spark sees."""
    return StructType([*_RECORD, StructField("headers", ArrayType(_HEADER))] if with_headers else _RECORD)


def arrow_schema(*, with_headers: bool) -> pa.Schema:
    """Return the same columns for record batches; Spark takes no others."""
    return to_arrow_schema(spark_schema(with_headers=with_headers), timezone="UTC")
