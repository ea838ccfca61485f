"""Sessions of Spark that `ottla sql` keeps warm between commands."""

import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.ottla_cluster import ottla_command
from tests.support.eventually import eventually

DEADLINE_S = 300.0
ENDLESS = "SELECT id FROM range(0, 1000000000000, 1, 1)"

pytestmark = pytest.mark.slow


class Shell:
    """Runs commands that keep their session warm."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._command = [ottla_command(), "sql", "-b", bootstrap, "--master", "local[1]", "--json"]
        self.state = folder / "state" / "ottla" / "sql-warm"
        self._environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "TMPDIR": str(folder)}

    def begin(self, *arguments: str, **more: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*self._command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**self._environment, **more},
        )

    def run(self, *arguments: str, **more: str) -> tuple[int, str, str]:
        running = self.begin(*arguments, **more)
        shown, said = running.communicate(timeout=DEADLINE_S)
        return running.returncode, shown, said

    def warm(self, statement: str, *arguments: str, **more: str) -> tuple[int, str, str]:
        return self.run("--keep-warm", "10", "-e", statement, *arguments, **more)

    def sessions(self) -> list[dict[str, Any]]:
        code, shown, said = self.run("--list-warm")
        assert (code, said) == (0, "")
        return [json.loads(line) for line in shown.splitlines()]


@pytest.fixture
def shell(bootstrap: str, tmp_path: Path) -> Iterator[Shell]:
    made = Shell(bootstrap, tmp_path)
    try:
        yield made
    finally:
        made.run("--stop-warm")


def children(pid: int) -> list[int]:
    return [
        int(each) for task in Path(f"/proc/{pid}/task").iterdir() for each in (task / "children").read_text().split()
    ]


def test_commands_share_a_session_of_spark_and_nothing_else(shell: Shell, tmp_path: Path) -> None:
    assert shell.warm("SELECT 1 AS one") == (0, '{"one": 1}\n', "")
    (session,) = shell.sessions()
    assert (session["state"], session["commands"]) == ("idle", 1)
    (socket_file,) = shell.state.glob("*.sock")
    assert stat.S_IMODE(socket_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(shell.state.stat().st_mode) == 0o700

    assert shell.warm("CREATE TEMPORARY VIEW v AS SELECT 2 AS two; SET x.y = 3; SELECT two FROM v")[0] == 0
    code, shown, said = shell.warm("SELECT two FROM v")
    assert (code, shown) == (1, "")
    assert said.startswith("ottla: there is no topic and no table v")
    assert len(said.splitlines()) == 1

    endless = shell.begin("--keep-warm", "10", "-e", ENDLESS)
    assert endless.stdout is not None
    assert json.loads(endless.stdout.readline()) == {"id": 0}
    assert shell.sessions()[0]["state"] == "busy"
    endless.stdout.close()
    assert endless.wait(DEADLINE_S) == 0

    slow = shell.begin(
        "--keep-warm",
        "10",
        "-e",
        "SELECT count(*) FROM range(1000000000000) WHERE sha2(CAST(id AS STRING), 256) = ''",
    )
    eventually(lambda: shell.sessions()[0]["state"] == "busy", "it works", within_s=DEADLINE_S)
    slow.send_signal(signal.SIGINT)
    assert slow.communicate(timeout=DEADLINE_S) == ("", "")
    assert slow.returncode == 130

    gone = shell.begin("--keep-warm", "10", "-e", ENDLESS)
    assert gone.stdout is not None
    gone.stdout.readline()
    gone.kill()
    gone.wait()
    eventually(lambda: shell.sessions()[0]["state"] == "idle", "what nobody waits for ends", within_s=DEADLINE_S)
    (again,) = shell.sessions()
    assert (again["pid"], again["commands"]) == (session["pid"], 6)

    java = [each for each in children(session["pid"]) if Path(f"/proc/{each}/comm").read_text().strip() == "java"]
    assert shell.run("--stop-warm") == (0, "", "ended 1 warm session\n")
    pids = [session["pid"], *java]
    eventually(lambda: not any(Path(f"/proc/{each}").exists() for each in pids), "its processes are gone")
    assert shell.sessions() == []
    assert {each.name for each in tmp_path.iterdir()} == {"state"}


def test_a_session_serves_only_commands_with_its_options_and_environment_and_is_replaced_when_java_dies(
    shell: Shell,
) -> None:
    assert shell.warm("SELECT 1 AS one")[0] == 0
    (session,) = shell.sessions()
    assert shell.warm("SELECT 1 AS one", "--conf", "spark.sql.ansi.enabled=false")[0] == 0
    assert len(shell.sessions()) == 2
    (java,) = (each for each in children(session["pid"]) if Path(f"/proc/{each}/comm").read_text().strip() == "java")
    os.kill(java, signal.SIGKILL)
    assert shell.warm("SELECT 2 AS two") == (0, '{"two": 2}\n', "")
    eventually(lambda: session["pid"] not in [each["pid"] for each in shell.sessions()], "the dead one is gone")
