"""Ctrl-C: the first one ends the statement, a second one before that has ended leaves."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from ottla_spark.sql import spark_thread
from ottla_spark.sql.prompt import _run_all
from ottla_spark.sql.spark_thread import SparkThread, Work
from ottla_spark.sql.sql_errors import Interrupted, InterruptedTwice


@pytest.fixture
def session() -> MagicMock:
    return MagicMock()


@pytest.fixture
def thread(session: MagicMock, tmp_path: Path) -> Iterator[SparkThread]:
    made = SparkThread({}, tmp_path)
    started: Future[Any] = Future()
    started.set_result(session)
    made._session = started
    yield made
    made._executor.shutdown()


def test_the_first_cancels_the_jobs_until_the_statement_has_ended(thread: SparkThread, session: MagicMock) -> None:
    was_cancelled = threading.Event()

    def statement(_session: object, work: Work) -> None:
        work.emit("a row")
        assert was_cancelled.wait(30)

    session.sparkContext.cancelJobGroup.side_effect = lambda _: was_cancelled.set()
    chunks = thread.chunks(statement)
    assert next(chunks) == "a row"
    with pytest.raises(Interrupted) as raised:
        chunks.throw(KeyboardInterrupt)
    assert not isinstance(raised.value, InterruptedTwice)
    assert list(thread.chunks(lambda _, work: work.emit("the next"))) == ["the next"]


def test_a_second_does_not_wait_for_the_statement(thread: SparkThread, session: MagicMock) -> None:
    may_end = threading.Event()

    def statement(_session: object, work: Work) -> None:
        work.emit("a row")
        may_end.wait(30)

    session.sparkContext.cancelJobGroup.side_effect = KeyboardInterrupt
    try:
        with pytest.raises(InterruptedTwice), closing(thread.chunks(statement)) as chunks:
            assert next(chunks) == "a row"
    finally:
        may_end.set()


def test_one_while_java_s_classes_are_kept_skips_that_and_is_no_failure(
    thread: SparkThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[object] = []

    def end(session: object, *_: object) -> bool:
        ended.append(session)
        if session is not None:
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(spark_thread, "_end_jvm", end)
    thread._quick = MagicMock()
    thread.close(in_order=True)
    assert ended[-1] is None, "Java was ended all the same"
    thread._quick.keep.assert_called_once_with(ended_well=False)
    with pytest.raises(KeyboardInterrupt):
        thread.close(in_order=False)


def test_the_prompt_goes_on_after_the_first_and_ends_after_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_: str) -> bool:
        raise Interrupted

    def interrupted_twice(_: str) -> bool:
        raise InterruptedTwice

    assert _run_all("SELECT 1; SELECT 2", interrupted)
    with pytest.raises(InterruptedTwice):
        _run_all("SELECT 1", interrupted_twice)
