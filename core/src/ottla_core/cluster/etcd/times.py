"""How long etcd takes to answer this process, by operation; every attempt counts, failed ones too."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla_core.observe.histogram import TimeHistogram
from ottla_core.observe.metrics import Metrics

KEEP_ALIVE: Final = "LeaseKeepAlive"

etcd_times: defaultdict[str, TimeHistogram] = defaultdict(TimeHistogram)
"""The times of this process so far, by etcd's name of the operation."""


@contextmanager
def timed(operation: str) -> Iterator[None]:
    """Count how long an attempt takes, however it ends."""
    began_ns = time.monotonic_ns()
    try:
        yield
    finally:
        etcd_times[operation].add(time.monotonic_ns() - began_ns)


def show_etcd(metrics: Metrics) -> None:
    """Show how long etcd takes."""
    metrics.show(
        "ottla_etcd_time_seconds",
        lambda: [(times.reading(), {"operation": operation}) for operation, times in tuple(etcd_times.items())],
    )
