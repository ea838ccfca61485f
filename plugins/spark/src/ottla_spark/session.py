"""Starts Spark for a driver: the one place where Spark's settings get Ottla's defaults.

A driver is an ordinary Python process; PySpark starts the Java part as its child, which ends with it. What the user
sets (`spark.…`) always wins over the defaults here.
"""

import logging
from collections.abc import Mapping
from importlib.resources import files

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from ottla_spark.cluster.java import require_java
from ottla_spark.cluster.master import MASTER_KEY, check_master, is_local, local_cores
from ottla_spark.cluster.python import set_worker_python
from ottla_spark.cluster.shipping import shipping_settings

MASTER_DEFAULT = "local[*]"

DEFAULTS = {
    "spark.ui.enabled": "false",  # a port per driver, for something few look at
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Whatever the machine's spark-defaults.conf says: topics are written in order by one task at a time.
    "spark.speculation": "false",
    # Java and Python wait so many seconds for each other when a worker starts; 15 are too few on a busy machine.
    "spark.python.authenticate.socketTimeout": "60s",
}
QUIET_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def start_session(application: str, settings: Mapping[str, str]) -> SparkSession:
    """Start Spark, or take over the session that this process has.

    Args:
        application: its name, unless `spark.app.name` says another.
        settings: Spark's, as users write them; keys that do not begin with ``spark.`` are ignored.

    Raises:
        JavaMissing: there is no Java that Spark can run on; the message says how to install one.
        MasterUnreachable: nobody answers at `spark.master`.
        InvalidConfig: `spark.master` or `spark.ottla.ship` is nothing that could be.
        PythonUnusable: `spark.pyspark.python` cannot run the workers of a job.
        CannotShip: the files of a package that executors need cannot be found.
    """
    require_java()
    own = {key: value for key, value in settings.items() if key.startswith("spark.")}
    master = own.get(MASTER_KEY, MASTER_DEFAULT)
    own_address = check_master(master)
    set_worker_python(master, own)
    _quieten_loggers()
    builder = SparkSession.builder.appName(application).master(master)
    for key, value in {**_defaults(master, own_address), **own, **shipping_settings(master, own)}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _defaults(master: str, own_address: str) -> dict[str, str]:
    log4j = files("ottla_spark").joinpath("log4j2.properties")
    defaults = {**DEFAULTS, "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j}"}
    if is_local(master):
        # 200 partitions of state on a laptop cost seconds per batch and bring nothing.
        defaults["spark.sql.shuffle.partitions"] = str(local_cores(master))
        defaults["spark.driver.host"] = "127.0.0.1"
        defaults["spark.driver.bindAddress"] = "127.0.0.1"
    elif own_address:
        # The machine's name, Spark's default, may stand for an address that executors do not reach.
        defaults["spark.driver.host"] = own_address
    return defaults


def _quieten_loggers() -> None:
    """Keep PySpark from printing errors of queries, with stack traces in JSON, before it raises them."""
    for name in QUIET_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
