"""Which files connectors may touch, whatever path leads there, and whether they may start processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla_sdk.file_policy import FileRefused, limit_files, of_worker, permitted_path
from tests.support.requirements import require


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """The only directory in which files may be touched; beside it is another one with a secret."""
    made, other = tmp_path / "root", tmp_path / "other"
    made.mkdir()
    other.mkdir()
    (other / "secret").write_text("4711")
    limit_files([str(made)])
    yield made
    limit_files(None)


def test_files_of_the_roots_are_permitted_and_their_links_are_followed(root: Path) -> None:
    (root / "a").write_text("")
    (root / "link").symlink_to(root / "a")
    assert permitted_path(root / "a") == root / "a"
    assert permitted_path(root / "link") == root / "a"
    assert permitted_path(root / "new" / "file") == root / "new" / "file"


@pytest.mark.parametrize("way", ["../other/secret", "folder/../../other/secret", "link", "out/secret", "/etc/passwd"])
def test_nothing_else_is_permitted_by_any_way(root: Path, way: str) -> None:
    (root / "folder").mkdir()
    (root / "link").symlink_to(root.parent / "other" / "secret")
    (root / "out").symlink_to(root.parent / "other")
    with pytest.raises(FileRefused, match=r"connector\.file\.roots\.allowed"):
        permitted_path(root / way)


def test_what_begins_like_a_root_is_none(root: Path) -> None:
    with pytest.raises(FileRefused):
        permitted_path(f"{root}-too")


def test_no_roots_permit_nothing_and_the_workers_own_settings_everything(root: Path) -> None:
    limit_files([])
    with pytest.raises(FileRefused, match="no directory at all"):
        permitted_path(root / "a")
    with of_worker():
        assert permitted_path("/etc/passwd") == Path("/etc/passwd")


def said_by(program: str, *arguments: Path) -> str:
    """What a program prints that is confined for ever, in a process of its own."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    environment = {**os.environ, "TMPDIR": str(arguments[0])}  # which stays open, and has the test's folder
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


IN_ROOTS = """
import os, sqlite3, subprocess, sys
from pathlib import Path
from ottla_connect.config import WorkerConfig
from ottla_connect.task.confinement import confine

root, other = map(Path, sys.argv[1:])
settings = {"connector.file.roots.allowed": str(root), "connector.processes.allowed": "PROCESSES"}
settings["ssl.truststore.location"] = str(other / "authorities.pem")
confine(WorkerConfig.parse(settings), settings)

def attempt(what, name):
    try:
        what()
    except (OSError, sqlite3.OperationalError) as error:
        print(name, "refused", type(error).__name__)
    else:
        print(name, "done")
"""


@pytest.mark.requires("landlock")
def test_the_kernel_keeps_a_confined_process_to_the_roots_even_if_a_link_changes_after_it_was_judged(
    root: Path,
) -> None:
    other = root.parent / "other"
    (other / "authorities.pem").write_text("")
    (root / "folder").mkdir()
    program = (
        IN_ROOTS.replace("PROCESSES", "true")
        + """
from ottla_sdk.file_policy import permitted_path

judged = root / "folder" / "secret"
permitted_path(judged)
(root / "folder").rename(root / "former")
attempt(lambda: os.symlink(other, root / "folder"), "a link out")
attempt(lambda: (other / "secret").read_text(), "a secret")
attempt(lambda: (other / "new").write_text("x"), "a new file")
attempt(lambda: sqlite3.connect(other / "new.db").execute("create table t (x)"), "a database")
attempt((other / "authorities.pem").read_text, "the worker's file")
attempt(lambda: (root / "former" / "a").write_text("x"), "a file of the root")
attempt(lambda: (root / "former" / "a").rename(root / "b"), "a renamed one")
attempt(lambda: subprocess.run(["true"], check=True), "a program")
attempt(lambda: __import__("xml.dom.minidom"), "a module")
"""
    )
    assert said_by(program, root, other).splitlines() == [
        "a link out refused PermissionError",
        "a secret refused PermissionError",
        "a new file refused PermissionError",
        "a database refused OperationalError",
        "the worker's file done",
        "a file of the root done",
        "a renamed one done",
        "a program done",
        "a module done",
    ]


@pytest.mark.parametrize("asks_python", [True, False])
def test_a_process_that_may_start_none_starts_none(root: Path, asks_python: bool) -> None:
    if not asks_python:
        require("landlock")
    program = IN_ROOTS.replace("PROCESSES", "false").replace('"connector.file.roots.allowed": str(root), ', "") + (
        """
attempt(lambda: subprocess.run(["true"]), "subprocess")
attempt(lambda: os.system("true"), "system")
attempt(os.fork, "fork")
attempt(lambda: os.execv("/bin/true", ["true"]), "exec")
attempt(lambda: Path("/etc/passwd").read_text(), "a file")
attempt(lambda: (root / "link").symlink_to(other), "a link")
"""
        if asks_python
        else """
import ctypes
library = ctypes.CDLL(None)
print("ran" if library.system(b"echo ran by C >&2") == 0 else "did not run")
"""
    )
    said = said_by(program, root, root.parent / "other").splitlines()
    if asks_python:
        ways = ("subprocess", "system", "fork", "exec")
        assert said == [*(f"{each} refused ProcessRefused" for each in ways), "a file done", "a link done"]
    else:
        assert said == ["did not run"]
