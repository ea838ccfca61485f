"""Apicurio Registry: a schema registry that others wrote, with Confluent's API beside its own.

Maven unpacks it into the git-ignored `.work/`, once per version (about 140 MB). It keeps everything in memory.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.child_process import ChildProcess
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_port
from tests.support.reference.kafka_jars import CACHE, FETCH_DEADLINE_S, JarsUnavailable

VERSION = "2.6.13.Final"
"""The newest of those that run on Java 17 and come with all that Maven asks for."""
_UNPACK = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:unpack"
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
START_DEADLINE_S = 120.0


@contextmanager
def running_apicurio(directory: Path) -> Iterator[str]:
    """Apicurio Registry; gives the address of its Confluent API.

    Raises:
        JarsUnavailable: Maven could not fetch it.
    """
    port = free_port()
    options = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    settings = (f"-Dquarkus.http.host={LOOPBACK}", f"-Dquarkus.http.port={port}")
    jar = _folder() / f"apicurio-registry-app-{VERSION}-runner.jar"
    process = ChildProcess(
        "apicurio", ["java", *options, *settings, "-jar", str(jar)], log=directory / "apicurio.log"
    )
    process.start()
    try:
        url = f"http://{LOOPBACK}:{port}/apis/ccompat/v7"
        eventually(lambda: _answers(url), "Apicurio answers", within_s=START_DEADLINE_S)
        yield url
    finally:
        process.kill()  # It is in no hurry to go, and has nothing to lose.


def _folder() -> Path:
    folder = CACHE / f"apicurio-{VERSION}"
    complete = folder / "complete"
    if not complete.exists():
        folder.mkdir(parents=True, exist_ok=True)  # Maven leaves notes where it is started
        command = [
            "mvn",
            "--quiet",
            "--batch-mode",
            _UNPACK,
            f"-Dartifact={_ARTIFACT}",
            f"-DoutputDirectory={folder}",
        ]
        outcome = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_DEADLINE_S, cwd=folder, check=False
        )
        if outcome.returncode != 0:
            raise JarsUnavailable(f"Maven could not fetch Apicurio: {outcome.stdout[-2000:]}{outcome.stderr[-2000:]}")
        complete.touch()
    return folder


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/subjects").is_success
    except httpx.TransportError:
        return False
