"""A mirror worker as its own process, which a test may kill; and a client of its REST API."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from ottla_operations.workers.mirror_client import flow_path
from tests.support.child_process import ChildProcess
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports

START_DEADLINE_S = 60.0
REQUEST_TIMEOUT_S = 30.0
QUICK = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "300",
    "refresh.topics.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "offset-map.flush.interval.ms": "200",
}
"""Settings with which nobody waits for long."""


def mirror_command() -> str:
    """The `ottla-mirror` of this environment."""
    found = shutil.which("ottla-mirror") or str(Path(sys.executable).with_name("ottla-mirror"))
    assert Path(found).exists(), f"{found} is missing: run make setup"
    return found


class MirrorWorkerProcess:
    """One `ottla-mirror`.

    Attributes:
        url: of its REST API.
        process: the process.
    """

    def __init__(self, directory: Path, settings: Mapping[str, str], *, name: str = "mirror") -> None:
        (port,) = free_ports(1)
        self.url = f"http://{LOOPBACK}:{port}"
        path = directory / f"{name}.properties"
        directory.mkdir(parents=True, exist_ok=True)
        lines = {"listeners": self.url, **QUICK, **settings}
        path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        self.process = ChildProcess(name, [mirror_command(), "--config", str(path)], log=directory / f"{name}.log")
        self._client = httpx.Client(base_url=self.url, timeout=REQUEST_TIMEOUT_S, trust_env=False)

    def start(self) -> None:
        """Start it, and wait until it is a member of its groups."""
        self.process.start()
        eventually(self.is_healthy, f"{self.process.name} is healthy", within_s=START_DEADLINE_S)

    def is_healthy(self) -> bool:
        self.process.check_running()
        try:
            return self._client.get("/health").status_code == 200
        except httpx.HTTPError:
            return False

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()

    def get(self, path: str) -> Any:
        """The answer to GET, which must be good."""
        answer = self._client.get(path)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """The answer to another request."""
        return self._client.request(method, path, json=body)

    def flow(self, name: str, *below: str) -> Any:
        """What GET says of a flow."""
        return self.get(flow_path(name, *below))

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
        if self.process.is_running():
            self.process.stop()
