"""The data source itself: what Spark asks for a schema, readers and writers.

`format("ottla")` has the columns, options and rules of Spark's own `format("kafka")`. Options are checked when a
reader or writer is made; nothing is asked of a cluster before Spark plans a query.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from ottla_sdk import InvalidConfig, Problem

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class OttlaDataSource(DataSource):
    """`format("ottla")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "ottla"

    def schema(self) -> "StructType":
        """Return the columns of a topic."""
        from ottla_spark.datasource.columns import spark_schema  # noqa: PLC0415 - only for those who read
        from ottla_spark.datasource.options import includes_headers  # noqa: PLC0415

        return spark_schema(with_headers=includes_headers(self.options))

    def reader(self, schema: "StructType") -> "DataSourceReader":
        """Return the reader of a batch.

        Raises:
            InvalidConfig: lists what is wrong with the options.
        """
        from ottla_spark.datasource.batch_reader import OttlaBatchReader  # noqa: PLC0415
        from ottla_spark.datasource.options import read_options  # noqa: PLC0415

        options = read_options(self.options, kind="batch")
        self._check_schema(schema)
        return OttlaBatchReader(options)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802 - Spark's name
        """Return the reader of a stream.

        Raises:
            InvalidConfig: lists what is wrong with the options.
        """
        from ottla_spark.datasource.options import read_options  # noqa: PLC0415
        from ottla_spark.datasource.stream_reader import OttlaStreamReader  # noqa: PLC0415

        options = read_options(self.options, kind="stream")
        self._check_schema(schema)
        return OttlaStreamReader(options)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        """Return the writer of a batch; see `writing.batch_writer`."""
        from ottla_spark.datasource.writing import batch_writer  # noqa: PLC0415 - only for those who write

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802
        """Return the writer of a stream; see `writing.stream_writer`."""
        from ottla_spark.datasource.writing import stream_writer  # noqa: PLC0415

        return stream_writer(self.options, schema, overwrite)

    def _check_schema(self, schema: "StructType") -> None:
        if schema != self.schema():
            raise InvalidConfig(
                [Problem("", "a topic has columns of its own; remove .schema(…) and select from them")]
            )
