"""What tests need of the machine. Where it lacks something the test is skipped, or fails with `OTTLA_REQUIRE_ALL=1`.

A test names its needs with `pytest.mark.requires("kcat", ...)`; they are looked for when it is about to run, and not
while tests are collected. Nothing is installed here: `scripts/ensure-test-packages` does that, before. All skips go
through this file (`tests/unit/test_skips.py` looks for others).
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from typing import NoReturn

import pytest

from ottla_sdk.runtime import landlock
from tests.faults import network
from tests.faults.cluster import faketime_library
from tests.support.clusters import releases
from tests.support.machine import postgres_programs, small_disk
from tests.support.reference import kafka_jars, tls_scanner

REQUIRE_ALL = "OTTLA_REQUIRE_ALL"
APICURIO = "OTTLA_TEST_APICURIO"
SKIPPED, FAILED = pytest.skip.Exception, pytest.fail.Exception
"""How a test ends."""


def require(*names: str) -> None:
    """Skips or fails the test if the machine lacks one of these."""
    for name in names:
        if reason := REQUIREMENTS[name]():
            (does_not_apply if name in BY_CHOICE | OF_THE_KERNEL else lack)(reason)


def lack(reason: str) -> NoReturn:
    """Skips or fails the test because the machine lacks something."""
    if all_is_required():
        pytest.fail(f"{reason} ({REQUIRE_ALL} is set)", pytrace=False)
    pytest.skip(reason)


def does_not_apply(reason: str) -> NoReturn:
    """Skips a test that says nothing of what is tested: one of Ottla's own rules, say, when that is Kafka."""
    pytest.skip(reason)


def all_is_required() -> bool:
    """Whether a machine that lacks something is wrong, as it is in CI."""
    return bool(os.environ.get(REQUIRE_ALL))


def look_for(marks: Iterable[pytest.Mark]) -> None:
    """Skips or fails a test with these marks if the machine lacks what one of them names."""
    for mark in marks:
        require(*mark.args)


def _chromium() -> str | None:
    return None if shutil.which("chromium") else "Chromium is not installed: apt-get install chromium"


def _docker() -> str | None:
    client = shutil.which("docker")
    for command in (["version"], ["compose", "version"]):
        if client is None or subprocess.run([client, *command], capture_output=True, check=False).returncode:
            return "there is no Docker engine with Compose: scripts/ensure-docker runs a command with one"
    return None


def _kcat() -> str | None:
    return None if shutil.which("kcat") else "kcat is not installed: apt-get install kcat"


def _postgresql() -> str | None:
    found = postgres_programs.find_program("initdb") and postgres_programs.find_program("postgres")
    return None if found else f"PostgreSQL is not installed: {postgres_programs.INSTALL_COMMAND}"


def _faketime() -> str | None:
    return None if faketime_library() else "clocks that jump need libfaketime: apt-get install libfaketime"


def _logrotate() -> str | None:
    found = shutil.which("logrotate", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return None if found else "logrotate is not installed: apt-get install logrotate"


def _prometheus() -> str | None:
    found = shutil.which("prometheus") and shutil.which("promtool")
    return None if found else "Prometheus is not installed: apt-get install prometheus"


def _landlock() -> str | None:
    return None if landlock.is_available() else "the kernel has no Landlock"


def _apicurio() -> str | None:
    return None if APICURIO in os.environ else f"a 140 MB download: set {APICURIO}=1"


BY_CHOICE = frozenset({"apicurio", "history"})
"""What is left out unless somebody asks for it, on every machine; a copy of the files has no history on purpose."""
OF_THE_KERNEL = frozenset({"landlock"})
"""What nobody can install; the product does without it where it is not there."""
REQUIREMENTS: dict[str, Callable[[], str | None]] = {
    "apicurio": _apicurio,
    "chromium": _chromium,
    "docker": _docker,
    "faketime": _faketime,
    "history": releases.unavailable_reason,
    "kafka": kafka_jars.unavailable_reason,
    "kcat": _kcat,
    "landlock": _landlock,
    "logrotate": _logrotate,
    "network namespaces": network.unavailable_reason,
    "postgresql": _postgresql,
    "prometheus": _prometheus,
    "small disk": small_disk.unavailable_reason,
    "sslyze": tls_scanner.unavailable_reason,
}
"""Names of needs, and what says why the machine lacks it, or None."""
