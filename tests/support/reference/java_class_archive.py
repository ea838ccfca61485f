"""Archives of loaded classes (JEP 350): with one, a Java process starts with half the processor time.

An archive is made once, by a program that loads what others will, and lies in the git-ignored `.work/`. Java takes it
for the same Java and the same jars only, and starts without it otherwise.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path

ARCHIVES = Path(__file__).resolve().parents[3] / ".work" / "class-archives"
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For processes that live for seconds: what the second compiler and a concurrent collector cost never pays there."""
QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")
"""An archive that does not fit is no news, and standard output is the program's."""
TRAINING_DEADLINE_S = 180.0


def archived(name: str, train: Callable[[str], None]) -> tuple[str, ...]:
    """Returns Java's options for starting with an archive; makes that first if there is none.

    Args:
        name: of the file, with the versions of the jars.
        train: runs a Java process with the option that it is given; may time out, which leaves us without.
    """
    java = shutil.which("java")
    if java is None:
        return ()
    archive = ARCHIVES / f"{name}-{Path(java).resolve().parents[1].name}.jsa"
    if not archive.exists():
        ARCHIVES.mkdir(parents=True, exist_ok=True)
        being_made = archive.with_suffix(f".{os.getpid()}")
        try:
            train(f"-XX:ArchiveClassesAtExit={being_made}")
        except subprocess.TimeoutExpired:
            being_made.unlink(missing_ok=True)
        if being_made.exists():
            being_made.rename(archive)
    return (f"-XX:SharedArchiveFile={archive}", *QUIET) if archive.exists() else ()


@cache
def options_for_spark() -> str:
    """Returns the value of `JDK_JAVA_OPTIONS` with which Spark's Java processes start soonest."""
    return " ".join((*QUICK_START, *archived(f"spark-{version('pyspark')}", _train_spark)))


def _train_spark(option: str) -> None:
    environment = {**os.environ, "JDK_JAVA_OPTIONS": " ".join(QUICK_START)}
    command = [sys.executable, "-m", "tests.support.reference.java_class_archive", option]
    subprocess.run(
        command,
        env=environment,
        cwd=ARCHIVES.parents[1],
        timeout=TRAINING_DEADLINE_S,
        capture_output=True,
        check=False,
    )


def _run_spark(option: str) -> None:
    """Do a little of everything that tests do with Spark, in a driver with an option."""
    from tests.support.spark.spark_session import running_spark  # noqa: PLC0415 - Kafka's tools need no PySpark

    with running_spark({"spark.driver.defaultJavaOptions": option}) as spark:
        rows = spark.range(1000).selectExpr("id % 7 AS k", "CAST(id AS STRING) AS v")
        rows.createOrReplaceTempView("rows")
        folder = spark.conf.get("spark.sql.warehouse.dir")
        spark.sql("SELECT k, count(*) AS n, max(v) FROM rows GROUP BY k ORDER BY n").collect()
        rows.write.parquet(f"{folder}/table")
        stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/table").groupBy("k").count().writeStream
        query = stream.outputMode("complete").option("checkpointLocation", f"{folder}/checkpoint")
        query.trigger(availableNow=True).format("memory").queryName("counted").start().awaitTermination(60)


if __name__ == "__main__":
    _run_spark(sys.argv[1])
