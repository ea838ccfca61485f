"""A job that starts a program, as one on Spark does, and writes down what happens to it."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ottla_sdk import JobTask, SourceConnector, setting
from ottla_test_plugins.faults import FaultConfig, Faults


class ProgramJobConfig(FaultConfig):
    """Settings of `ProgramJob` and its task."""

    path: Path = setting("job.path", doc="A file that gets a line of JSON for every event.")
    topics: str = setting("job.topics", "", doc="Topics to ask for, with commas between.")


class ProgramJobTask(JobTask[ProgramJobConfig]):
    """Starts a program that would go on for an hour."""

    config_model = ProgramJobConfig

    def start(self) -> None:
        self._faults = Faults(self.config)
        self._program = subprocess.Popen(["sleep", "3600"])
        self._event("start", program=self._program.pid, bootstrap=self._bootstrap())
        if self.config.topics:
            self.context.ensure_topics(self.config.topics.split(","))
        self._watched = 0
        self._faults.at("start")

    def watch(self) -> None:
        self._faults.at("watch")
        self._watched += 1
        self.context.metrics.set("watched", self._watched)
        self.context.report_progress({"watched": self._watched, "says": [self.config.fault_says]})
        self.context.wait(0.05)

    def stop(self) -> None:
        self._event("stop")
        self._program.kill()
        self._program.wait()

    def _bootstrap(self) -> Sequence[str]:
        kinds: tuple[Literal["consumer", "producer", "admin"], ...] = ("consumer", "producer", "admin")
        settings: list[Mapping[str, Any]] = [self.context.client_settings(kind) for kind in kinds]
        return [each["bootstrap.servers"] for each in settings]

    def _event(self, event: str, **details: Any) -> None:
        with self.config.path.open("a") as file:
            file.write(json.dumps({"event": event, "pid": os.getpid(), **details}) + "\n")


class ProgramJob(SourceConnector[ProgramJobConfig]):
    """Has one task, a job."""

    config_model = ProgramJobConfig
    task_class = ProgramJobTask
