"""What the REST API shows of flows: what this worker knows, and what all workers together say.

Each worker tells its *part*: the partitions that it copies, and the leader the topics. Together they are a status.
"""

import time
from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel

from ottla_mirror.config.mirror_config import shown
from ottla_mirror.copy.partition_work import PartitionState as CopyState
from ottla_mirror.copy.partition_work import PartitionStatus as CopyStatus
from ottla_mirror.groups.group_reports import GroupReport, SyncReport
from ottla_mirror.model import SourcePartition
from ottla_mirror.rest.entities import (
    FlowInfo,
    FlowLag,
    FlowState,
    FlowStatus,
    FlowSummary,
    GroupPartition,
    GroupStatus,
    GroupSync,
    PartitionState,
    PartitionStatus,
    TopicStatus,
    WorkerShare,
)
from ottla_mirror.workers.copy_rates import CopyRates
from ottla_mirror.workers.flow_work import FlowWork
from ottla_mirror.workers.target_worker import UnusableFlow

_STATES: Final[dict[CopyState, PartitionState]] = {
    CopyState.RUNNING: "COPYING",
    CopyState.WAITING: "WAITING",
    CopyState.PAUSED: "PAUSED",
    CopyState.HALTED: "HALTED",
}

_NOTHING_COPIED: Final[dict[str, Any]] = {
    **dict.fromkeys(("source_start", "source_position", "source_end", "target_position")),
    **dict.fromkeys(("lag_records", "lag_bytes", "lag_seconds")),
    **dict.fromkeys(("records_copied", "bytes_copied", "records_missed", "records_refused", "offsets_unknown"), 0),
    **dict.fromkeys(("records_per_second", "bytes_per_second"), 0.0),
}


class FlowPart(BaseModel):
    """What one worker knows of a flow.

    Attributes:
        worker_id: its URL.
        leads: whether it leads the group of the target.
        has_looked: whether it leads and knows the topics.
        problem: why it can do nothing at present; empty if it can.
        partitions: those that it copies.
        topics: all topics, from the leader.
    """

    worker_id: str
    leads: bool
    has_looked: bool
    problem: str
    partitions: list[PartitionStatus]
    topics: list[TopicStatus]


def flow_info(work: FlowWork) -> FlowInfo:
    """Return a flow as it is configured."""
    flow = work.flow
    return FlowInfo(
        name=flow.name,
        source=flow.source,
        target=flow.target,
        origin=flow.origin,
        paused=work.steering.paused,
        throttle_bytes_per_second=work.throttle_bytes_per_s,
        settings=shown(flow.written),
        source_settings=shown(flow.source_written),
    )


def unusable_info(name: str, flow: UnusableFlow) -> FlowInfo:
    """Return a flow that this worker cannot run."""
    return FlowInfo(
        name=name,
        source=flow.created.source,
        target=flow.created.target,
        origin="created",
        paused=False,
        throttle_bytes_per_second=None,
        settings=shown(flow.created.settings),
        source_settings=shown(flow.created.source_settings),
    )


def flow_part(work: FlowWork, *, url: str, leads: bool, target_problem: str) -> FlowPart:
    """Return what this worker knows of a flow."""
    now_s = time.monotonic()
    statuses = work.copy.statuses()
    partitions = [
        partition_status(status, work.copy.rates(partition), url, now_s) for partition, status in statuses.items()
    ]
    begun = set(statuses)
    partitions += [
        _not_begun(partition, remote, url, work.copy.problem)
        for partition, remote in work.copy.wanted().items()
        if partition not in begun
    ]
    return FlowPart(
        worker_id=url,
        leads=leads,
        has_looked=leads and work.plan is not None,
        problem=target_problem or work.problem or work.copy.problem,
        partitions=sorted(partitions, key=lambda each: (each.topic, each.partition)),
        topics=topic_statuses(work) if leads else [],
    )


def topic_statuses(work: FlowWork) -> list[TopicStatus]:
    """Return the topics as the leader has found them."""
    plan = work.plan
    if plan is None:
        return []
    problems = work.topic_problems()
    policy, source = work.flow.plugins.policy, work.flow.source
    found = [
        TopicStatus(
            topic=topic,
            remote_topic=each.remote_topic,
            partitions=each.partitions,
            state="COPIED",
            reason=problems.get(topic, plan.waiting.get(topic, "")),
        )
        for topic, each in plan.copied.items()
    ]
    for state, reasons in (("REFUSED", plan.refused), ("WAITING", plan.waiting)):
        found += [
            TopicStatus(
                topic=topic,
                remote_topic=policy.format_remote_topic(source, topic),
                partitions=0,
                state="REFUSED" if state == "REFUSED" else "WAITING",
                reason=reason,
            )
            for topic, reason in reasons.items()
            if topic not in plan.copied
        ]
    return sorted(found, key=lambda each: each.topic)


def partition_status(status: CopyStatus, rates: CopyRates, url: str, now_s: float) -> PartitionStatus:
    """Return how a partition fares that this worker copies."""
    position, end = status.source_offset, status.source_end
    lag = max(end - position, 0) if position >= 0 and end >= 0 else None
    records_per_s, bytes_per_s = rates.per_second(now_s)
    return PartitionStatus(
        topic=status.partition.topic,
        remote_topic=status.target_topic,
        partition=status.partition.partition,
        state=_STATES[status.state],
        reason=status.reason,
        worker_id=url,
        source_start=status.source_start if status.source_start >= 0 else None,
        source_position=position if position >= 0 else None,
        source_end=end if end >= 0 else None,
        target_position=status.target_end if status.target_end >= 0 else None,
        lag_records=lag,
        lag_bytes=_lag_bytes(lag, status),
        lag_seconds=None if lag is None else rates.behind_s(position, now_s),
        records_copied=status.records,
        bytes_copied=status.bytes,
        records_per_second=records_per_s,
        bytes_per_second=bytes_per_s,
        records_missed=status.missed,
        records_refused=status.refused,
        offsets_unknown=status.unknown,
    )


def flow_status(info: FlowInfo, parts: Sequence[FlowPart], unreached: Sequence[str]) -> FlowStatus:
    """Return what all workers together say of a flow.

    Args:
        info: the flow as it is configured.
        parts: what each worker says that has answered.
        unreached: why others have not.
    """
    topics = next((part.topics for part in parts if part.has_looked), [])
    partitions = {(each.topic, each.partition): each for part in parts for each in part.partitions}
    for topic in topics:
        for number in range(topic.partitions):
            if (topic.topic, number) not in partitions:
                partitions[topic.topic, number] = _unassigned(topic, number)
    state, reason = flow_state(info, parts, topics, list(partitions.values()), unreached)
    return FlowStatus(
        name=info.name,
        state=state,
        reason=reason,
        paused=info.paused,
        throttle_bytes_per_second=info.throttle_bytes_per_second,
        workers=[
            WorkerShare(worker_id=part.worker_id, partitions=len(part.partitions), leads=part.leads) for part in parts
        ],
        topics=topics,
        partitions=[partitions[key] for key in sorted(partitions)],
    )


def flow_state(
    info: FlowInfo,
    parts: Sequence[FlowPart],
    topics: Sequence[TopicStatus],
    partitions: Sequence[PartitionStatus],
    unreached: Sequence[str],
) -> tuple[FlowState, str]:
    """Return in which state a flow is, and why."""
    problems = [part.problem for part in parts if part.problem]
    if problems and not any(each.state == "COPYING" for each in partitions):
        return "FAILED", problems[0]
    if info.paused:
        return "PAUSED", ""
    if not any(part.has_looked for part in parts):
        return "STARTING", "no worker leads yet that has looked at the topics"
    if any(each.state in ("STARTING", "UNASSIGNED") for each in partitions):
        return "STARTING", "not all partitions are taken over yet"
    bad_partitions = [each for each in partitions if each.state in ("HALTED", "WAITING")]
    bad_topics = [each for each in topics if each.state != "COPIED" or each.reason]
    for each in bad_partitions:
        return "DEGRADED", f"{each.topic}-{each.partition}: {each.reason}"
    for topic in bad_topics:
        return "DEGRADED", f"{topic.topic}: {topic.reason}"
    if problems or unreached:
        return "DEGRADED", (*problems, *unreached)[0]
    return "RUNNING", ""


def flow_summary(info: FlowInfo, status: FlowStatus) -> FlowSummary:
    """Return a line of the list."""
    lags = [each.lag_records for each in status.partitions]
    known = [lag for lag in lags if lag is not None]
    return FlowSummary(
        name=info.name,
        source=info.source,
        target=info.target,
        origin=info.origin,
        state=status.state,
        reason=status.reason,
        topics=sum(each.state == "COPIED" for each in status.topics),
        partitions=len(status.partitions),
        lag_records=sum(known) if len(known) == len(lags) else None,
        throttle_bytes_per_second=info.throttle_bytes_per_second,
    )


def flow_lag(status: FlowStatus) -> FlowLag:
    """Return how far a flow is behind."""
    partitions = status.partitions
    records = sum(each.lag_records or 0 for each in partitions)
    rate = sum(each.records_per_second for each in partitions)
    left_s = 0.0 if records == 0 else records / rate if rate > 0 else None
    return FlowLag(
        name=status.name,
        state=status.state,
        lag_records=records,
        lag_bytes=sum(each.lag_bytes or 0 for each in partitions),
        lag_seconds=max((each.lag_seconds or 0.0 for each in partitions), default=0.0),
        records_per_second=rate,
        bytes_per_second=sum(each.bytes_per_second for each in partitions),
        source_records=sum((each.source_end or 0) - (each.source_start or 0) for each in partitions),
        seconds_left=left_s,
        partitions_unknown=sum(each.lag_records is None for each in partitions),
        partitions=partitions,
    )


def _lag_bytes(lag: int | None, status: CopyStatus) -> int | None:
    """Return a lag in bytes, by the records that were copied so far."""
    if not lag:
        return lag
    return int(lag * status.bytes / status.records) if status.records else None


def _not_begun(partition: SourcePartition, remote: str, url: str, problem: str) -> PartitionStatus:
    return PartitionStatus(
        topic=partition.topic,
        remote_topic=remote,
        partition=partition.partition,
        state="WAITING" if problem else "STARTING",
        reason=problem,
        worker_id=url,
        **_NOTHING_COPIED,
    )


def _unassigned(topic: TopicStatus, number: int) -> PartitionStatus:
    return PartitionStatus(
        topic=topic.topic,
        remote_topic=topic.remote_topic,
        partition=number,
        state="UNASSIGNED",
        reason="no worker has it just now",
        worker_id=None,
        **_NOTHING_COPIED,
    )


def group_status(group: str, report: GroupReport) -> GroupStatus:
    """Return a group as it was last translated."""
    return GroupStatus(
        group=group,
        state=report.state.value,
        reason=report.reason,
        checkpoint_ms=report.translated_ms,
        partitions=report.partitions,
    )


def group_sync(report: SyncReport) -> GroupSync:
    """Return the result for a group that was translated now."""
    partitions = [
        GroupPartition(
            topic=each.topic,
            remote_topic=each.remote_topic,
            partition=each.partition,
            source_offset=each.source_offset,
            target_offset=each.target_offset,
            records_not_copied=each.not_copied,
        )
        for each in report.partitions
    ]
    return GroupSync(group=report.group, written=report.is_stored, reason=report.reason, partitions=partitions)
