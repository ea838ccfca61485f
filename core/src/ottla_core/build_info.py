"""Which commit of the source runs: wheels have it in a file (`hatch_build.py`), a checkout is asked by git."""

import subprocess
from pathlib import Path

COMMIT_FILE = Path(__file__).with_name("commit.txt")
GIT_WITHIN_S = 5.0


def source_commit() -> str:
    """Return the commit in hexadecimal digits; empty if nobody knows. Blocks while git runs."""
    try:
        return COMMIT_FILE.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        pass
    # A checkout of somebody else's may surround an installation; it does not have this file.
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return ""
    return _git("rev-parse", "HEAD") or ""


def _git(*arguments: str) -> str | None:
    """Return what git says in this file's folder; None if it fails."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=GIT_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
