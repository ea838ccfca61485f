"""Sessions of Spark that are kept warm between commands: how a command finds one, uses it, and has it begun.

A warm session is a process of its own (`warm_driver.py`) that listens on a Unix socket in the user's state folder,
which nobody else may enter. The socket's name is a digest of all on which answers depend: brokers, settings, folder,
environment, versions; so a command that differs in any of them gets another session. A command hands over its
standard output and error with the statements, so results never pass through this process.

    command → session   length, document, three file descriptors; then `I` for each Ctrl-C
    session → command   a document per line: `{"busy": true}`, or `{"started": true}` and at the end `{"exit": 0}`

Who connects or ends a session holds the lock beside the socket, so nobody connects to one that ends.
"""

import fcntl
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ottla_spark
from ottla_spark.sql.invocation import Connections, Invocation
from ottla_spark.sql.sql_errors import SqlProblem

LENGTH_BYTES = 4
INTERRUPT = b"I"
WAITING_MAX = 8
ANSWER_TIMEOUT_S = 5.0
END_TIMEOUT_S = 30.0
SOCKET, LOCK, LOG = ".sock", ".lock", ".log"
NO_MATTER = frozenset({
    "_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "COLORTERM", "WINDOWID", "GPG_TTY", "STY", "VTE_VERSION",
    "DISPLAY", "WAYLAND_DISPLAY", "PS1", "PROMPT_COMMAND", "OTTLA_SQL_KEEP_WARM", "OTTLA_BOOTSTRAP",
    "OTTLA_CONNECT_URL", "OTTLA_MIRROR_URL", "OTTLA_CLIENT_SETTINGS",
})  # fmt: skip
"""Variables that answers do not depend on, or that the options have taken up."""
NO_MATTER_PREFIXES = ("TERM", "SSH_", "TMUX", "XDG_SESSION", "DBUS_", "LESS")


class SessionLost(SqlProblem):
    """A warm session ended in the middle of a command."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a warm session listens.

    Attributes:
        folder: of all warm sessions of the user.
        key: this one's.
    """

    folder: Path
    key: str

    def file(self, suffix: str) -> Path:
        """Return a file of the session."""
        return self.folder / f"{self.key}{suffix}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from connecting to the session, beginning or ending it."""
        descriptor = os.open(self.file(LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def connected(self) -> socket.socket | None:
        """Return a connection to the session; None if there is none."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            with _address(self) as address:
                connection.connect(address)
        except OSError:
            connection.close()
            return None
        return connection

    def listener(self) -> socket.socket:
        """Return the socket at which a new session listens; nobody else may connect."""
        self.file(SOCKET).unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        with _address(self) as address:
            former = os.umask(0o177)
            try:
                listener.bind(address)
            finally:
                os.umask(former)
        listener.listen(WAITING_MAX)
        return listener


def state_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of warm sessions, which only the user may enter.

    Raises:
        SqlProblem: it cannot be made, or belongs to somebody else.
    """
    state = environment.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    folder = Path(state) / "ottla" / "sql-warm"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise SqlProblem(f"{folder} belongs to somebody else, so no session is kept warm there")
        folder.chmod(0o700)
    except OSError as error:
        raise SqlProblem(f"{folder}, where warm sessions listen: {error.strerror or error}") from None
    return folder


def place_of(connections: Connections, environment: Mapping[str, str]) -> Place:
    """Return where the session for a command listens, if there is one."""
    variables = {
        key: value
        for key, value in environment.items()
        if key not in NO_MATTER and not key.startswith(NO_MATTER_PREFIXES)
    }
    parts = [asdict(connections), variables, str(Path.cwd()), sys.executable, sys.version, _version()]
    text = json.dumps(parts, sort_keys=True, default=dict)
    return Place(state_folder(environment), hashlib.sha256(text.encode()).hexdigest()[:16])


def run_warm(invocation: Invocation, keep_s: float) -> int | None:
    """Carry out a command in a warm session, which is begun if there is none.

    Args:
        invocation: the command.
        keep_s: how long the session stays afterwards.

    Returns:
        The exit code; None if the session is busy or cannot be begun, and nothing was carried out.

    Raises:
        SessionLost: it ended in the middle.
        KeyboardInterrupt: Ctrl-C, before it was begun, or twice.
    """
    place = place_of(invocation.connections, os.environ)
    with place.locked():
        connection = place.connected() or _begun(place, invocation.connections)
    if connection is None:
        return None
    terminal = shutil.get_terminal_size()
    request = {
        "kind": "run",
        "script": invocation.script,
        "stream": invocation.stream,
        "form": invocation.form.value,
        "rows_max": invocation.rows_max,
        "timeout_s": invocation.timeout_s,
        "keep_s": keep_s,
        "terminal": {"COLUMNS": str(terminal.columns), "LINES": str(terminal.lines)} if sys.stdout.isatty() else {},
    }
    with connection:
        try:
            send_request(connection, request, (0, 1, 2))
        except OSError:
            return None
        return _exit_code(connection)


def asked(place: Place, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any] | None:
    """Return a session's answer to a question; None if there is no session, or it ended."""
    with place.locked():
        connection = place.connected()
    if connection is None:
        return None
    with connection, suppress(OSError):
        connection.settimeout(timeout_s)
        send_request(connection, request, ())
        return next(documents(connection, bytearray()), None)
    return None


def all_places(environment: Mapping[str, str]) -> list[Place]:
    """Return the places at which there is or was a session."""
    folder = state_folder(environment)
    return [Place(folder, each.name.removesuffix(SOCKET)) for each in sorted(folder.glob(f"*{SOCKET}"))]


def listed(environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what the warm sessions say of themselves."""
    answers = (asked(each, {"kind": "status"}, ANSWER_TIMEOUT_S) for each in all_places(environment))
    return [each for each in answers if each is not None]


def stop_all(environment: Mapping[str, str]) -> int:
    """End the warm sessions, wait until they have ended, and return how many there were."""
    count = 0
    for place in all_places(environment):
        if asked(place, {"kind": "status"}, ANSWER_TIMEOUT_S) is not None:
            count += 1
            asked(place, {"kind": "stop"}, END_TIMEOUT_S)  # answers by its end
    return count


def send_request(connection: socket.socket, request: Mapping[str, Any], descriptors: tuple[int, ...]) -> None:
    """Send a request with file descriptors."""
    body = json.dumps(request).encode()
    socket.send_fds(connection, [len(body).to_bytes(LENGTH_BYTES, "big")], list(descriptors))
    connection.sendall(body)


def documents(connection: socket.socket, held: bytearray) -> Iterator[dict[str, Any]]:
    """Yield what a session says, up to its end.

    Args:
        connection: to it.
        held: keeps what has come of the next document, for whoever asks again after an interruption.
    """
    while True:
        while (end := held.find(b"\n")) >= 0:
            line = bytes(held[:end])
            del held[: end + 1]
            yield json.loads(line)
        part = connection.recv(65_536)
        if not part:
            return
        held += part


def _exit_code(connection: socket.socket) -> int | None:
    has_started = is_interrupted = False
    held = bytearray()
    while True:
        try:
            answer = next(documents(connection, held), None)
        except KeyboardInterrupt:
            if is_interrupted:
                raise  # the connection ends, and with it the statement
            is_interrupted = True
            with suppress(OSError):
                connection.sendall(INTERRUPT)
            continue
        except OSError:
            answer = None
        if answer is None and has_started:
            raise SessionLost("the warm session ended in the middle of the command")
        if answer is None or answer.get("busy"):
            if is_interrupted:
                raise KeyboardInterrupt  # it is not to be carried out elsewhere either
            return None
        if "exit" in answer:
            return int(answer["exit"])
        has_started = True


def _begun(place: Place, connections: Connections) -> socket.socket | None:
    """Begin a session, and return a connection to it, or None if it cannot be; the caller holds the lock."""
    with suppress(OSError), place.listener() as listener, place.file(LOG).open("wb") as log:
        place.file(LOG).chmod(0o600)
        session = subprocess.Popen(
            [sys.executable, "-m", "ottla_spark.sql.warm_driver", str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=(listener.fileno(),),
            start_new_session=True,
        )
        assert session.stdin is not None
        # Not on the command line, which everybody on the machine can see.
        with suppress(OSError), session.stdin as settings:
            settings.write(json.dumps({"key": place.key, **asdict(connections)}, default=dict).encode())
        return place.connected()
    return None


@contextmanager
def _address(place: Place) -> Iterator[str]:
    """Give the socket's path, by a way that is short: Unix sockets have names of at most 107 bytes."""
    folder = os.open(place.folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{place.key}{SOCKET}"
    finally:
        os.close(folder)


def _version() -> list[str]:
    """Return what tells one version of the code from another, also where it is being worked on."""
    files = Path(ottla_spark.__file__).parent.rglob("*.py")
    newest = max(each.stat().st_mtime_ns for each in files)
    return [version("ottla-spark"), version("pyspark"), str(newest)]
