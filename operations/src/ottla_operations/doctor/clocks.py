"""Reading the clocks of processes by answers that bear the time.

A broker dates its answer to DescribeQuorum, in milliseconds, by its own clock. Other processes of a local cluster
have pages of metrics, whose HTTP header `Date` is in whole seconds.
"""

import email.utils
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException

from ottla_operations.cluster.cluster_admin import ClusterAdmin
from ottla_operations.cluster.cluster_view import BrokerView, QuorumView
from ottla_operations.doctor.findings import Clock
from ottla_operations.local_clusters.cluster_report import ProcessReport

TIMEOUT_S = 3.0
HALF_SECOND_S = 0.5
"""By how much a date in whole seconds may be wrong, on either side of its middle."""


def quorum_and_clock(admin: ClusterAdmin, broker: BrokerView) -> tuple[QuorumView, Clock | None]:
    """Return what a broker tells of the controllers, and how its clock differs from this machine's, if it tells.

    Raises:
        OperationError: it does not answer, does not know the question, or refuses it.
    """
    before_s = time.time()
    told = admin.quorum_as_told_by(broker)
    if told.time_ms is None:
        return told, None
    return told, _difference(f"broker {broker.id}", told.time_ms / 1000, before_s, time.time())


def clock_of_process(process: ProcessReport) -> Clock | None:
    """Return how the clock of a process of a local cluster differs from this command's; None if it does not tell."""
    if process.metrics is None or process.state != "ready":
        return None
    before_s = time.time()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(process.metrics, timeout=TIMEOUT_S) as response:
            dated = email.utils.parsedate_to_datetime(response.headers.get("Date", ""))
    except (OSError, HTTPException, ValueError, TypeError):
        return None
    told_s = dated.timestamp() + HALF_SECOND_S
    return _difference(process.name, told_s, before_s, time.time(), rounded_s=HALF_SECOND_S)


def clocks_of(processes: Sequence[ProcessReport]) -> list[Clock]:
    """Return the clocks of those that tell."""
    return [found for each in processes if (found := clock_of_process(each)) is not None]


def _difference(name: str, told_s: float, before_s: float, after_s: float, *, rounded_s: float = 0.0) -> Clock:
    """Return the difference at the middle of a question; the answer may be from its begin or its end."""
    return Clock(name, told_s - (before_s + after_s) / 2, (after_s - before_s) / 2 + rounded_s)
