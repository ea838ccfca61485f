"""A real PostgreSQL server for tests: on loopback, with trust authentication, without fsync, stopped by its own pid.

PostgreSQL refuses to run as root, so
root runs it as the user `postgres` (else `nobody`); that user may not enter pytest's temporary folders, so the data
is then in a folder of its own, which `close` removes.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from tests.support.child_process import ChildProcess
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_port
from tests.support.machine.postgres_programs import find_program
from tests.support.requirements import require

SUPERUSER = "postgres"
STOP_DEADLINE_S = 30.0


class PostgresServer:
    """One server; its databases outlive a `stop` and are gone after `close`.

    Attributes:
        port: where it listens on 127.0.0.1; stays the same over restarts.
        directory: its data and its log.
    """

    def __init__(self, directory: Path):
        require("postgresql")
        self.port = free_port()
        self._prefix: list[str] = []
        self._own_directory = os.geteuid() == 0
        if self._own_directory:
            directory = Path(tempfile.mkdtemp(prefix="ottla-postgres-"))
            account = _unprivileged_account()
            os.chown(directory, account.pw_uid, account.pw_gid)
            # Changing the user makes the kernel forget that the process is tied to us; setpriv ties it again.
            self._prefix = [
                *("setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"),
                *("--pdeathsig", "QUIT"),
            ]
        self.directory = directory
        self._data = directory / "data"
        self._process = self._new_process()

    def _new_process(self) -> ChildProcess:
        settings = {
            "fsync": "off",
            "full_page_writes": "off",
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "max_connections": "50",
            "shared_buffers": "32MB",
            "timezone": "UTC",
        }
        command = [*self._prefix, find_program("postgres") or "postgres", "-D", str(self._data), "-p", str(self.port)]
        for key, value in settings.items():
            command += ["-c", f"{key}={value}"]
        return ChildProcess("postgres", command, log=self.directory / "postgres.log")

    def start(self) -> None:
        """Starts it, with an empty cluster the first time, and waits until it takes connections."""
        if not self._data.exists():
            self._initialise()
        self._process.start()

        def answers() -> bool:
            self._process.check_running()
            try:
                psycopg.connect(self.dsn(), connect_timeout=2).close()
            except psycopg.OperationalError:
                return False
            return True

        eventually(answers, f"PostgreSQL takes connections on port {self.port}")

    def _initialise(self) -> None:
        command = [
            *self._prefix,
            *(find_program("initdb") or "initdb", "-D", str(self._data), "-U", SUPERUSER, "--auth=trust"),
            *("--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
        ]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        assert result.returncode == 0, f"initdb: {result.stdout}{result.stderr}"

    def stop(self) -> None:
        """Ends it at once, as if it had crashed; connections break and the data stays."""
        if not self._process.is_running():
            return
        os.kill(self._process.pid, signal.SIGQUIT)
        self._process.wait(within_s=STOP_DEADLINE_S)

    def close(self) -> None:
        """Ends it and removes the data."""
        self.stop()
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def dsn(self, database: str = SUPERUSER) -> str:
        """What psycopg connects to."""
        return f"postgresql://{SUPERUSER}@{LOOPBACK}:{self.port}/{database}"

    def jdbc_url(self, database: str) -> str:
        """What Kafka Connect's JDBC connectors would connect to."""
        return f"jdbc:postgresql://{LOOPBACK}:{self.port}/{database}?user={SUPERUSER}"

    def create_database(self, name: str) -> str:
        """Creates an empty database and returns its URL."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.dsn(name)


@contextmanager
def running_postgres(directory: Path) -> Iterator[PostgresServer]:
    """A server that runs."""
    server = PostgresServer(directory)
    try:
        server.start()
        yield server
    finally:
        server.close()


def _unprivileged_account() -> pwd.struct_passwd:
    for name in (SUPERUSER, "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise AssertionError("PostgreSQL does not run as root, and there is no user postgres or nobody")
