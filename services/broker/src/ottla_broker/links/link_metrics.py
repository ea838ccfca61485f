"""What a broker shows of its linked partitions at its Prometheus endpoint."""

from collections import Counter

from ottla_broker.links.link_fetchers import LinkFetchers
from ottla_broker.links.link_keepers import LinkKeepers
from ottla_core.cluster.link_api import UNKNOWN
from ottla_core.observe.metrics import NO_ATTRIBUTES, MetricsServer


def show_links(metrics: MetricsServer, links: LinkFetchers, keepers: LinkKeepers) -> None:
    """Show the links' partitions, and how those links are kept in step that this broker keeps."""
    metrics.gauge(
        "ottla_broker_link_problems",
        "What is not as in the source of a link that this broker keeps in step, by kind; FAILED for a last round.",
        "1",
        lambda: [
            (count, {"link": each.link, "kind": kind})
            for each in keepers.keepings(())
            for kind, count in {
                "FAILED": int(bool(each.failure)),
                **Counter(problem.kind.value for problem in each.problems),
            }.items()
        ],
    )
    metrics.gauge(
        "ottla_broker_link_in_step",
        "When a link that this broker keeps was last in step with its source, in seconds since 1970, by what.",
        "s",
        lambda: [
            (at_ms / 1000, {"link": each.link, "what": what})
            for each in keepers.keepings(())
            for what, at_ms in (("topics", each.topics_ms), ("groups", each.groups_ms))
            if at_ms != UNKNOWN
        ],
    )
    metrics.counter(
        "ottla_broker_link_fetched",
        "Bytes of records fetched from source clusters since the start.",
        "By",
        lambda: [(links.fetched_bytes, NO_ATTRIBUTES)],
    )
    metrics.gauge(
        "ottla_broker_link_partitions",
        "Linked partitions that this broker leads, by link and state.",
        "1",
        lambda: [
            (count, {"link": link, "state": state})
            for (link, state), count in Counter(
                (status.link, status.state.value) for status in links.statuses(())
            ).items()
        ],
    )
    metrics.gauge(
        "ottla_broker_link_lag",
        "Offsets of the source that a linked partition does not have yet, as of the source's last answer.",
        "1",
        lambda: [
            (status.lag, {"link": status.link, "topic": status.topic, "partition": str(status.index)})
            for status in links.statuses(())
            if status.lag != UNKNOWN
        ],
    )
    metrics.counter(
        "ottla_broker_link_records_missed",
        "Offsets that sources had deleted before they were copied, as far as present leaders have noticed.",
        "1",
        lambda: [
            (status.records_missed, {"link": status.link, "topic": status.topic, "partition": str(status.index)})
            for status in links.statuses(())
            if status.records_missed
        ],
    )
