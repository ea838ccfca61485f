"""What a worker shows of itself: its groups, its flows, and each partition that it copies.

Readings of partitions are of those assigned to this worker, so that the sum over all workers is the flow's. Consumer
groups are shown by the worker that translates them, the target's leader.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Final

from ottla_core.config import MetricsSettings
from ottla_core.observe.catalogue.definition import ProcessRole
from ottla_core.observe.metrics import Labels, Metrics
from ottla_core.observe.publishing import publish_metrics
from ottla_core.rest.authentication import AccessCounts
from ottla_mirror.groups.group_reports import GroupReport, GroupState
from ottla_mirror.rest.entities import PartitionStatus
from ottla_mirror.rest.views import partition_status
from ottla_mirror.workers.flow_work import FlowWork
from ottla_mirror.workers.mirror_worker import MirrorWorker

Observations = Iterable[tuple[float, Labels]]

PARTITION_READINGS: Final[Mapping[str, Callable[[PartitionStatus], float | None]]] = {
    "lag_records": lambda each: each.lag_records,
    "lag_bytes": lambda each: each.lag_bytes,
    "lag_seconds": lambda each: each.lag_seconds,
    "records_per_second": lambda each: each.records_per_second,
    "bytes_per_second": lambda each: each.bytes_per_second,
    "offsets_unknown": lambda each: each.offsets_unknown,
    "copying": lambda each: float(each.state == "COPYING"),
    "records_total": lambda each: each.records_copied,
    "bytes_total": lambda each: each.bytes_copied,
    "records_missed_total": lambda each: each.records_missed,
    "records_refused_total": lambda each: each.records_refused,
}


def serve_metrics(settings: MetricsSettings, worker: MirrorWorker, counts: AccessCounts) -> ExitStack:
    """Begin to show the metrics; closing what is returned ends it.

    Raises:
        MetricsError: the endpoint's port is in use.
    """
    metrics = Metrics(ProcessRole.MIRROR, worker.url)
    metrics.show("ottla_mirror_member", lambda: _of_targets(worker, lambda each: not each.membership.problem))
    metrics.show("ottla_mirror_leader", lambda: _of_targets(worker, lambda each: each.leads))
    metrics.show("ottla_mirror_rebalances_total", lambda: _of_targets(worker, lambda each: each.rebalances))
    metrics.show("ottla_mirror_flow_problem", lambda: _flow_problems(worker))
    metrics.show("ottla_mirror_group_checkpoint_timestamp_seconds", lambda: _of_groups(worker, _translated_s))
    metrics.show("ottla_mirror_group_failed", lambda: _of_groups(worker, _failed))
    metrics.show_value("ottla_mirror_rest_failed_authentications_total", lambda: counts.failed_authentications)
    metrics.show_value("ottla_mirror_rest_denials_total", lambda: counts.denials)
    for name, read in PARTITION_READINGS.items():
        metrics.show(f"ottla_mirror_partition_{name}", _reader(worker, read))
    return publish_metrics(metrics, settings)


def _of_targets(worker: MirrorWorker, read: Callable[..., float]) -> Observations:
    return [(float(read(target)), {"target": alias}) for alias, target in worker.targets.items()]


def _flow_problems(worker: MirrorWorker) -> Observations:
    return [
        (
            float(not isinstance(flow, FlowWork) or bool(flow.problem or flow.copy.problem or flow.groups.problem)),
            {"flow": name},
        )
        for name, _, flow in worker.flows()
    ]


def _of_groups(worker: MirrorWorker, read: Callable[[GroupReport], float | None]) -> Observations:
    return [
        (value, {"flow": name, "group": group})
        for name, _, flow in worker.flows()
        if isinstance(flow, FlowWork)
        for group, report in list(flow.groups.reports.items())  # the loop goes on meanwhile
        if (value := read(report)) is not None
    ]


def _translated_s(report: GroupReport) -> float | None:
    return None if report.translated_ms is None else report.translated_ms / 1000


def _failed(report: GroupReport) -> float:
    return float(report.state is GroupState.FAILED)


def _reader(worker: MirrorWorker, read: Callable[[PartitionStatus], float | None]) -> Callable[[], Observations]:
    def observed() -> Iterator[tuple[float, Labels]]:
        for name, _, flow in list(worker.flows()):
            if not isinstance(flow, FlowWork):
                continue
            for status in _statuses(worker.url, flow):
                value = read(status)
                if value is not None:
                    labels = {"flow": name, "topic": status.topic, "partition": str(status.partition)}
                    yield float(value), labels

    return observed


def _statuses(url: str, flow: FlowWork) -> list[PartitionStatus]:
    now_s = time.monotonic()
    statuses = dict(flow.copy.statuses())
    return [partition_status(each, flow.copy.rates(partition), url, now_s) for partition, each in statuses.items()]
