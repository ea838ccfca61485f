"""Running the `ottla` command as a person would, against the broker under test."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command

RUN_DEADLINE_S = 120


class Ottla:
    """The command with the bootstrap address in its environment.

    Attributes:
        environment: what is set for each run besides the environment of the tests.
    """

    def __init__(self, bootstrap: str) -> None:
        self.environment = {"OTTLA_BOOTSTRAP": bootstrap}

    def run(self, *arguments: str, stdin: bytes = b"", fails_with: int = 0) -> subprocess.CompletedProcess[bytes]:
        """Runs it to its end; its exit code must be the one expected."""
        done = subprocess.run(
            [ottla_command(), *arguments],
            input=stdin, capture_output=True, check=False,
            timeout=RUN_DEADLINE_S, env={**os.environ, **self.environment},
        )  # fmt: skip
        assert done.returncode == fails_with, done.stderr.decode()
        return done

    def json(self, *arguments: str, stdin: bytes = b"", fails_with: int = 0) -> Any:
        """The document that it prints with `--json`."""
        return json.loads(self.run(*arguments, "--json", stdin=stdin, fails_with=fails_with).stdout)

    def records(self, *arguments: str) -> list[dict[str, Any]]:
        """What `ottla consume` reads."""
        lines = self.run("consume", *arguments, "--format", "record").stdout.splitlines()
        return [json.loads(line) for line in lines]


@contextmanager
def ottla_and_connect(directory: Path) -> Iterator[Ottla]:
    """The command for a cluster of its own in this directory, with a Connect worker."""
    with OttlaCluster(directory, arguments=("--connect", "1")) as cluster:
        made = Ottla(cluster.bootstrap)
        connect = json.loads((directory / "cluster.json").read_text())["connect"]
        made.environment |= {"OTTLA_DIR": str(directory), "OTTLA_CONNECT_URL": connect[0]}
        yield made
