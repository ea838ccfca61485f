"""The turns of a source task: poll, send, commit."""

import logging

import pytest

from ottla_connect.task.control import WantedState
from ottla_connect.task.health import Health
from ottla_connect.task.measures import TaskMeasures
from ottla_connect.task.source.runner import SourceRunner
from ottla_sdk import RetriableError


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
            health=Health(lambda document: None, str),
            flush_timeout_s=1.0,
            on_running=lambda: None,
            on_paused=lambda: None,
        )

        self.starts = 0

    def wanted_state(self):
        return WantedState.WORKING

    def start(self):
        """The commits', then the task's."""
        self.starts += 1
        if self.starts > 1:
            raise ValueError("the source is gone")

    def give_up(self):
        """Nothing is to be given up."""

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


class PatientParts(Parts):
    """A task whose server asks for patience; the task is told to stop after the first wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_s: list[float] = []

    def wanted_state(self):
        return WantedState.STOPPING if self.waits_s else WantedState.WORKING

    def start(self):
        """Nothing to do."""

    def serve(self):
        """Nothing was acknowledged."""

    def advance(self):
        """Nothing is to be committed."""

    def end_of_empty_batch(self):
        """Nothing was said of a transaction."""

    def poll(self):
        raise RetriableError("the server answers 429", retry_in_ms=15_400)

    def finish(self, timeout_s):
        """Nothing is left to commit."""

    def await_change(self, timeout_s):
        self.waits_s.append(timeout_s)


def test_one_pause_is_told_and_kept_where_the_plugin_knows_how_long_to_wait(caplog):
    parts = PatientParts()
    with caplog.at_level(logging.WARNING):
        parts.runner.run()
    (message,) = [record.getMessage() for record in caplog.records if "tries again" in record.getMessage()]
    assert message == "cannot read now, tries again in 15.4 s: the server answers 429"
    assert parts.waits_s
