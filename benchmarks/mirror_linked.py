"""How fast the leader of a linked topic pulls it, beside a follower that catches up on the same data.

A topic of a source cluster is filled. A cluster of two brokers makes a link to it, and is watched while the leader
copies the log. Then the other broker gets a replica, and is watched while it copies the same log from the leader.
Both are timed from the first bytes in the files to the last, so neither pays for elections and requests.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kio.schema.metadata.v1.request import MetadataRequest

from benchmarks.catch_up import reassign, wait_until_in_sync
from benchmarks.client import BenchmarkFailed, delete_topic
from benchmarks.groups import ProcessMeter
from benchmarks.mirror_fill import fill
from benchmarks.summary import Measures
from tests.support.clients.raw_client import RawClient
from tests.support.clusters.ottla_cluster import OttlaCluster

RECORD_BYTES: Final = 1000
POLL_S: Final = 0.005
COMMAND_TIMEOUT_S: Final = 60.0
DEADLINE_S: Final = 240.0


@dataclass(frozen=True, slots=True)
class _Replica:
    """The files of a topic's logs on one broker."""

    directory: Path
    topic: str

    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.directory.rglob(f"{self.topic}-*/*.log"))


def measure(directory: Path, total_bytes: int, repetitions: int, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the figures of both, by repetition, and how the link compares."""
    found: dict[str, Measures] = {}
    with (
        OttlaCluster(directory / "link-source") as source,
        OttlaCluster(directory / "link-target", brokers=2) as target,
    ):
        for number in range(1, repetitions + 1):
            say(f"linked, {number} of {repetitions}: publishing {total_bytes / 1e9:g} GB")
            topic, _ = fill(source.bootstrap, 1, RECORD_BYTES, "none", total_bytes)
            size = _Replica(source.directory, topic).size_bytes()
            say(f"linked, {number} of {repetitions}: the leader pulls, then a follower")
            linked, followed = _pull(source, target, topic, size)
            found |= {f"linked {number}": linked, f"follower {number}": followed}
            found[f"ratio linked to follower {number}"] = {
                figure: linked[figure] / followed[figure] for figure in ("mb_per_s", "cpu_s_per_gb")
            }
            delete_topic(source.bootstrap, topic)
    return found


def _pull(
    source: OttlaCluster, target: OttlaCluster, topic: str, size: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Have the leader copy the log and then a follower; the files of both together are twice the size."""
    pids = {each.id: each.pid for each in target.services if each.role == "broker"}
    both = _Replica(target.directory, topic)
    os.sync()
    _create_link(target.bootstrap, source.bootstrap, topic)
    linked, linked_cpu_s = _timed(both, 0, size, pids)
    with RawClient.to(target.bootstrap) as client:
        leader = _leader(client, topic)
        (follower,) = set(pids) - {leader}
        os.sync()
        reassign(client, topic, 1, (leader, follower))
        followed, followed_cpu_s = _timed(both, size, size, pids)
        wait_until_in_sync(client, topic, {leader, follower})
    gigabytes = size / 1e9
    linked["cpu_s_per_gb"] = linked_cpu_s[leader] / gigabytes
    followed["cpu_s_per_gb"] = followed_cpu_s[follower] / gigabytes
    return linked, followed


def _create_link(target: str, source: str, topic: str) -> None:
    link = ("mirror", "link", "create", topic, "--source", source, "--topics", topic, "--replication-factor", "1")
    command = [str(Path(sys.executable).with_name("ottla")), *link, "--bootstrap", target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    if done.returncode:
        raise BenchmarkFailed(f"the link was not created: {done.stderr.strip()}")


def _leader(client: RawClient, topic: str) -> int:
    answer: Any = client.ask(MetadataRequest(topics=None))
    (leader,) = [int(each.leader_id) for found in answer.topics if found.name == topic for each in found.partitions]
    return leader


def _timed(
    replica: _Replica, before: int, size: int, pids: Mapping[int, int]
) -> tuple[dict[str, float], dict[int, float]]:
    """Watch files grow by a size; return the rate and the CPU seconds of each broker.

    What is there when they are first seen to have grown is not counted, except in the CPU seconds.
    """
    meter = ProcessMeter({str(id_): pid for id_, pid in pids.items()})
    give_up_s = time.perf_counter() + DEADLINE_S
    first: tuple[int, float] | None = None
    while (now := replica.size_bytes() - before) < size:
        now_s = time.perf_counter()
        if first is None and now:
            first = now, now_s
        if now_s > give_up_s:
            raise BenchmarkFailed(f"{now:,} of {size:,} bytes of {replica.topic} are copied after {DEADLINE_S:g} s")
        time.sleep(POLL_S)
    elapsed_s = time.perf_counter() - (first[1] if first else give_up_s - DEADLINE_S)
    cpu_s, _ = meter.stop()
    return {"mb_per_s": (size - (first[0] if first else 0)) / 1e6 / elapsed_s}, {int(n): s for n, s in cpu_s.items()}
