"""Processes of Spark are told apart, and two drivers that work at once are noticed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.eventually import eventually
from tests.support.spark.spark_faults_processes import DriverWatch, Kind, Mark, SparkProcess

SLEEP = "import time; time.sleep(60)"
"""A program that lives until the test ends it."""


@pytest.fixture
def mark() -> Iterator[Mark]:
    new = Mark.new()
    yield new
    new.kill_all()


def process(pid: int, parent: int, kind: Kind, application: str = "") -> SparkProcess:
    return SparkProcess(pid, parent, kind, application, "")


FIRST = [process(10, 1, Kind.DRIVER), process(11, 10, Kind.DAEMON), process(12, 11, Kind.WORKER)]
STARTING = [process(20, 1, Kind.DRIVER)]
SECOND = [*STARTING, process(21, 20, Kind.RUNNER)]


def test_processes_with_the_mark_are_found_by_what_they_run(mark: Mark) -> None:
    with ExitStack() as stack:
        for words in (
            ["pyspark.daemon"],
            ["pyspark.sql.streaming.python_streaming_source_runner"],
            ["--app-id", "a"],
        ):
            command = [sys.executable, "-c", SLEEP, *words]
            started = stack.enter_context(subprocess.Popen(command, env={**os.environ, **mark.environment}))
            stack.callback(started.kill)
        found = eventually(lambda: len(mark.processes()) == 3 and mark.processes(), "all are there")
        assert {(each.kind, each.application) for each in found} == {
            (Kind.DAEMON, ""),
            (Kind.RUNNER, ""),
            (Kind.OTHER, "a"),
        }
        assert {each.kind for each in mark.spark()} == {Kind.DAEMON, Kind.RUNNER}
        assert not Mark.new().processes()


def test_what_a_daemon_has_forked_is_a_worker_and_keeps_the_mark_without_its_parents(mark: Mark) -> None:
    forking = f"import os; os.fork(); {SLEEP}"
    environment = {**os.environ, **mark.environment}
    with subprocess.Popen([sys.executable, "-c", forking, "pyspark.daemon"], env=environment) as daemon:
        (worker,) = eventually(lambda: mark.of_kind(Kind.WORKER), "it has forked")
        assert worker.parent == daemon.pid
        daemon.kill()
    assert [each.pid for each in mark.spark()] == [worker.pid]
    os.kill(worker.pid, signal.SIGKILL)
    eventually(lambda: not mark.processes(), "it is gone")


def test_what_a_jvm_is_about_to_start_is_no_second_driver(mark: Mark) -> None:
    forking = f"import os; os.fork(); {SLEEP}"
    command = [sys.executable, "-c", forking, Kind.DRIVER.value]
    with subprocess.Popen(command, env={**os.environ, **mark.environment}) as driver:
        eventually(lambda: len(mark.processes()) == 2, "it has forked")
        assert [each.pid for each in mark.of_kind(Kind.DRIVER)] == [driver.pid]
        mark.kill_all()


def test_a_driver_that_only_starts_beside_another_does_not_count() -> None:
    watch = DriverWatch(Mark.new())
    for now_s in range(5):
        watch.look([*FIRST, *STARTING], now_s)
    assert watch.longest_s == 0
    assert watch.drivers == {"driver 10"}


def test_drivers_that_work_at_once_are_noticed_with_the_longest_time() -> None:
    watch = DriverWatch(Mark.new())
    for now_s, processes in enumerate([FIRST, FIRST + SECOND, FIRST + SECOND, SECOND, FIRST + SECOND, SECOND]):
        watch.look(processes, now_s)
    assert watch.longest_s == 1
    assert watch.who == {"driver 10", "driver 20"}


def test_executors_of_two_applications_at_once_are_noticed() -> None:
    watch = DriverWatch(Mark.new())
    for now_s in range(3):
        watch.look([process(1, 0, Kind.EXECUTOR, "app-1"), process(2, 0, Kind.EXECUTOR, "app-2")], now_s)
    assert watch.longest_s == 2
    assert watch.who == {"app-1", "app-2"}
