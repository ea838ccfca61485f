"""The jars of Spark's own `format("kafka")`, which is what Ottla's data source is compared with.

They come from Maven's default repository into the git-ignored `.work/`, each by itself: Spark's pom would bring all
of Spark with it, which PySpark has. These versions work together on PySpark 4.3.
"""

import shutil
import subprocess
from pathlib import Path

from tests.support.reference.kafka_jars import CACHE, REPOSITORY, JarsUnavailable

ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
FETCH_DEADLINE_S = 300.0


def spark_kafka_jars() -> list[Path]:
    """Return the jars, for `spark.jars`; fetches those that are not there yet.

    Raises:
        JarsUnavailable: there is no Maven, or it could not fetch one.
    """
    folder = CACHE / "spark-kafka"
    return [_jar(artifact, folder) for artifact in ARTIFACTS]


def _jar(artifact: str, folder: Path) -> Path:
    _, name, version = artifact.split(":")
    jar = folder / f"{name}-{version}.jar"
    if not jar.exists():
        _fetch(artifact, jar)
    return jar


def _fetch(artifact: str, jar: Path) -> None:
    if shutil.which("mvn") is None:
        raise JarsUnavailable(f"fetching {jar.name} needs Maven (no `mvn` on PATH)")
    arriving = jar.parent / "arriving"  # so that a jar is there whole or not at all
    arguments = (f"-Dartifact={artifact}", f"-DoutputDirectory={arriving}", "-Dmdep.overWriteReleases=true")
    command = ["mvn", "--quiet", "--batch-mode", COPY, *arguments]
    outcome = subprocess.run(
        command, capture_output=True, text=True, timeout=FETCH_DEADLINE_S, cwd=REPOSITORY, check=False
    )
    if outcome.returncode != 0:
        raise JarsUnavailable(f"Maven could not fetch {artifact}: {outcome.stdout[-2000:]}{outcome.stderr[-2000:]}")
    (arriving / jar.name).rename(jar)
