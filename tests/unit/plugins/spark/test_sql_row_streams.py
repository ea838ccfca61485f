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
from ottla_spark.sql.row_streams import Receiver, RowsLost, _frames

TOKEN = bytes(range(32))
ROWS = [pickle.dumps([1, 2]), pickle.dumps([3])]


@pytest.fixture
def frames_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Receiver], object]], Iterator[bytes]]:
    """Return the frames that a driver takes, where a task does what it is told."""

    def frames(task: Callable[[Receiver], object]) -> Iterator[bytes]:
        @contextmanager
        def running(_context: object, _rows: object, receiver: Receiver, _number: int) -> Iterator["Future[None]"]:
            job: Future[None] = Future()

            def run() -> None:
                try:
                    task(receiver)
                    job.set_result(None)
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


def test_frames_come_as_they_were_sent(frames_of: Callable[..., Iterator[bytes]]) -> None:
    assert list(frames_of(lambda receiver: receiver.send(ROWS))) == ROWS


def test_a_connection_that_ends_without_an_end_loses_rows_and_says_so(
    frames_of: Callable[..., Iterator[bytes]],
) -> None:
    def send_half(receiver: Receiver) -> None:
        with socket.create_connection(receiver.address) as connection:
            connection.sendall(receiver.token + len(ROWS[0]).to_bytes(4, "big") + ROWS[0])

    found = frames_of(send_half)
    assert next(found) == ROWS[0]
    with pytest.raises(RowsLost, match="broke before all rows had come"):
        next(found)


def test_a_task_that_never_connects_says_so(frames_of: Callable[..., Iterator[bytes]]) -> None:
    with pytest.raises(RowsLost, match="could not connect"):
        list(frames_of(lambda _: None))


def test_the_failure_of_a_task_counts_also_behind_its_last_row(frames_of: Callable[..., Iterator[bytes]]) -> None:
    def send_and_fail(receiver: Receiver) -> None:
        receiver.send(ROWS)
        raise RuntimeError("behind the last row")

    with pytest.raises(RuntimeError, match="behind the last row"):
        list(frames_of(send_and_fail))


def test_a_worker_whose_driver_has_gone_ends(frames_of: Callable[..., Iterator[bytes]]) -> None:
    found = frames_of(lambda receiver: receiver.send(repeat(bytes([1]) * 1_000_000)))
    assert next(found)
    found.close()  # type: ignore[attr-defined] # a generator
