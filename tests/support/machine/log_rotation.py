"""Debian's logrotate, and whether a file system gives the inode of a removed file to the next one."""

import shutil
import subprocess
from pathlib import Path

from tests.support.requirements import lack


class Logrotate:
    """Rotates a log, by a configuration of its own.

    Args:
        log: the log.
        directives: the lines of logrotate's configuration for it.
    """

    def __init__(self, log: Path, directives: str) -> None:
        self._directory = log.parent.with_name(f"{log.parent.name}-logrotate")
        self._directory.mkdir()
        self._configuration = self._directory / "logrotate.conf"
        self._configuration.write_text(f"{log} {{\n{directives}\n}}\n")
        self._configuration.chmod(0o644)

    def rotate(self) -> None:
        """Rotates now, whatever the log's size and age."""
        program = shutil.which("logrotate") or "/usr/sbin/logrotate"
        state = self._directory / "state"
        command = [program, "--force", "--state", str(state), str(self._configuration)]
        ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr


def require_reused_inodes(directory: Path) -> None:
    """Skips the test where a new file does not get the inode of the one that was removed right before."""
    probe = directory / "probe"
    probe.touch()
    inode = probe.stat().st_ino
    probe.unlink()
    probe.touch()
    reused = probe.stat().st_ino == inode
    probe.unlink()
    if not reused:
        lack(f"the file system of {directory} does not use inodes again at once, as ext4 does")
