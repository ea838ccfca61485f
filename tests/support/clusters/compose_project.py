"""A project of Compose as a test has it: a copy of the repository, own ports, and the engine's view of containers.

Commands of a page are typed as they stand there: the name of the project, ports and tags of images are in the
environment, as a user may choose them.
"""

import json
import os
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
from docker.models.containers import Container

from tests.support.eventually import eventually
from tests.support.free_ports import free_ports

ROOT = Path(__file__).resolve().parents[3]
PARTS = (
    "constraints.txt",
    "LICENSE",
    "README.md",
    ".dockerignore",
    "proto",
    "core",
    "operations",
    "services",
    "plugins",
    "cli",
    "deploy",
)
"""What the engine is given of the repository."""
PORTS = (
    *(f"OTTLA_BROKER_{number}_PORT" for number in (1, 2, 3)),
    *("OTTLA_CONNECT_PORT", "OTTLA_CONNECT_2_PORT", "OTTLA_CONNECT_3_PORT", "OTTLA_CONNECT_SPARK_PORT"),
    *("OTTLA_PROMETHEUS_PORT", "OTTLA_MIRROR_PORT", "OTTLA_STANDBY_BROKER_1_PORT"),
)
LABELS = {"OTTLA_REVISION": "a-revision", "OTTLA_SOURCE": "a-source"}
COMMAND_DEADLINE_S = 1800.0
"""Of one command; those that build images bring Spark from a package index."""
HEALTHY_DEADLINE_S = 240.0
AGAIN_AFTER_S = 1.0
PROJECT_LABEL, SERVICE_LABEL = "com.docker.compose.project", "com.docker.compose.service"


def copy_of_repository(directory: Path) -> Path:
    """Copies what images are made of, as a fresh clone has it."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, directory / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            directory.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, directory / part)
    return directory


@dataclass
class ComposeProject:
    """A project and its containers.

    Attributes:
        name: of the project.
        directory: the copy of the repository, in which commands are typed.
        engine: the client of the engine.
        tag: of the images.
    """

    name: str
    directory: Path
    engine: docker.DockerClient
    tag: str
    _exports: list[str] = field(default_factory=list)
    _environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OTTLA_", "COMPOSE_"))}
        own = {"COMPOSE_PROJECT_NAME": self.name, "OTTLA_TAG": self.tag, **LABELS, **ports}
        self._environment = {**inherited, **own}

    def type(self, line: str, *, until: str = "", within_s: float = COMMAND_DEADLINE_S) -> str:
        """Runs a line of a shell and returns what it prints.

        Args:
            line: as a page has it.
            until: a pattern in what it has to print; until then it is typed again.
            within_s: for all attempts.
        """
        if line.startswith("export "):
            self._exports.append(line)
            return ""
        deadline_s = time.monotonic() + within_s
        while True:
            done = subprocess.run(
                ["bash", "-c", "\n".join([*self._exports, line])],
                cwd=self.directory, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                check=False, timeout=COMMAND_DEADLINE_S,
            )  # fmt: skip
            if done.returncode == 0 and re.search(until, done.stdout):
                return done.stdout
            if time.monotonic() > deadline_s or not until:
                raise AssertionError(f"{line}: exit code {done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}")
            time.sleep(AGAIN_AFTER_S)  # between two attempts; the deadline ends them

    def compose(self, arguments: str, *, files: Sequence[str] = ("compose.yaml",)) -> str:
        """Runs a command of Compose and returns what it prints."""
        return self.type(" ".join(["docker", "compose", *(f"-f deploy/{file}" for file in files), arguments]))

    def port(self, variable: str) -> int:
        """The port on this host that a variable chooses."""
        return int(self._environment[variable])

    def bootstrap(self, *variables: str) -> str:
        """The brokers that clients on this host are told."""
        return ",".join(f"127.0.0.1:{self.port(variable)}" for variable in variables)

    def containers(self) -> dict[str, Container]:
        """All containers by their services."""
        label = f"{PROJECT_LABEL}={self.name}"
        listed: list[Container] = self.engine.containers.list(all=True, filters={"label": label})
        return {each.labels[SERVICE_LABEL]: each for each in listed}

    def container(self, service: str) -> Container:
        """The container of a service, as it is now."""
        return self.containers()[service]

    def state(self, service: str) -> dict[str, Any]:
        """What the engine says of a service's process."""
        state: dict[str, Any] = self.container(service).attrs["State"]
        return state

    def is_healthy(self, service: str) -> bool:
        """Whether it runs and has said that it is ready."""
        state = self.state(service)
        return bool(state["Running"] and state.get("Health", {}).get("Status") == "healthy")

    def kill(self, service: str) -> None:
        """Ends a container's process as a crash does: the engine is not told, so it starts the container again."""
        pid = self.state(service)["Pid"]
        self.engine.containers.run(
            f"ottla-etcd:{self.tag}", ["-c", f"kill -KILL {pid}"],
            entrypoint="sh", user="0", pid_mode="host", network_mode="none", remove=True,
        )  # fmt: skip

    def await_healed(self, service: str, started_at: str) -> None:
        """Waits until a container that started at a time has started again and is healthy."""
        eventually(
            lambda: self.state(service)["StartedAt"] != started_at and self.is_healthy(service),
            f"{service} is back",
            within_s=HEALTHY_DEADLINE_S,
        )

    def targets(self) -> dict[str, str]:
        """What Prometheus scrapes, and how that went: the health by instance."""
        url = f"http://127.0.0.1:{self.port('OTTLA_PROMETHEUS_PORT')}/api/v1/targets?state=active"
        with urllib.request.urlopen(url, timeout=HEALTHY_DEADLINE_S) as answer:
            targets = json.load(answer)["data"]["activeTargets"]
        return {target["labels"]["instance"]: target["health"] for target in targets}

    def remove(self) -> None:
        """Removes containers, networks and volumes, also those of profiles."""
        for container in self.containers().values():
            container.remove(force=True, v=True)
        for network in self.engine.networks.list(filters={"label": f"{PROJECT_LABEL}={self.name}"}):
            network.remove()
        for volume in self.engine.volumes.list(filters={"label": f"{PROJECT_LABEL}={self.name}"}):
            volume.remove(force=True)
