"""What a worker shows of itself at its Prometheus endpoint: its groups, its flows, and each partition that it copies.

Readings of partitions are of those assigned to this worker, so that the sum over all workers is the flow's. Consumer
groups are shown by the worker that translates them, the target's leader.
"""

import time
from collections.abc import Callable, Iterable, Iterator

from ottla_core.config import HostPort
from ottla_core.observe.metrics import Attributes, MetricsServer
from ottla_mirror.groups.group_reports import GroupReport, GroupState
from ottla_mirror.rest.entities import PartitionStatus
from ottla_mirror.rest.views import partition_status
from ottla_mirror.workers.flow_work import FlowWork
from ottla_mirror.workers.mirror_worker import MirrorWorker

Observations = Iterable[tuple[float, Attributes]]

GAUGES: dict[str, tuple[str, str, Callable[[PartitionStatus], float | None]]] = {
    "lag_records": ("Records of the source that are not copied.", "1", lambda each: each.lag_records),
    "lag_bytes": ("About how many bytes these are.", "By", lambda each: each.lag_bytes),
    "lag": ("For how long the source has had records that are not copied.", "s", lambda each: each.lag_seconds),
    "records_rate": ("Records per second over the last seconds.", "1", lambda each: each.records_per_second),
    "bytes_rate": ("Bytes per second over the last seconds.", "By", lambda each: each.bytes_per_second),
    "offsets_unknown": ("Offsets of the source of which it is not known where they are at the target.", "1",
                        lambda each: each.offsets_unknown),
    "copying": ("Whether it is copied: 0 while it is paused, waits or has halted.", "1",
                lambda each: float(each.state == "COPYING")),
}  # fmt: skip
COUNTERS: dict[str, tuple[str, str, Callable[[PartitionStatus], float | None]]] = {
    "records": ("Records copied.", "1", lambda each: each.records_copied),
    "bytes": ("Bytes of the batches copied.", "By", lambda each: each.bytes_copied),
    "records_missed": (
        "Records that the source removed before.",
        "1",
        lambda each: each.records_missed,
    ),
    "records_refused": ("Records that the target has refused.", "1", lambda each: each.records_refused),
}


def serve_metrics(listener: HostPort, worker: MirrorWorker) -> MetricsServer:
    """Open the endpoint.

    Raises:
        MetricsError: its port is in use.
    """
    metrics = MetricsServer("ottla-mirror", worker.url, listener)
    metrics.gauge("ottla_mirror_member", "Whether the worker is a member of a target's group.", "1",
                  lambda: _of_targets(worker, lambda each: not each.membership.problem))  # fmt: skip
    metrics.gauge("ottla_mirror_leader", "Whether the worker leads a target's group.", "1",
                  lambda: _of_targets(worker, lambda each: each.leads))  # fmt: skip
    metrics.counter("ottla_mirror_rebalances", "Assignments taken.", "1",
                    lambda: _of_targets(worker, lambda each: each.rebalances))  # fmt: skip
    metrics.gauge("ottla_mirror_flow_problem", "Whether something keeps this worker from working on a flow.", "1",
                  lambda: _flow_problems(worker))  # fmt: skip
    metrics.gauge("ottla_mirror_group_checkpoint_timestamp",
                  "When a group's offsets were last translated, in seconds since the epoch.", "s",
                  lambda: _of_groups(worker, _translated_s))  # fmt: skip
    metrics.gauge("ottla_mirror_group_failed", "Whether a group's offsets could not be translated.", "1",
                  lambda: _of_groups(worker, lambda each: float(each.state is GroupState.FAILED)))  # fmt: skip
    for name, (description, unit, read) in GAUGES.items():
        metrics.gauge(f"ottla_mirror_partition_{name}", description, unit, _reader(worker, read))
    for name, (description, unit, read) in COUNTERS.items():
        metrics.counter(f"ottla_mirror_partition_{name}", description, unit, _reader(worker, read))
    return metrics


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


def _reader(worker: MirrorWorker, read: Callable[[PartitionStatus], float | None]) -> Callable[[], Observations]:
    def observed() -> Iterator[tuple[float, Attributes]]:
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
