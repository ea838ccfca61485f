"""What quotas cost that are not reached: a broker whose client has one of each kind beside one without quotas.

Both brokers run the same sources and are started here. Rounds of both alternate, as in `metrics_overhead`, and what
counts is the CPU time of the brokers' processes: each pair of rounds gives a ratio, of which the median is told.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.errors import ErrorCode
from kio.static.primitive import f64

from benchmarks.client import BenchmarkFailed, Subject
from benchmarks.metrics_overhead import CASES, MetricsPlan, ratios
from benchmarks.summary import Measures
from tests.support.clients.raw_client import RawClient
from tests.support.clusters.ottla_cluster import OttlaCluster

UNREACHED: Final = {"producer_byte_rate": 1e15, "consumer_byte_rate": 1e15, "request_percentage": 1e9}


@dataclass(frozen=True)
class QuotaPlan:
    """How long to measure."""

    rounds: int = 60


def measure(directory: Path, plan: QuotaPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return for each case the median of the ratios of CPU time, with quotas to without, less one, in percent."""
    with ExitStack() as running:
        limited = running.enter_context(OttlaCluster(directory / "limited"))
        free = running.enter_context(OttlaCluster(directory / "free"))
        _limit(limited.bootstrap)
        subjects = [Subject(each.bootstrap, each.broker.pid) for each in (limited, free)]
        timing = MetricsPlan(rounds=plan.rounds)
        return {case: ratios(subjects, case, timing, say, named=("with quotas", "without")) for case in CASES}


def _limit(bootstrap: str) -> None:
    entry = EntryData(
        entity=(EntityData(entity_type="user", entity_name=None),),
        ops=tuple(OpData(key=name, value=f64(value), remove=False) for name, value in UNREACHED.items()),
    )
    with RawClient.to(bootstrap) as client:
        (result,) = client.ask(AlterClientQuotasRequest(entries=(entry,), validate_only=False)).entries
    if result.error_code is not ErrorCode.none:
        raise BenchmarkFailed(f"the quotas are refused: {result.error_message}")
