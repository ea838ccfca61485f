"""A process of a job task, as a worker would run it."""

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from ottla_connect.processes.messages import (
    Failed,
    Measured,
    Outlook,
    Paused,
    Progressed,
    Running,
    SetPaused,
    Stopped,
    TopicsUsed,
)
from tests.support.connect.connect_process import ConnectProcess
from tests.support.eventually import eventually
from tests.unit.connect.task.processes.conftest import Connect, Kafka


class Job:
    """A process with a `ProgramJob`, and what that has written down."""

    def __init__(self, connect: Connect, **options: object) -> None:
        self.path = connect.directory / "job"
        settings = {"connector.class": "ProgramJob", "job.path": str(self.path)}
        self.process: ConnectProcess = connect._task(settings, options)

    def events(self, kind: str) -> list[dict[str, object]]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def started(self, times: int = 1) -> dict[str, object]:
        eventually(lambda: len(self.events("start")) >= times, f"the job has started {times} times")
        return self.events("start")[times - 1]


def is_running(pid: object) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def test_it_starts_shows_how_it_goes_and_stops(connect: Connect, kafka: Kafka):
    topic = f"made-{connect.name()}"
    job = Job(
        connect,
        job_topics=topic,
        **{"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1"},
    )
    job.process.until(Running)
    started = job.started()
    assert started["bootstrap"] == [kafka.bootstrap] * 3
    metadata = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(topic, timeout=10).topics[topic]
    assert len(metadata.partitions) == 3
    assert job.process.until(TopicsUsed).topics == [topic]
    assert job.process.until(Progressed).progress["watched"] > 0
    assert job.process.until(Measured, lambda said: "watched" in said.values)
    assert job.process.stop() == 0
    assert job.process.all(Stopped)
    assert not is_running(started["program"])


def test_pausing_stops_it_and_resuming_starts_another(connect: Connect):
    job = Job(connect)
    first = job.started()
    job.process.until(Running)
    job.process.send(SetPaused(paused=True))
    job.process.until(Paused)
    assert len(job.events("stop")) == 1
    assert not is_running(first["program"])
    job.process.send(SetPaused(paused=False))
    second = job.started(2)
    job.process.until(Running, count=2)
    assert second["pid"] == first["pid"]
    assert is_running(second["program"])
    said = [each for each in job.process.said if isinstance(each, Running | Paused | Progressed)]
    after_pause = said[next(n for n, each in enumerate(said) if isinstance(each, Paused)) + 1]
    assert isinstance(after_pause, Running)


@pytest.mark.parametrize(
    ("kind", "outlook"), [("fatal", Outlook.FATAL), ("bug", Outlook.OPEN), ("retriable", Outlook.PASSING)]
)
def test_what_it_fails_with_is_told_and_its_program_is_stopped(connect: Connect, kind: str, outlook: Outlook):
    job = Job(connect, fault_where="watch", fault_kind=kind, fault_after=2)
    failed = job.process.until(Failed)
    assert failed.outlook is outlook
    assert "watch " in failed.reason
    job.process.wait()
    assert not is_running(job.started()["program"])


def test_a_job_that_fails_to_start_is_stopped(connect: Connect):
    job = Job(connect, fault_where="start", fault_kind="bug")
    assert "start has a bug" in job.process.until(Failed).reason
    job.process.wait()
    assert len(job.events("stop")) == 1


@pytest.mark.slow
def test_it_begins_only_with_a_lease_and_ends_at_once_when_that_lapses(connect: Connect):
    job = Job(connect, lease=False)
    job.process.lease(15.0)  # the job must have started by its end, on a busy machine too
    job.started()
    assert job.process.wait() == 5
    assert "lease has lapsed" in job.process.log
    assert not job.process.all(Stopped)
    assert not job.events("stop")
