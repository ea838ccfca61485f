"""Apache Kafka's own jars: the reference broker, the command-line tools, Connect and MirrorMaker.

They come from Maven's default repository by `tests/compat/java/pom.xml` into the git-ignored `.work/`, once per
content of that file. Where Java or Maven is missing, `unavailable_reason` says so.
"""

import hashlib
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

from tests.support.reference.java_class_archive import QUICK_START, TRAINING_DEADLINE_S, archived

REPOSITORY = Path(__file__).resolve().parents[3]
POM = REPOSITORY / "tests/compat/java/pom.xml"
CACHE = REPOSITORY / ".work"
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
FETCH_DEADLINE_S = 600.0
TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
_POM_NAMESPACE = {"pom": "http://maven.apache.org/POM/4.0.0"}


class JarsUnavailable(RuntimeError):
    """The jars cannot be had on this machine; the message says why."""


def unavailable_reason() -> str | None:
    """Why Kafka's tools cannot run here, or None where they can."""
    if shutil.which("java") is None:
        return "Apache Kafka's tools need Java 17 (no `java` on PATH)"
    if shutil.which("mvn") is None and not _complete_marker().exists():
        return "fetching Apache Kafka's jars needs Maven (no `mvn` on PATH)"
    return None


@cache
def kafka_version() -> str:
    """The version that the pom names."""
    version = ET.parse(POM).findtext("pom:properties/pom:kafka.version", namespaces=_POM_NAMESPACE)
    assert version, f"{POM} has no property kafka.version"
    return version


@cache
def kafka_classpath() -> str:
    """The Java classpath of all jars, fetching them the first time.

    Raises:
        JarsUnavailable: no Java, no Maven, or the download failed.
    """
    if reason := unavailable_reason():
        raise JarsUnavailable(reason)
    if not _complete_marker().exists():
        _fetch()
    return f"{_jar_folder()}/*"


def java_command(main_class: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    """The command that runs one of Kafka's main classes."""
    classpath = kafka_classpath()
    return ["java", *(options or (*QUICK_START, *_archive())), "-cp", classpath, main_class, *arguments]


@cache
def _archive() -> tuple[str, ...]:
    return archived(f"kafka-{_complete_marker().name}", _train)


def _train(option: str) -> None:
    """Have a tool look for a broker that is not there: that takes it a second, and most classes of all tools."""
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as config:
        config.write("default.api.timeout.ms=1000\nrequest.timeout.ms=1000\n")
        config.flush()
        nobody = ("--bootstrap-server", "127.0.0.1:1", "--command-config", config.name, "--list")
        command = ["java", *QUICK_START, option, "-cp", kafka_classpath(), TOPIC_COMMAND, *nobody]
        subprocess.run(command, capture_output=True, timeout=TRAINING_DEADLINE_S, check=False)


def _jar_folder() -> Path:
    return CACHE / f"kafka-{kafka_version()}"


def _complete_marker() -> Path:
    return _jar_folder() / f"complete-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"


def _fetch() -> None:
    folder = _jar_folder()
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mvn", "--quiet", "--batch-mode", "--file", str(POM), COPY_DEPENDENCIES, f"-DoutputDirectory={folder}"]
    outcome = subprocess.run(
        command, capture_output=True, text=True, timeout=FETCH_DEADLINE_S, cwd=REPOSITORY, check=False
    )
    if outcome.returncode != 0:
        raise JarsUnavailable(f"Maven could not fetch Kafka's jars: {outcome.stdout[-2000:]}{outcome.stderr[-2000:]}")
    _complete_marker().touch()
