"""The rows of a query, one after the other, with little of them in memory however many there are.

Where Spark itself hands rows to Python (`collect`, `toLocalIterator`), Java keeps a whole partition in its memory.
Here the task of a partition hands them on while it finds them: Java writes rows in frames (pickled lists of up to
10 MB) to the task's Python worker, and that sends them through a connection to the driver. What the driver does not
take stays where it is: full buffers hold up the task, up to the reading of files and topics.

Where Spark encrypts its own connections, rows take Spark's way. A worker proves by a token that it is one, and ends
with an empty frame. Without that the rows are not complete, and the statement fails.

The empty frame alone proves nothing: where Java fails in the middle of a partition, its worker sees an end of the
input as any other. So each attempt of a task has a name, which comes before its rows and as the task's result. Rows
count only if they are those of the attempt that Spark took; a task that is run again cannot take rows back.
"""

import hmac
import pickle
import secrets
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext
from pyspark.errors import PySparkException
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame
from pyspark.sql.types import Row
from pyspark.util import InheritableThread, _load_from_socket

ENCRYPTING_KEYS = ("spark.network.crypto.enabled", "spark.authenticate.enableSaslEncryption", "spark.ssl.rpc.enabled")
"""With one of these Spark's processes encrypt what they say to each other, as the connections here do not."""
LENGTH_BYTES = 4
CONNECT_TIMEOUT_S = 10.0
TOKEN_BYTES = 32
ATTEMPT_BYTES = 16
LOOK_INTERVAL_S = 0.1
"""So often it is looked whether the job has failed or runs again, while nothing comes."""
SHOWN_AFTER_LOOKS = 3
"""Rows that are there are handed on when nothing has come for so many looks."""
GREETING_TIMEOUT_S = 10.0
END_TIMEOUT_S = 10.0
ROWS_PER_BATCH_MAX = 1_000
BATCH_BYTES = 4 << 20
"""A batch of rows is handed on when it has this much, or so many rows."""
LOOPBACK = "127.0.0.1"
RUN_AGAIN = "Spark ran a task again, some of whose rows were here already"


class RowsLost(Exception):
    """The rows that came from a task are not all of them, or not those that count."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where a task's worker sends its rows.

    Attributes:
        address: host and port.
        token: which the worker sends first.
    """

    address: tuple[str, int]
    token: bytes

    def send(self, frames: Iterable[bytes]) -> Iterator[bytes]:
        """Send frames, in a worker, up to their end or until nobody wants them any more.

        Returns:
            The name of this attempt, which is the task's result.
        """
        attempt = secrets.token_bytes(ATTEMPT_BYTES)
        with suppress(ConnectionError), socket.create_connection(self.address, CONNECT_TIMEOUT_S) as connection:
            connection.settimeout(None)  # the driver takes its time, if a person reads what it shows
            connection.sendall(self.token + attempt)
            for frame in frames:
                connection.sendall(len(frame).to_bytes(LENGTH_BYTES, "big"))
                connection.sendall(frame)
            connection.sendall(bytes(LENGTH_BYTES))
        return iter((attempt,))


def row_batches(
    frame: DataFrame, on_part: Callable[[int, int], None] = lambda _number, _count: None
) -> Generator[list[Row]]:
    """Yield the rows of a query in lists, one partition after the other, each by a job of its own.

    Args:
        frame: the query.
        on_part: called with the number of each partition, from 0, and their count, before it is begun.

    Raises:
        RowsLost: a connection broke, or a task was run again.
        PySparkException, Py4JError: the query failed.
    """
    context = frame.sparkSession.sparkContext
    pickled: RDD[Any] = RDD(frame._jdf.javaToPython(), context, NoOpSerializer())  # noqa: SLF001 - no public way
    count = pickled.getNumPartitions()
    if _encrypts(context):
        for number in range(count):
            on_part(number, count)
            yield from _batches(_collected(context, pickled, number))
        return
    host = str(context.getConf().get("spark.driver.host", LOOPBACK))
    with _listening(host) as listener:
        listener.settimeout(LOOK_INTERVAL_S)
        address = (host, int(listener.getsockname()[1]))
        for number in range(count):
            on_part(number, count)
            receiver = Receiver(address, secrets.token_bytes(TOKEN_BYTES))
            with closing(_frames(context, pickled, number, listener, receiver)) as frames:
                yield from _batches(frames)


def _encrypts(context: SparkContext) -> bool:
    """Return whether rows may cross the network, and Spark is to encrypt what does."""
    conf = context.getConf()
    own: Any = context._jsc.sc()  # noqa: SLF001 - no public way
    return not own.isLocal() and any(conf.get(each, "false").lower() == "true" for each in ENCRYPTING_KEYS)


def _listening(host: str) -> socket.socket:
    """Return a socket at which tasks reach the driver; at all addresses if its name is that of none here."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, 0), family=family)
    except OSError:
        return socket.create_server(("", 0), family=family)


def _collected(context: SparkContext, pickled: "RDD[Any]", number: int) -> Iterator[bytes]:
    """Yield the frames of a partition that Java keeps in its memory, sent as Spark sends results."""
    jvm: Any = context._jvm  # noqa: SLF001 - no public way
    served = jvm.PythonRDD.runJob(context._jsc.sc(), pickled._jrdd, [number])  # noqa: SLF001
    with _load_from_socket(served, NoOpSerializer()) as frames:
        yield from frames


def _frames(
    context: SparkContext, pickled: "RDD[Any]", number: int, listener: socket.socket, receiver: Receiver
) -> Generator[bytes]:
    """Yield the frames of a partition; an empty one whenever nothing has come for a while."""
    with _running(context, pickled, receiver, number) as job:
        accepted, attempt = _accepted(listener, receiver, job)
        with closing(accepted) as connection:
            connection.settimeout(LOOK_INTERVAL_S)
            look = partial(_look, listener, receiver, job)
            while True:
                length = yield from _exactly(connection, LENGTH_BYTES, job, look)
                size = int.from_bytes(length, "big")
                if size == 0:
                    break
                yield (yield from _exactly(connection, size, job, look))
        while not job.done():  # its failure counts, also behind the last row
            yield b""
            _wait(job)
            look()
        if job.result() != [attempt]:
            raise RowsLost(RUN_AGAIN)


@contextmanager
def _running(
    context: SparkContext, pickled: "RDD[Any]", receiver: Receiver, number: int
) -> Iterator["Future[list[bytes]]"]:
    """Have a task send its rows, in a thread of its own; it is cancelled at the end, if it still runs."""
    job: Future[list[bytes]] = Future()
    tag = f"ottla-rows-{secrets.token_hex(8)}"

    def run() -> None:
        try:
            context.addJobTag(tag)
            attempts = context.runJob(pickled, partial(_sent, receiver), [number])
        except BaseException as error:  # noqa: BLE001 - raised where the rows are waited for
            job.set_exception(error)
        else:
            job.set_result(attempts)

    thread = InheritableThread(run, name=tag, daemon=True)
    thread.start()
    try:
        yield job
    finally:
        if not job.done():
            with suppress(PySparkException, Py4JError):
                context.cancelJobsWithTag(tag)
            thread.join(END_TIMEOUT_S)


def _sent(receiver: Receiver, frames: Iterable[bytes]) -> Iterator[bytes]:
    return receiver.send(frames)


def _accepted(listener: socket.socket, receiver: Receiver, job: "Future[list[bytes]]") -> tuple[socket.socket, bytes]:
    """Return the connection of the task's worker, and the name of its attempt.

    Raises:
        RowsLost: the job has ended, and none has come.
    """
    while True:
        is_over = job.done()
        with suppress(TimeoutError):
            connection, _ = listener.accept()
            attempt = _attempt_of(connection, receiver.token)
            if attempt is not None:
                return connection, attempt
            connection.close()
            continue
        if is_over:
            job.result()
            raise RowsLost("a task of Spark could not connect to this process to hand over its rows")


def _attempt_of(connection: socket.socket, token: bytes) -> bytes | None:
    """Return what a worker calls its attempt; None if it does not say the token in time."""
    deadline_s = time.monotonic() + GREETING_TIMEOUT_S
    if not hmac.compare_digest(_said(connection, len(token), deadline_s), token):
        return None
    attempt = _said(connection, ATTEMPT_BYTES, deadline_s)
    return attempt if len(attempt) == ATTEMPT_BYTES else None


def _said(connection: socket.socket, count: int, deadline_s: float) -> bytes:
    """Return so many bytes, or what has come of them up to a time of the monotonic clock, in seconds."""
    said = b""
    with suppress(OSError):
        while len(said) < count and (remaining_s := deadline_s - time.monotonic()) > 0:
            connection.settimeout(remaining_s)
            part = connection.recv(count - len(said))
            if not part:
                break
            said += part
    return said


def _look(listener: socket.socket, receiver: Receiver, job: "Future[list[bytes]]") -> None:
    """Look, while nothing comes, whether the job has failed, or runs a second time.

    The second attempt would wait for ever to be heard, and so would this for a host that has gone without a word.

    Raises:
        RowsLost: another attempt of the task has connected.
    """
    if job.done():
        job.result()
    listener.settimeout(0)
    try:
        connection, _ = listener.accept()
    except OSError:
        return
    finally:
        listener.settimeout(LOOK_INTERVAL_S)
    with connection:
        if _attempt_of(connection, receiver.token) is not None:
            raise RowsLost(RUN_AGAIN)


def _exactly(
    connection: socket.socket, count: int, job: "Future[list[bytes]]", look: Callable[[], None]
) -> Generator[bytes, None, bytes]:
    """Return so many bytes; looks, and yields an empty string, whenever nothing has come for a while.

    Raises:
        RowsLost: the connection ended before, or the task was run again.
    """
    found = bytearray()
    while len(found) < count:
        try:
            part = connection.recv(min(count - len(found), 1 << 20))
        except TimeoutError:
            look()
            yield b""
            continue
        except ConnectionError:
            part = b""
        if not part:
            _wait(job, END_TIMEOUT_S)
            if job.done():
                job.result()
            raise RowsLost("the connection to a task of Spark broke before all rows had come")
        found += part
    return bytes(found)


def _wait(job: "Future[list[bytes]]", timeout_s: float = LOOK_INTERVAL_S) -> None:
    ended = threading.Event()
    job.add_done_callback(lambda _: ended.set())
    ended.wait(timeout_s)


def _batches(frames: Iterable[bytes]) -> Iterator[list[Row]]:
    """Yield rows in lists of bounded length and size; what is there if nothing comes for a while."""
    held: list[Row] = []
    size_bytes = quiet_looks = 0
    for frame in frames:
        if frame:
            held += pickle.loads(frame)  # noqa: S301 - Java of this session has written it
            size_bytes += len(frame)
            quiet_looks = 0
        else:
            quiet_looks += 1
        while len(held) >= ROWS_PER_BATCH_MAX:
            yield held[:ROWS_PER_BATCH_MAX]
            del held[:ROWS_PER_BATCH_MAX]
            size_bytes = 0
        if held and (size_bytes >= BATCH_BYTES or quiet_looks >= SHOWN_AFTER_LOOKS):
            yield held
            held, size_bytes = [], 0
    if held:
        yield held
