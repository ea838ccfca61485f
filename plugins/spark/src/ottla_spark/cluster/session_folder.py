"""A folder for all that a session of Spark puts on the disk, which is gone when the session is.

Spark removes its own folders (`spark-…`, `blockmgr-…`, `artifacts-…`) if Java ends in order. After a kill they would
stay, so they lie in one folder that its process holds locked. The lock ends with the process, however that ends, and
whoever makes the next folder removes those that nobody holds: process ids come again, and containers share them. A
file in each tells it from a folder that somebody has called alike.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "ottla-spark-"
MARK = ".ottla-session"
"""A file in each folder: what is without it is not ours to remove."""
TEMPORARY_OPTION = "-Djava.io.tmpdir="
LOCAL_DIRECTORY_KEY = "spark.local.dir"


@contextmanager
def session_folder() -> Iterator[Path]:
    """Make a folder, after those of dead processes are removed; it is removed at the end."""
    parent = Path(tempfile.gettempdir())
    remove_abandoned(parent)
    folder, lock = _locked_new(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned(parent: Path) -> None:
    """Remove this user's folders of sessions that no process holds."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.getuid() and (folder / MARK).is_file():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _locked_new(parent: Path) -> tuple[Path, int]:
    """Return a new folder and the descriptor that holds it.

    Raises:
        OSError: it cannot be made or held.
    """
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / MARK).touch()  # only now that it is held may others take it for a session's
    except OSError:
        os.close(lock)
        folder.rmdir()
        raise
    return folder, lock
