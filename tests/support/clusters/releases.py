"""This release, and the one before it: the programs of both, to be run side by side.

The former release is a commit of this repository. It is checked out below `.work/`, with an environment of its own
that its own `scripts/setup` makes, once.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PREVIOUS_COMMIT = "93b967a"
"""The last release before levels of features."""
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Release:
    """The programs of one release.

    Attributes:
        name: for messages.
        programs: the folder with `ottla-broker` and the others.
    """

    name: str
    programs: Path

    def command(self, command: Sequence[str]) -> list[str]:
        """Return a command line with this release's program in the place of another's."""
        return [str(self.programs / Path(command[0]).name), *command[1:]]


THIS_RELEASE = Release("this release", Path(sys.executable).parent)


def unavailable_reason() -> str | None:
    """Return why there is no former release here: this is a copy of the files, or a clone of the last commits."""
    known = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "-e", f"{PREVIOUS_COMMIT}^{{commit}}"], capture_output=True, check=False
    )
    return f"the former release, {PREVIOUS_COMMIT}, is not in the history" if known.returncode != 0 else None


def previous_release() -> Release:
    """Return the former release, made ready if it is not.

    Raises:
        AssertionError: the repository has no history, or the environment cannot be made.
    """
    root = ROOT / ".work" / f"release-{PREVIOUS_COMMIT}"
    if not root.exists():
        root.parent.mkdir(exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix="release-", dir=root.parent))
        try:
            _check_out(draft)
            draft.rename(root)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    # Repeatable and quick; a stamp says what it has done. The environment knows its path, so it is made in its place.
    _run(str(root / "scripts" / "setup"))
    return Release(f"release {PREVIOUS_COMMIT}", root / ".venv" / "bin")


def _check_out(folder: Path) -> None:
    archive = folder.with_suffix(".tar")
    try:
        _run("git", "-C", str(ROOT), "archive", "--output", str(archive), PREVIOUS_COMMIT)
        with tarfile.open(archive) as content:
            content.extractall(folder, filter="data")
    finally:
        archive.unlink(missing_ok=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
