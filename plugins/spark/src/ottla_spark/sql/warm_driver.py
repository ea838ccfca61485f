"""A session of Spark that is kept warm: `python -m ottla_spark.sql.warm_driver DESCRIPTOR`.

The main thread carries out one command after the other, each in a session of Spark of its own that has none of the
views, variables and settings of former ones. A thread per connection takes the request, and turns `I` or the end of
the connection into Ctrl-C for the main thread. When no command has come for as long as the last one has said, or Java
has ended, the process ends.
"""

import json
import logging
import os
import queue
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TextIO

from ottla_spark.cluster.session_folder import session_folder
from ottla_spark.sql.connect_rest import ConnectRest
from ottla_spark.sql.invocation import Connections, Invocation
from ottla_spark.sql.java_output import JavaOutput, kept_off_screen
from ottla_spark.sql.result_format import ResultFormat
from ottla_spark.sql.screen import note
from ottla_spark.sql.scripts import EXIT_INTERRUPTED, catalog_of, interpreter_of, run_script
from ottla_spark.sql.spark_thread import SparkThread, spark_defaults
from ottla_spark.sql.sql_errors import Interrupted, InterruptedTwice, ReaderGone, SqlProblem
from ottla_spark.sql.topics import Topics
from ottla_spark.sql.warm_sessions import INTERRUPT, LENGTH_BYTES, SOCKET, Place, state_folder

FIRST_COMMAND_S = 60.0
"""So long the process waits for the command that has begun it."""
LOOK_INTERVAL_S = 0.5
REQUEST_TIMEOUT_S = 10.0
REQUEST_BYTES_MAX = 64 << 20
DESCRIPTORS = 3


@dataclass(slots=True)
class Command:
    """A command that waits for the main thread, or is carried out.

    Attributes:
        connection: to whoever asks.
        request: what for.
        descriptors: standard input, output and error of the command.
        is_interrupted: set when whoever asks has pressed Ctrl-C, or has gone.
        has_ended: set when it is done.
        is_answered: set when whoever asked was told, or cannot be.
    """

    connection: socket.socket
    request: Mapping[str, Any]
    descriptors: list[int]
    is_interrupted: threading.Event = field(default_factory=threading.Event)
    has_ended: threading.Event = field(default_factory=threading.Event)
    is_answered: threading.Event = field(default_factory=threading.Event)


class WarmDriver:
    """The process.

    Args:
        place: where it listens.
        listener: the socket.
        connections: what its session of Spark is for.
        spark: Spark, which is starting.
        output: what Java has printed.
    """

    def __init__(
        self, place: Place, listener: socket.socket, connections: Connections, spark: SparkThread, output: JavaOutput
    ) -> None:
        self._place = place
        self._listener = listener
        self._connections = connections
        self._spark = spark
        self._output = output
        self._commands: queue.Queue[Command] = queue.Queue()
        self._one_at_a_time = threading.Lock()
        self._ending = threading.Lock()
        self._is_interruptible = False
        self._stops = threading.Event()
        self._ends_at = time.monotonic() + FIRST_COMMAND_S
        self._carried_out = 0

    def run(self) -> None:
        """Carry out commands until none comes any more."""
        signal.signal(signal.SIGINT, self._on_interrupt)
        threading.Thread(target=self._accept, name="accept", daemon=True).start()
        while not self._stops.is_set():
            try:
                command = self._commands.get(timeout=LOOK_INTERVAL_S)
            except queue.Empty:
                if self._spark.has_ended:
                    return
                if time.monotonic() > self._ends_at and self._has_withdrawn():
                    return
                continue
            try:
                code = self._carry_out(command)
            finally:
                self._ends_at = time.monotonic() + float(command.request.get("keep_s", 0))
                with self._ending:
                    command.has_ended.set()
                self._one_at_a_time.release()
            # Last, so that who has heard of the end finds the session free.
            with suppress(OSError):
                command.connection.sendall(f'{{"exit": {code}}}\n'.encode())
            command.is_answered.set()
            if self._spark.has_ended:
                return

    def _has_withdrawn(self) -> bool:
        """Stop listening, unless a command has just come."""
        with self._place.locked():
            if self._one_at_a_time.locked() or not self._commands.empty():
                return False
            self._stops.set()  # for a connection that has been accepted just now
            self._listener.close()
            self._place.file(SOCKET).unlink(missing_ok=True)
            return True

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_interruptible:
            raise KeyboardInterrupt

    def _carry_out(self, command: Command) -> int:
        with suppress(OSError):
            command.connection.sendall(b'{"started": true}\n')
        code = EXIT_INTERRUPTED
        try:
            with _screen_of(command):
                self._is_interruptible = True
                try:
                    if command.is_interrupted.is_set():  # while nothing could be interrupted yet
                        raise KeyboardInterrupt
                    code = self._exit_code(command.request)
                finally:
                    self._is_interruptible = False
        except KeyboardInterrupt:  # before the first statement, or between the last one and here
            self._is_interruptible = False
        self._carried_out += 1
        return code

    def _exit_code(self, request: Mapping[str, Any]) -> int:
        try:
            self._run(request)
        except SqlProblem as problem:
            said = self._output.last_lines() if self._spark.has_failed else ""
            note(f"ottla: {problem}\n{said}" if said else f"ottla: {problem}")
            return problem.exit_code
        except InterruptedTwice:
            self._stops.set()  # a statement may still run in Spark's thread
            return EXIT_INTERRUPTED
        except (Interrupted, KeyboardInterrupt):
            return EXIT_INTERRUPTED
        except ReaderGone:
            return 0
        return 0

    def _run(self, request: Mapping[str, Any]) -> None:
        invocation = Invocation(
            script=str(request["script"]),
            connections=self._connections,
            stream=bool(request["stream"]),
            form=ResultFormat(request["form"]),
            rows_max=request["rows_max"],
            timeout_s=request["timeout_s"],
        )
        topics = Topics(self._connections.bootstrap, self._connections.client_settings)
        connect = ConnectRest(self._connections.connect_url)
        self._spark.begin_anew()
        try:
            interpreter = interpreter_of(invocation, catalog_of(self._connections, topics), connect, self._spark)
            run_script(str(request["script"]), interpreter.run)
        finally:
            connect.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # it has withdrawn
            threading.Thread(target=self._serve, args=(connection,), name="connection", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError, KeyError), connection:
            if _user_of(connection) != os.getuid():
                return
            connection.settimeout(REQUEST_TIMEOUT_S)
            request, descriptors = _received(connection)
            connection.settimeout(None)
            match request["kind"]:
                case "status":
                    connection.sendall(json.dumps(self._status()).encode() + b"\n")
                case "stop":
                    self._stop()
                    connection.recv(1)  # until this process ends
                case "run" if len(descriptors) == DESCRIPTORS:
                    self._hand_on(Command(connection, request, descriptors))

    def _hand_on(self, command: Command) -> None:
        """Have the main thread carry out a command, unless it has one, and stay with it to its end."""
        if self._stops.is_set() or self._spark.has_ended or not self._one_at_a_time.acquire(blocking=False):
            for each in command.descriptors:
                os.close(each)
            command.connection.sendall(b'{"busy": true}\n')
            return
        self._commands.put(command)
        while not command.has_ended.is_set():
            said = b""
            with suppress(ConnectionError):
                said = command.connection.recv(1)
            with self._ending:  # else it might be the next command that is interrupted
                if not command.has_ended.is_set():
                    command.is_interrupted.set()
                    os.kill(os.getpid(), signal.SIGINT)
            if said != INTERRUPT:
                command.has_ended.wait()
        command.is_answered.wait(REQUEST_TIMEOUT_S)

    def _stop(self) -> None:
        self._stops.set()
        os.kill(os.getpid(), signal.SIGINT)

    def _status(self) -> dict[str, Any]:
        is_busy = self._one_at_a_time.locked()
        return {
            "pid": os.getpid(),
            "state": "busy" if is_busy else "idle" if self._spark.is_ready else "starting",
            "brokers": self._connections.bootstrap,
            "spark": self._connections.spark_settings.get("spark.master", ""),
            "commands": self._carried_out,
            "ends_in_s": None if is_busy else max(0, round(self._ends_at - time.monotonic())),
        }


def main() -> None:
    """Run a warm session, whose settings come on standard input."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    settings = json.loads(sys.stdin.buffer.read())
    place = Place(state_folder(os.environ), settings.pop("key"))
    connections = Connections(**settings)
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, _leave)
    with kept_off_screen() as output, session_folder() as folder:
        spark = SparkThread({**spark_defaults(folder), **connections.spark_settings}, folder)
        in_order = False
        try:
            spark.start()
            WarmDriver(place, listener, connections, spark, output).run()
            in_order = True
        finally:
            with place.locked():
                if not in_order or listener.fileno() != -1:
                    place.file(SOCKET).unlink(missing_ok=True)
                    listener.close()
            spark.close(in_order=in_order)


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _user_of(connection: socket.socket) -> int:
    """Return the user at the other end."""
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(user)


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    head, descriptors, _, _ = socket.recv_fds(connection, LENGTH_BYTES, DESCRIPTORS)
    while len(head) < LENGTH_BYTES:
        head += _part(connection, LENGTH_BYTES - len(head))
    length = int.from_bytes(head, "big")
    if length > REQUEST_BYTES_MAX:
        raise ValueError("a request of this length is none")
    body = bytearray()
    while len(body) < length:
        body += _part(connection, length - len(body))
    return json.loads(body), list(descriptors)


def _part(connection: socket.socket, most: int) -> bytes:
    part = connection.recv(min(most, 65_536))
    if not part:
        raise ConnectionError("it ended in the middle of a request")
    return part


@contextmanager
def _screen_of(command: Command) -> Iterator[None]:
    """Write to the standard output and error of the command while inside."""
    former = sys.stdout, sys.stderr
    environment = {key: os.environ.get(key) for key in ("COLUMNS", "LINES")}
    own: list[TextIO] = []
    try:
        os.close(command.descriptors[0])
        own = [os.fdopen(each, "w", encoding="utf-8", errors="backslashreplace") for each in command.descriptors[1:]]
        sys.stdout, sys.stderr = own
        _set_variables(command.request.get("terminal") or dict.fromkeys(environment))
        yield
    finally:
        sys.stdout, sys.stderr = former
        _set_variables(environment)
        for each in own:
            with suppress(OSError):
                each.close()


def _set_variables(variables: Mapping[str, str | None]) -> None:
    for key, value in variables.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value


if __name__ == "__main__":
    main()
