"""The end of a driver: Spark stops, and the Java process is gone, whatever state either is in."""

import logging
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_TIMEOUT_S = 5.0

log = logging.getLogger(__name__)


def java_process() -> "subprocess.Popen[bytes] | None":
    """Return the Java process that this process has started, if PySpark has."""
    from pyspark import SparkContext  # noqa: PLC0415 - not before a task starts

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark has no other way to it
    return getattr(gateway, "proc", None)


def java_has_ended() -> bool:
    """Return whether there was a Java process, and it has ended by itself."""
    process = java_process()
    return process is not None and process.poll() is not None


def stop_driver(session: "SparkSession | None") -> None:
    """Stop Spark and end the Java process; a driver may then be started anew in this process.

    Args:
        session: Spark's, if it has come so far.
    """
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    process, gateway = java_process(), SparkContext._gateway  # noqa: SLF001
    if session is not None and process is not None and process.poll() is None:
        try:
            session.stop()
        except Exception as error:  # noqa: BLE001 - Java may end meanwhile; it is ended below in any case
            log.warning("Spark has not stopped in order: %s", error)
    if gateway is not None:
        gateway.shutdown()
    if process is not None:
        _end(process)
    # What PySpark keeps of a Java process that is gone would be taken for a running one.
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Have a Java process end: it does when its standard input is closed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
