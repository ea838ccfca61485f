"""The console's process gives memory of large messages back when it is freed; in processes of their own."""

import os
import platform
import subprocess
import sys
from typing import cast

import pytest

from ottla_console.clusters import topic_reading
from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.returned_memory import bound_heaps
from ottla_console.views.message_query import MessageQuery
from ottla_operations.records.bounded_reading import Looked
from ottla_operations.records.record_masking import Mask
from tests.support.requirements import does_not_apply

READING = """
import os
from pathlib import Path
from ottla_console.returned_memory import MUCH_BYTES, bound_heaps, return_freed

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

assert bound_heaps()
bytes(24 * 2**20)  # freed, it raises the size from which glibc maps pieces by themselves
before, small, large = resident_mib(), [], []
for _ in range(100):
    large.append(b"x" * 1_000_000)
    small.append(b"y" * 5_000)  # lasts
del large
return_freed(MUCH_BYTES - 1)
kept = resident_mib() - before
return_freed(MUCH_BYTES)
print(round(kept), round(resident_mib() - before))
"""
KEPT_MIB_MAX = 20
ON_GLIBC = sys.platform == "linux" and platform.libc_ver()[0] == "glibc"


def test_what_a_reading_of_much_has_freed_is_given_back() -> None:
    if not ON_GLIBC:
        does_not_apply("other C libraries have neither call")
    environment = {name: value for name, value in os.environ.items() if "MALLOC" not in name and "GLIBC" not in name}
    ran = subprocess.run(
        [sys.executable, "-c", READING], capture_output=True, text=True, check=True, timeout=60, env=environment
    )
    kept, after = map(int, ran.stdout.split())
    assert kept > 2 * KEPT_MIB_MAX
    assert after < KEPT_MIB_MAX


@pytest.mark.parametrize(
    "environment", [{"MALLOC_ARENA_MAX": "4"}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=4"}], ids=["own", "tunable"]
)
def test_what_whoever_starts_the_process_has_set_stays(environment: dict[str, str]) -> None:
    assert not bound_heaps(environment)


def test_reading_messages_tells_how_much_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kit:
        config: dict[str, str] = {}  # noqa: RUF012 - nothing is put into it

        def schema_codec(self) -> None:
            return None

    looked = Looked(records=[], place={0: 0}, seen=9, seen_bytes=9_000_000, remaining=0, seconds=0.1)
    told: list[int] = []
    monkeypatch.setattr(topic_reading, "look", lambda *_, **__: looked)
    monkeypatch.setattr(topic_reading, "_logs", lambda *_: {0: (0, 9)})
    monkeypatch.setattr(topic_reading, "return_freed", told.append)
    topic_reading.read_messages(cast("ClusterKit", Kit()), cast("Mask", None), "t", 1, MessageQuery(), wanted=50)
    assert told == [9_000_000]
