"""Faults that a connector or task of the tests has when its settings say so.

fault.where         the method: configure, check, start, task_configs, poll, open, put, pre_commit, close, stop, …
fault.kind          retriable, data, fatal, bug, segfault, exit, hang, leak, report
fault.after         calls of the method that go well before
fault.times         how many calls then go wrong (-1: all that follow)
fault.marker        a file that is made when a fault happens; while it is there none does: once over restarts
fault.says          what the error says in addition
"""

import ctypes
import os
import time
from pathlib import Path
from typing import Literal

from ottla_sdk import DataError, FatalError, PluginConfig, RetriableError, setting

LEAK_STEP_BYTES = 8 * 1024 * 1024
LEAK_PAUSE_S = 0.02


class FaultConfig(PluginConfig):
    """Mixed into the configuration of what can fail."""

    fault_where: str = setting("fault.where", "", doc="The method that fails.", group="Faults")
    fault_kind: Literal["retriable", "data", "fatal", "bug", "segfault", "exit", "hang", "leak"] = setting(
        "fault.kind", "bug", doc="How it fails.", group="Faults"
    )
    fault_after: int = setting("fault.after", 0, doc="How many calls go well before.", ge=0, group="Faults")
    fault_times: int = setting("fault.times", -1, doc="How many calls fail; -1: all.", ge=-1, group="Faults")
    fault_says: str = setting("fault.says", "", doc="What the error says in addition.", group="Faults")
    fault_marker: Path | None = setting("fault.marker", None, doc="A file made by the only fault.", group="Faults")


class Faults:
    """Has the fault that a configuration asks for, when its time has come."""

    def __init__(self, config: FaultConfig) -> None:
        self._config = config
        self._calls = 0

    def at(self, method: str) -> None:
        """Count a call of a method, and fail if this one is to."""
        config = self._config
        if config.fault_where != method:
            return
        self._calls += 1
        number = self._calls - config.fault_after
        if number <= 0 or (config.fault_times >= 0 and number > config.fault_times):
            return
        if config.fault_marker is not None:
            if config.fault_marker.exists():
                return
            config.fault_marker.touch()
        fail(config.fault_kind, method, config.fault_says)


def fail(kind: str, method: str, says: str = "") -> None:
    """Fail in a way of `FaultConfig`."""
    match kind:
        case "retriable":
            raise RetriableError(f"{method} fails for a while{says}")
        case "data":
            raise DataError(f"{method} does not like this record{says}")
        case "fatal":
            raise FatalError(f"{method} fails for good{says}")
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(3600)  # hangs for as long as a test lives
        case "leak":
            leaked = []
            while True:
                leaked.append(bytearray(os.urandom(4096) * (LEAK_STEP_BYTES // 4096)))
                time.sleep(LEAK_PAUSE_S)  # the worker looks at memory now and then, and must see it grow
        case _:
            raise ValueError(f"{method} has a bug{says}")
