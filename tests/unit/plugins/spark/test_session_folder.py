"""The folder of a session of Spark, and what becomes of it when its process dies."""

import errno
import fcntl
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ottla_spark.cluster.session_folder import PREFIX, session_folder

HOLDER = """
import sys, tempfile
from ottla_spark.cluster.session_folder import session_folder
tempfile.tempdir = sys.argv[1]
with session_folder() as folder:
    (folder / "blockmgr-1").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_of_the_user_alone_and_gone_at_the_end(parent: Path) -> None:
    with session_folder() as folder:
        assert folder.parent == parent
        assert folder.stat().st_mode & 0o077 == 0
        (folder / "blockmgr-1").mkdir()
    assert list(parent.iterdir()) == []


def test_that_of_a_killed_process_is_removed_by_the_next_and_that_of_a_living_one_is_not(parent: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    held = Path(holder.stdout.readline().strip())
    with session_folder() as own:
        assert {*parent.iterdir()} == {held, own}
    assert (held / "blockmgr-1").is_dir()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert held.is_dir()
    with session_folder() as own:
        assert list(parent.iterdir()) == [own]


def test_what_is_not_such_a_folder_stays(parent: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "kept").touch()
    (parent / f"{PREFIX}link").symlink_to(elsewhere)
    (parent / f"{PREFIX}file").touch()
    (parent / "ottla-other").mkdir()
    with session_folder():
        pass
    assert {each.name for each in parent.iterdir()} == {f"{PREFIX}link", f"{PREFIX}file", "ottla-other"}
    assert (elsewhere / "kept").exists()


def test_a_folder_of_the_user_that_is_called_alike_stays(parent: Path) -> None:
    kept = parent / f"{PREFIX}archives" / "data.parquet"
    kept.parent.mkdir()
    kept.touch()
    with session_folder():
        pass
    assert kept.exists()


def test_a_folder_that_cannot_be_held_is_no_reason_to_make_others_for_ever(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="no locks available"), session_folder():
        pass
    assert list(parent.iterdir()) == []
