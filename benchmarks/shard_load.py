"""How long a coordinator needs to load a shard: a million committed offsets, and its process killed.

One shard keeps everything. Offsets are committed to many groups, a thousand partitions at a time; then the
coordinator is killed, the launcher starts it again, and a group is asked for its offsets until it has them.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.offset_commit.v8.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

from benchmarks.client import BenchmarkFailed, create_topic
from benchmarks.process_stats import cpu_time, resident_mib
from tests.support.clients.raw_client import RawClient
from tests.support.clusters.ottla_cluster import OttlaCluster

PARTITIONS = 1000
ANSWER_TIMEOUT_S = 120.0
POLL_S = 0.02
COORDINATOR = "group-coordinator"
RETRIABLE = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)


def measure(directory: Path, offsets: int) -> dict[str, float]:
    """Return how long the commits took, how long nobody answered after the kill, and what the load cost."""
    cluster = OttlaCluster(directory, arguments=("--set", "broker:offsets.topic.num.partitions=1"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        cluster.start()
        topic = create_topic(cluster.bootstrap, PARTITIONS)
        groups = [f"load-{number}" for number in range(-(-offsets // PARTITIONS))]
        with RawClient.to(cluster.bootstrap) as client:
            _wait_for_coordinator(client, groups[0])
            began_s = time.perf_counter()
            for group in groups:
                _commit(client, group, topic)
            commit_s = time.perf_counter() - began_s
            before = _coordinator_pid(cluster)
            full_mib = resident_mib(before)
            os.kill(before, signal.SIGKILL)
            killed_s = time.perf_counter()
            _wait_for_offset(client, groups[-1], topic)
            away_s = time.perf_counter() - killed_s
        after = _coordinator_pid(cluster)
        return {
            "commit_offsets_per_s": len(groups) * PARTITIONS / commit_s,
            "unavailable_after_kill_s": away_s,
            "load_and_start_cpu_s": cpu_time(after).total_s,
            "mib_before": full_mib,
            "mib_after": resident_mib(after),
        }
    finally:
        cluster.stop()


def _coordinator_pid(cluster: OttlaCluster) -> int:
    return next(service.pid for service in cluster.refresh() if service.role == COORDINATOR)


def _wait_for_coordinator(client: RawClient, group: str) -> None:
    request: Any = FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))  # type: ignore[arg-type]
    _ask_until_answered(client, request, lambda answer: answer.coordinators[0].error_code)


def _commit(client: RawClient, group: str, topic: str) -> None:
    partitions: Any = tuple(
        OffsetCommitRequestPartition(
            partition_index=index,  # type: ignore[arg-type]  # kio's number types are checked when they are written
            committed_offset=index,  # type: ignore[arg-type]
            committed_leader_epoch=0,  # type: ignore[arg-type]
            committed_metadata="",
        )
        for index in range(PARTITIONS)
    )
    request = OffsetCommitRequest(
        group_id=group,  # type: ignore[arg-type]
        generation_id_or_member_epoch=-1,  # type: ignore[arg-type]
        member_id="",
        group_instance_id=None,
        topics=(OffsetCommitRequestTopic(name=topic, partitions=partitions),),  # type: ignore[arg-type]
    )
    _ask_until_answered(client, request, lambda answer: answer.topics[0].partitions[-1].error_code)


def _wait_for_offset(client: RawClient, group: str, topic: str) -> None:
    last: Any = PARTITIONS - 1
    request = OffsetFetchRequest(
        groups=(
            OffsetFetchRequestGroup(
                group_id=group,  # type: ignore[arg-type]
                topics=(OffsetFetchRequestTopics(name=topic, partition_indexes=(last,)),),  # type: ignore[arg-type]
            ),
        ),
        require_stable=False,
    )
    answer = _ask_until_answered(client, request, lambda answer: answer.groups[0].error_code)
    found = answer.groups[0].topics[0].partitions[0].committed_offset
    if found != last:
        raise BenchmarkFailed(f"{group} has offset {found} instead of {last}: a commit was lost")


def _ask_until_answered(client: RawClient, request: Any, code_of: Any) -> Any:
    """Ask until the answer holds no error that a client would meet by asking again.

    Raises:
        BenchmarkFailed: another error, or too many of them.
    """
    give_up_s = time.monotonic() + ANSWER_TIMEOUT_S
    while True:
        answer = client.ask(request, within_s=ANSWER_TIMEOUT_S)
        code = code_of(answer)
        if code is ErrorCode.none:
            return answer
        if code not in RETRIABLE or time.monotonic() > give_up_s:
            raise BenchmarkFailed(f"{type(request).__name__}: {code.name}")
        time.sleep(POLL_S)
