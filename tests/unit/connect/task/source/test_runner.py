"""The turns of a source task: poll, send, commit."""

import pytest

from ottla_connect.task.control import Standing
from ottla_connect.task.measures import TaskMeasures
from ottla_connect.task.source.runner import SourceRunner


class Parts:
    """Everything around a runner whose task fails at once; `events` is what happens at the end."""

    leased = True  # as the control's

    def __init__(self) -> None:
        self.events: list[str] = []
        self.runner = SourceRunner(
            task=self,
            control=self,
            sender=self,
            commits=self,
            measures=TaskMeasures("source"),
            flush_timeout_s=1.0,
            on_running=lambda: None,
            on_paused=lambda: None,
        )

    def standing(self):
        return Standing.WORKING

    def start(self):
        raise ValueError("the source is gone")

    def flush(self, timeout_s):
        return 0

    def finish(self, timeout_s):
        raise TypeError("an offset is no JSON")

    def stop(self):
        self.events.append("stop")

    def close(self):
        self.events.append("close")


def test_a_last_commit_that_fails_neither_keeps_the_task_from_stopping_nor_hides_why_it_failed():
    parts = Parts()
    with pytest.raises(ValueError, match="the source is gone"):
        parts.runner.run()
    assert parts.events == ["stop", "close"]
