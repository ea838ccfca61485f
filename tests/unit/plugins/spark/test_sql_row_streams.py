"""How the rows of a task reach the driver, without Spark."""

import pickle
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import repeat
from threading import Thread
from typing import Any

import pytest

from ottla_spark.sql import row_streams
from ottla_spark.sql.row_streams import ATTEMPT_BYTES, Receiver, RowsLost, _frames

TOKEN = bytes(range(32))
ROWS = [pickle.dumps([1, 2]), pickle.dumps([3])]


Task = Callable[[Receiver], Iterator[bytes]]
"""Returns the result of the attempt that counts."""


@pytest.fixture
def frames_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Task], Iterator[bytes]]:
    """Return the frames that a driver takes, where a task does what it is told."""

    def frames(task: Task) -> Iterator[bytes]:
        @contextmanager
        def running(
            _context: object, _rows: object, receiver: Receiver, _number: int
        ) -> Iterator["Future[list[bytes]]"]:
            job: Future[list[bytes]] = Future()

            def run() -> None:
                try:
                    job.set_result(list(task(receiver)))
                except RuntimeError as error:
                    job.set_exception(error)

            thread = Thread(target=run)
            thread.start()
            try:
                yield job
            finally:
                thread.join()

        monkeypatch.setattr(row_streams, "_running", running)
        nothing: Any = None
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(row_streams.LOOK_INTERVAL_S)
            receiver = Receiver(listener.getsockname()[:2], TOKEN)
            yield from (each for each in _frames(nothing, nothing, 0, listener, receiver) if each)

    return frames


def begun(receiver: Receiver) -> socket.socket:
    """Return the connection of an attempt that has sent its first row."""
    connection = socket.create_connection(receiver.address)
    connection.sendall(receiver.token + bytes(ATTEMPT_BYTES) + len(ROWS[0]).to_bytes(4, "big") + ROWS[0])
    return connection


def test_frames_come_as_they_were_sent(frames_of: Callable[..., Iterator[bytes]]) -> None:
    assert list(frames_of(lambda receiver: receiver.send(ROWS))) == ROWS


def test_a_connection_that_ends_without_an_end_loses_rows_and_says_so(
    frames_of: Callable[..., Iterator[bytes]],
) -> None:
    def send_half(receiver: Receiver) -> Iterator[bytes]:
        with begun(receiver):
            return iter(())

    found = frames_of(send_half)
    assert next(found) == ROWS[0]
    with pytest.raises(RowsLost, match="broke before all rows had come"):
        next(found)


def test_a_task_that_never_connects_says_so(frames_of: Callable[..., Iterator[bytes]]) -> None:
    with pytest.raises(RowsLost, match="could not connect"):
        list(frames_of(lambda _: iter(())))


def test_the_failure_of_a_task_counts_also_behind_its_last_row(frames_of: Callable[..., Iterator[bytes]]) -> None:
    def send_and_fail(receiver: Receiver) -> Iterator[bytes]:
        receiver.send(ROWS)
        raise RuntimeError("behind the last row")

    with pytest.raises(RuntimeError, match="behind the last row"):
        list(frames_of(send_and_fail))


def test_a_worker_whose_driver_has_gone_ends(frames_of: Callable[..., Iterator[bytes]]) -> None:
    found = frames_of(lambda receiver: receiver.send(repeat(bytes([1]) * 1_000_000)))
    assert next(found)
    found.close()  # type: ignore[attr-defined] # a generator


def test_rows_of_an_attempt_that_failed_do_not_pass_for_those_of_the_one_that_followed(
    frames_of: Callable[..., Iterator[bytes]],
) -> None:
    def fail_in_the_middle_and_be_run_again(receiver: Receiver) -> Iterator[bytes]:
        receiver.send(ROWS[:1])  # where Java fails, its worker takes that for the end
        return receiver.send(ROWS)

    with pytest.raises(RowsLost, match="ran a task again"):
        list(frames_of(fail_in_the_middle_and_be_run_again))


def test_a_task_that_is_run_again_with_more_rows_than_fit_anywhere_is_not_waited_for(
    frames_of: Callable[..., Iterator[bytes]],
) -> None:
    def run_again(receiver: Receiver) -> Iterator[bytes]:
        receiver.send(ROWS[:1])
        return receiver.send(repeat(bytes([1]) * 1_000_000, 100))

    with pytest.raises(RowsLost, match="ran a task again"):
        list(frames_of(run_again))


def test_a_host_that_has_gone_without_a_word_is_not_waited_for_when_its_task_is_run_again(
    frames_of: Callable[..., Iterator[bytes]],
) -> None:
    def lose_the_host(receiver: Receiver) -> Iterator[bytes]:
        with begun(receiver):
            return receiver.send(repeat(bytes([1]) * 1_000_000, 100))

    found = frames_of(lose_the_host)
    assert next(found) == ROWS[0]
    with pytest.raises(RowsLost, match="ran a task again"):
        next(found)


def test_who_does_not_know_the_token_is_not_heard(frames_of: Callable[..., Iterator[bytes]]) -> None:
    def let_a_stranger_come_first(receiver: Receiver) -> Iterator[bytes]:
        with socket.create_connection(receiver.address) as connection:
            connection.sendall(bytes(len(receiver.token) + ATTEMPT_BYTES) + len(ROWS[1]).to_bytes(4, "big") + ROWS[1])
        return receiver.send(ROWS)

    assert list(frames_of(let_a_stranger_come_first)) == ROWS
