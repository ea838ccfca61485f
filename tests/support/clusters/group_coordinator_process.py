"""A real `ottla-group-coordinator` process for tests, on ports that it chooses itself."""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.child_process import ChildProcess
from tests.support.clusters.controller_process import ControllerProcess


class GroupCoordinatorProcess(ControllerProcess):
    """One group coordinator; its address is read from its log, as a controller's is."""

    def __init__(self, directory: Path, coordinator_id: int, *, settings: Sequence[str]):
        self.id = coordinator_id
        name = f"group-coordinator-{coordinator_id}"
        self._log = directory / f"{name}.log"
        command = [sys.executable, "-m", "ottla_group_coordinator"]
        for setting in (f"node.id={coordinator_id}", "rpc.listener=127.0.0.1:0", *settings):
            command += ["--set", setting]
        self.child = ChildProcess(name, command, log=self._log)
