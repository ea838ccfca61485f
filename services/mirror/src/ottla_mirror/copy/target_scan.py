"""Reads the target's logs from stored positions to their ends, for many partitions at once."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.cluster_metadata import NO_TOPIC_ID
from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.client.pipelined_connection import PipelinedConnection
from ottla_core.errors import KafkaError
from ottla_core.wire.consumer_fetch import (
    FETCH_KEY,
    FIRST_FLEXIBLE_VERSION,
    FIRST_VERSION_BY_TOPIC_ID,
    NEWEST_VERSION,
    NO_LEADER_EPOCH,
    NO_SESSION_OPENED,
    OLDEST_VERSION,
    FetchAsked,
    IsolationLevel,
    TopicKey,
    fetch_request_body,
    read_fetch_response,
)
from ottla_core.wire.replica_fetch_request import FetchLimits
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.fetch_session import WITHOUT_SESSION_EPOCH
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.copy.single_request import ask_raw
from ottla_mirror.copy.takeover import TargetScan

SCANNED_AT_ONCE_MAX = 200


class ScanTask(NamedTuple):
    """A log to read: from `scan.next_offset` to `end_offset`, which was its high watermark, or so."""

    work: PartitionWork
    scan: TargetScan
    end_offset: int


async def scan_targets(
    cluster: AsyncCluster, tasks: Collection[ScanTask], settings: CopySettings
) -> Mapping[PartitionWork, str]:
    """Read logs to their ends; return what went wrong, by partition."""
    by_leader: dict[int, list[ScanTask]] = {}
    for task in tasks:
        by_leader.setdefault(task.work.target_leader, []).append(task)
    problems: dict[PartitionWork, str] = {}
    for leader, there in by_leader.items():
        for first in range(0, len(there), SCANNED_AT_ONCE_MAX):
            some = there[first : first + SCANNED_AT_ONCE_MAX]
            try:
                problems.update(await _scan(cluster, leader, some, settings))
            except (Unreachable, AuthenticationFailed, UnsupportedByBroker, KafkaError) as error:
                problems.update((task.work, str(error)) for task in some)
    return problems


async def _scan(
    cluster: AsyncCluster, leader: int, tasks: Collection[ScanTask], settings: CopySettings
) -> dict[PartitionWork, str]:
    connection = await cluster.open_pipelined(leader)
    try:
        by_id = all(task.work.target_topic_id != NO_TOPIC_ID for task in tasks)
        newest = NEWEST_VERSION if by_id else FIRST_VERSION_BY_TOPIC_ID - 1
        version = connection.version_among(FETCH_KEY, OLDEST_VERSION, newest)
        left = {(_key(task.work, version), task.work.partition.partition): task for task in tasks}
        problems: dict[PartitionWork, str] = {}
        while left:
            for place, problem in (await _read_on(connection, version, left, settings)).items():
                task = left.pop(place)
                if problem:
                    problems[task.work] = problem
        return problems
    finally:
        connection.close()


def _key(work: PartitionWork, version: int) -> TopicKey:
    return work.target_topic_id if version >= FIRST_VERSION_BY_TOPIC_ID else work.target_topic


async def _read_on(
    connection: PipelinedConnection,
    version: int,
    left: Mapping[tuple[TopicKey, int], ScanTask],
    settings: CopySettings,
) -> dict[tuple[TopicKey, int], str]:
    """Read on in all logs that are left; return those that are through, with what went wrong or ""."""
    asked: dict[TopicKey, list[FetchAsked]] = {}
    through = {place: "" for place, task in left.items() if task.scan.next_offset >= task.end_offset}
    for place, task in left.items():
        if place not in through:
            offset = task.scan.next_offset
            asked.setdefault(place[0], []).append(
                FetchAsked(place[1], NO_LEADER_EPOCH, offset, NO_LEADER_EPOCH, settings.partition_bytes_max)
            )
    if not asked:
        return through
    body = fetch_request_body(
        version,
        FetchLimits(settings.fetch_wait_ms, 1, settings.fetch_bytes_max),
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        session=(NO_SESSION_OPENED[0], WITHOUT_SESSION_EPOCH),
        asked=asked,
        forgotten={},
    )
    frame = await ask_raw(
        connection,
        FETCH_KEY,
        version,
        (body,),
        is_flexible=version >= FIRST_FLEXIBLE_VERSION,
        timeout_s=settings.answer_timeout_s,
    )
    for each in read_fetch_response(frame, version).partitions:
        found = left.get((each.topic, each.partition))
        if found is None:
            continue
        if each.error_code is not ErrorCode.none:
            through[each.topic, each.partition] = f"the target cannot be read: {each.error_code.name}"
            continue
        found.scan.begin_at(each.log_start_offset)
        before = found.scan.next_offset
        found.scan.take(each.records)
        is_at_end = found.scan.next_offset == before and each.high_watermark <= before
        if is_at_end or found.scan.next_offset >= found.end_offset:
            through[each.topic, each.partition] = ""
    return through
