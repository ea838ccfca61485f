"""What is said while a cluster has nobody who could work; `test_cluster.py` shows that it is noticed."""

import logging
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from ottla_spark.cluster import executors
from ottla_spark.cluster.executors import WAITING, waits_for_executors
from ottla_spark.job.task import SparkSinkTask
from ottla_spark.sql import spark_thread
from ottla_spark.sql.spark_thread import SparkThread, Work
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether there are no executors: what the last item says."""
    said = [True]
    for module in (executors, spark_thread):
        monkeypatch.setattr(module, "waits_for_executors", lambda session: said[-1])
    return said


def test_on_one_machine_nobody_waits(spark: "SparkSession") -> None:
    assert not waits_for_executors(spark)


def test_the_prompt_is_told_once_while_a_statement_waits(
    spark: "SparkSession", waiting: list[bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spark_thread, "PATIENCE_S", 0.01)
    started: Future[SparkSession] = Future()
    started.set_result(spark)
    thread = SparkThread({}, tmp_path)
    thread._session = started
    told: list[str] = []

    def statement(session: "SparkSession", work: Work) -> None:
        eventually(lambda: told, "it was said that the statement waits")
        work.emit("done")

    assert list(thread.chunks(statement, on_waiting=lambda: told.append("waits"))) == ["done"]
    assert told == ["waits"]


def test_a_task_says_so_in_its_status_and_once_in_its_log(
    spark: "SparkSession",
    waiting: list[bool],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = SparkSinkTask()
    monkeypatch.setattr(executors, "PATIENCE_S", 0.0)
    task.context = cast("Any", SimpleNamespace(log=logging.getLogger("task")))
    task._session = spark

    with caplog.at_level(logging.WARNING):
        shown = [task._waiting(), task._waiting()]
        waiting.append(False)
        shown.append(task._waiting())

    assert shown == [{"waits": WAITING}, {"waits": WAITING}, {}]
    assert caplog.messages == [WAITING]


def test_a_cluster_that_is_slow_to_give_executors_is_not_complained_of(
    spark: "SparkSession", waiting: list[bool]
) -> None:
    task = SparkSinkTask()
    task._session = spark
    assert task._waiting() == {}


def test_spark_that_has_ended_is_not_waited_for() -> None:
    assert not waits_for_executors(cast("Any", SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))))
