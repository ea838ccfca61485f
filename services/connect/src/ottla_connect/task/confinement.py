"""Confines a process that runs plugin code to the files that connectors may touch, and starts no others.

What may be touched is below the roots of `connector.file.roots.allowed`, and what the runtime needs itself: Python
and its packages, the system's libraries and authorities, the temporary directory, and files that the worker's own
settings name (certificates of its clients, what its config providers may read). Connectors of Ottla look at their
paths themselves and say what is wrong; the kernel (Landlock) sees to the rest, at the moment of each opening.
"""

import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ottla_connect.config import WorkerConfig
from ottla_sdk.file_policy import forbid_processes, limit_files
from ottla_sdk.runtime import landlock

log = logging.getLogger(__name__)

SYSTEM: Final = (
    *("/usr", "/lib", "/lib64", "/bin", "/sbin", "/proc", "/sys/devices/system", "/sys/fs/cgroup"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/ld.so.cache", "/etc/ld.so.conf"),
    *("/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services"),
    *("/etc/localtime", "/etc/timezone", "/etc/passwd", "/etc/group", "/etc/mime.types", "/etc/java"),
    *("/run/systemd/resolve", "/dev/urandom", "/dev/random"),
)
"""What libraries read; of other processes in /proc the kernel shows a confined one nothing but their names."""
HOMES: Final = ("JAVA_HOME", "SPARK_HOME", "HADOOP_CONF_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONHOME")
"""Variables that name what libraries read."""
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/shm")  # noqa: S108 - a device, no file of ours
PROVIDERS: Final = "config.providers."
OF_REST: Final = ("listeners.", "rest.")
"""What settings begin with that are the worker's alone, its key among them."""
LOCATIONS: Final = (".location", ".file", ".template.file")


def confine(worker: WorkerConfig, settings: Mapping[str, str]) -> None:
    """Confine this process for ever, as the worker's settings say.

    Args:
        worker: the worker's settings.
        settings: the same as they were written, with references resolved.
    """
    roots, may_execute = worker.file_roots, worker.connector_processes_allowed
    limit_files(roots)
    if not may_execute:
        forbid_processes()
    if roots is None and may_execute:
        return
    if not landlock.is_available():
        log.warning(
            "this kernel has no Landlock: only connectors that ask keep to connector.file.roots.allowed, and only "
            "Python's own ways to start a process are closed"
        )
        return
    if roots is None:
        landlock.forbid_programs()
    else:
        landlock.restrict(_readable(settings), [*map(Path, roots), *_scratch()], may_execute=may_execute)


def _readable(settings: Mapping[str, str]) -> Iterator[Path]:
    yield from map(Path, SYSTEM)
    yield from (Path(each) for each in (sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path) if each)
    yield from (Path(os.environ[each]) for each in HOMES if os.environ.get(each))
    for key, value in settings.items():
        is_of_rest = key.startswith(OF_REST)
        if key.startswith(PROVIDERS) or (key.endswith(LOCATIONS) and not is_of_rest):
            yield from (Path(each.strip()) for each in value.split(",") if each.strip().startswith("/"))


def _scratch() -> Iterator[Path]:
    yield Path(tempfile.gettempdir())
    for name, folder in (("XDG_CACHE_HOME", "ottla"), ("HOME", ".cache/ottla")):
        if os.environ.get(name, "").startswith("/"):
            yield Path(os.environ[name]) / folder
    yield from map(Path, DEVICES)
