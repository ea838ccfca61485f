"""The end of a driver: Spark stops, and the Java process is gone, whatever state either is in."""

import logging
import subprocess
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_TIMEOUT_S = 20.0
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
        stopping = threading.Thread(target=_stop, args=(session,), name="stop", daemon=True)
        stopping.start()
        stopping.join(STOP_TIMEOUT_S)
        if stopping.is_alive():
            log.warning("Spark does not stop within %.0f s; its Java process is killed", STOP_TIMEOUT_S)
            process.kill()
    if gateway is not None:
        gateway.shutdown()
    if process is not None:
        _end(process)
    # What PySpark keeps of a Java process that is gone would be taken for a running one.
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


def _stop(session: "SparkSession") -> None:
    try:
        session.stop()
    except Exception as error:  # noqa: BLE001 - Java may end meanwhile; it is ended in any case
        log.warning("Spark has not stopped in order: %s", error)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Have a Java process end: it does when its standard input is closed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
