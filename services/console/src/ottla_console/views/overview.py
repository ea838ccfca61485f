"""What the overview of a cluster shows: a sentence on its health, counts, traffic. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla_console.views.topic_table import INTERNAL
from ottla_operations.activity.activity import Activity
from ottla_operations.cluster.cluster_view import ClusterView
from ottla_operations.doctor.findings import Finding, Harm

GOOD, ADVICE, BAD = "good", "advice", "bad"
HARM_WORDS: Final = {
    Harm.UNAVAILABLE: "Unavailable",
    Harm.AT_RISK: "At risk",
    Harm.STALLED: "Stalled",
    Harm.ADVICE: "Advice",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How much there is; sizes and rates are None until they were looked at."""

    brokers: int
    topics: int
    internal_topics: int
    partitions: int
    offline: int
    under_replicated: int
    log_bytes: int | None
    free_bytes: int | None
    records_per_s: float | None
    written_bytes_per_s: float | None


def counts(view: ClusterView, found: Activity | None) -> Counts:
    """Return the counts of a cluster."""
    topics = view.topics
    internal = sum(name.startswith(INTERNAL) for name in topics)
    partitions = view.partitions.values()
    sizes = [each.log_bytes for each in found.brokers if each.log_bytes is not None] if found else []
    free = [each.free_bytes for each in found.brokers if each.free_bytes is not None] if found else []
    return Counts(
        brokers=len(view.brokers),
        topics=len(topics) - internal,
        internal_topics=internal,
        partitions=len(view.partitions),
        offline=sum(each.leader is None for each in partitions),
        under_replicated=sum(each.leader is not None and each.is_under_replicated for each in partitions),
        log_bytes=sum(sizes) if sizes else None,
        free_bytes=min(free) if free else None,
        records_per_s=sum(each.records_per_s for each in found.topics) if found else None,
        written_bytes_per_s=sum(each.written_bytes_per_s for each in found.brokers) if found else None,
    )


def verdict(findings: Sequence[Finding], not_seen: Sequence[str]) -> tuple[str, str]:
    """Return how a cluster is: a level, and a sentence."""
    worst = [each for each in findings if each.harm is not Harm.ADVICE]
    if worst:
        return BAD, f"{len(worst)} {'problem' if len(worst) == 1 else 'problems'} found"
    if not_seen:
        return ADVICE, "Nothing wrong was found, but a part could not be looked at"
    if findings:
        return ADVICE, "Everything works; there is advice"
    return GOOD, "Nothing is wrong"
