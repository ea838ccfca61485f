"""A real `ottla-controller` process for tests, on a port that it chooses itself."""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.child_process import ChildProcess
from tests.support.eventually import eventually


class ControllerProcess:
    """One controller; its address is read from its log."""

    def __init__(self, directory: Path, controller_id: int, *, settings: Sequence[str]):
        self.id = controller_id
        self._log = directory / f"controller-{controller_id}.log"
        command = [sys.executable, "-m", "ottla_controller"]
        for setting in (f"node.id={controller_id}", "rpc.listener=127.0.0.1:0", *settings):
            command += ["--set", setting]
        self.child = ChildProcess(f"controller-{controller_id}", command, log=self._log)

    def start(self) -> None:
        """Starts it and waits until it is ready."""
        starts_before = len(self._ready_events())
        self.child.start()

        def ready() -> bool:
            self.child.check_running()
            return len(self._ready_events()) > starts_before

        eventually(ready, f"{self.child.name} is ready")

    @property
    def rpc_address(self) -> str:
        address: str = self._ready_events()[-1]["rpc_address"]
        return address

    def pause(self) -> None:
        os.kill(self.child.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.child.pid, signal.SIGCONT)

    def _ready_events(self) -> list[dict[str, str]]:
        if not self._log.exists():
            return []
        lines = self._log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and '"event": "ready"' in line]
