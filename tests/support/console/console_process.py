"""A console as its own process, with settings of a test's own."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.support.child_process import ChildProcess
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports

START_DEADLINE_S = 60.0


class ConsoleProcess:
    """One `ottla-console`.

    Attributes:
        url: where its pages are.

    Args:
        directory: for its file and its log.
        settings: all but where it listens; `{url}` in them stands for that.
    """

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        (port,) = free_ports(1)
        self.url = f"http://{LOOPBACK}:{port}"
        path = directory / "console.properties"
        text = {"listeners": self.url, **{key: value.replace("{url}", self.url) for key, value in settings.items()}}
        path.write_text("".join(f"{key}={value}\n" for key, value in text.items()))
        found = shutil.which("ottla-console") or str(Path(sys.executable).with_name("ottla-console"))
        assert Path(found).exists(), f"{found} is missing: run make setup"
        self.process = ChildProcess("console", [found, "--config", str(path)], log=directory / "console.log")

    def __enter__(self) -> Self:
        self.process.start()
        eventually(self._answers, "the console answers", within_s=START_DEADLINE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.stop()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health").status_code == 200
        except httpx.TransportError:
            return False
