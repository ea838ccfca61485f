"""One Spark for a whole run of tests: it takes seconds to start.

Tests share it and leave no query, view or setting behind. What has to have a driver of its own (connectors, `ottla
sql`) starts one as users do.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from pyspark.sql import SparkSession

from ottla_spark.session import start_session

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.sql.streaming.noDataProgressEventInterval": "500",
}


@contextmanager
def running_spark(settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[SparkSession]:
    """Yields a session, and stops Spark afterwards.

    Args:
        settings: Spark's, besides those of all tests.

    Raises:
        JavaMissing: the message says how to install it.
    """
    with tempfile.TemporaryDirectory(prefix="ottla-warehouse-") as warehouse:
        session = start_session("tests", {**SETTINGS, **settings, "spark.sql.warehouse.dir": warehouse})
        try:
            yield session
        finally:
            gateway: Any = session.sparkContext._gateway
            session.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(30)
