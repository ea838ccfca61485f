"""A small file system of its own (tmpfs), to run a broker out of space without touching the machine's disk."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BLOCK_BYTES = 4096
STEP_BYTES = 8 * 1024 * 1024
"""What is taken at a time. Who else writes there must not get ahead of it: taking a gigabyte takes a second."""


def unavailable_reason() -> str | None:
    """Why no file system can be mounted here, or None."""
    if os.geteuid() != 0:
        return "mounting a small tmpfs needs root"
    if shutil.which("mount") is None or shutil.which("umount") is None:
        return "mounting a small tmpfs needs mount and umount"
    return None


@contextmanager
def small_disk(mount_point: Path, *, size_bytes: int) -> Iterator[Path]:
    """Mounts a tmpfs of this size and takes it away again.

    Raises:
        OSError: the kernel does not let us mount here, as in a container without that right.
    """
    mount_point.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "ottla-test", str(mount_point)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise OSError(f"cannot mount a tmpfs: {outcome.stderr.strip()}")
    try:
        yield mount_point
    finally:
        subprocess.run(["umount", str(mount_point)], check=True)


def fill(directory: Path, *, leave_bytes: int, name: str = "ballast") -> Path:
    """Takes up the free space but for `leave_bytes` with one file, and returns it; deleting it gives it back."""
    ballast = directory / name
    size = 0
    with ballast.open("wb") as file:
        while (step := min(STEP_BYTES, _free_bytes(directory) - leave_bytes) // BLOCK_BYTES * BLOCK_BYTES) > 0:
            os.posix_fallocate(file.fileno(), size, step)
            size += step
    return ballast


def _free_bytes(directory: Path) -> int:
    usage = os.statvfs(directory)
    return usage.f_bavail * usage.f_frsize
