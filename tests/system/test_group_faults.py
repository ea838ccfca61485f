"""Consumer groups survive the death and the long pause of their coordinator.

Forty consumers in ten groups read under load while one of two coordinators is killed, or stopped for longer than its
lease and then let go on. What must hold is written in `group_history.py`; the consumers and a watcher note what they
see. Whether a paused coordinator's late writes are refused shows in the log itself: each ownership of a shard writes
under a producer epoch of its own, and none may follow a later one.

`OTTLA_TEST_GROUP_FAULTS` is how often each fault happens, `OTTLA_TEST_SEED` repeats a run's order.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.broker_under_test import group_arguments, make_topic
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.eventually import eventually
from tests.support.groups.group_history import commit_problems, ownership_problems, stable_again_s
from tests.support.groups.group_load import SESSION_TIMEOUT_S, GroupLoad
from tests.support.groups.producer_epochs import producer_epoch_problems

pytestmark = pytest.mark.slow

FAULTS_DEFAULT = 2
PARTITIONS = 8
GROUPS = 10
MEMBERS_PER_GROUP = 4
COORDINATORS = 2
COORDINATOR_ROLE = "group-coordinator"
# The launcher's processes have leases of two seconds.
PAUSE_S = 5.0

# What comes later than the deadline is still looked at: a session that ends then was not kept.
LOOK_S = SESSION_TIMEOUT_S + 5.0
RECOVERY_DEADLINE_S = 60.0
PROBLEMS_SHOWN_MAX = 10
GIVEN_UP = (b"shard given up", b"shard is not ours any more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that happened to one coordinator.

    Attributes:
        kind: ``kill`` or ``pause``.
        coordinator: its id.
    """

    kind: str
    coordinator: int


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OttlaCluster]:
    with OttlaCluster(tmp_path / "cluster", coordinators=COORDINATORS, arguments=group_arguments()) as cluster:
        yield cluster


def test_groups_survive_the_death_and_the_pause_of_their_coordinator(cluster: OttlaCluster) -> None:
    seed = int(os.environ.get("OTTLA_TEST_SEED", random.randrange(1 << 32)))
    faults = chosen_faults(int(os.environ.get("OTTLA_TEST_GROUP_FAULTS", FAULTS_DEFAULT)), random.Random(seed))
    print(f"OTTLA_TEST_SEED={seed}")
    topic = make_topic(cluster.bootstrap, partitions=PARTITIONS)
    problems: list[str] = []
    begun_s = time.monotonic()
    with running_load(cluster, topic) as load:
        load.wait_until_stable(begun_s)
        for number, fault in enumerate(faults):
            slowest_s = happen(cluster, load, fault)
            print(
                f"{number}: {fault.kind} of coordinator {fault.coordinator}, stable after {slowest_s:.1f} s at most"
            )
    problems += ownership_problems(load.history, SESSION_TIMEOUT_S)
    problems += commit_problems(load.history)
    problems += producer_epoch_problems(cluster.directory)
    assert load.history.readings, "the watcher saw nothing"
    assert not problems, f"seed {seed}, {len(problems)} problems, the first: {problems[:PROBLEMS_SHOWN_MAX]}"


def chosen_faults(count: int, chance: random.Random) -> list[Fault]:
    """So many of each kind in any order; both coordinators are hit about equally often."""
    faults = [
        Fault(kind=kind, coordinator=1 + number % COORDINATORS)
        for kind in ("kill", "pause")
        for number in range(count)
    ]
    chance.shuffle(faults)
    return faults


@contextmanager
def running_load(cluster: OttlaCluster, topic: str) -> Iterator[GroupLoad]:
    load = GroupLoad(
        cluster.bootstrap, topic, partitions=PARTITIONS, groups=GROUPS, members_per_group=MEMBERS_PER_GROUP
    )
    with load:
        yield load


def happen(cluster: OttlaCluster, load: GroupLoad, fault: Fault) -> float:
    """Lets a fault happen and waits until all is well; how long the slowest group took."""
    hit = coordinators(cluster)[fault.coordinator]
    log = Path(hit["log"])
    logged_bytes = log.stat().st_size
    fault_s = time.monotonic()
    if fault.kind == "kill":
        os.kill(hit["pid"], signal.SIGKILL)
    else:
        pause(hit["pid"], fault_s + PAUSE_S)
        wait_until_it_gave_up(log, logged_bytes)
    eventually(lambda: time.monotonic() > fault_s + LOOK_S, "it is time to look")
    load.wait_until_stable(fault_s, within_s=RECOVERY_DEADLINE_S)
    eventually(
        lambda: len(coordinators(cluster)) == COORDINATORS, "both coordinators run", within_s=RECOVERY_DEADLINE_S
    )
    history = load.history.snapshot()
    return max(stable_again_s(history, load.places(group), fault_s=fault_s) - fault_s for group in load.groups)


def pause(pid: int, until_s: float) -> None:
    """Stops a process for longer than its lease, and lets it go on."""
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: time.monotonic() > until_s, "the lease is over")
    finally:
        os.kill(pid, signal.SIGCONT)


def wait_until_it_gave_up(log: Path, seen_bytes: int) -> None:
    """Waits until a coordinator that was paused has noticed that its shards are not its own any more."""

    def has_noticed() -> bool:
        written = log.read_bytes()[seen_bytes:]
        return any(line in written for line in GIVEN_UP)

    eventually(has_noticed, f"{log.name} tells that shards were given up", within_s=RECOVERY_DEADLINE_S)


def coordinators(cluster: OttlaCluster) -> dict[int, dict[str, Any]]:
    """The coordinators that are ready, by id, as `ottla status` reports them."""
    done = subprocess.run(
        [ottla_command(), "status", "--dir", str(cluster.directory), "--json"],
        capture_output=True,
        check=False,
        timeout=RECOVERY_DEADLINE_S,
    )
    processes = json.loads(done.stdout)["processes"]
    return {
        int(each["id"]): each for each in processes if each["role"] == COORDINATOR_ROLE and each["state"] == "ready"
    }
