"""Linked partitions, and how links are kept in step."""

from collections import Counter

from ottla_broker.links.link_fetchers import LinkFetchers
from ottla_broker.links.link_keeper_pool import LinkKeeperPool
from ottla_core.cluster.controller_rpc.link_api import UNKNOWN
from ottla_core.observe.metrics import Metrics


def show_links(metrics: Metrics, links: LinkFetchers, keepers: LinkKeeperPool) -> None:
    """Show the links' partitions, and how those links are kept in step that this broker keeps."""
    _show_keeping(metrics, keepers)
    metrics.show_value("ottla_broker_link_fetched_bytes_total", lambda: links.fetched_bytes)
    metrics.show(
        "ottla_broker_link_partitions",
        lambda: [
            (count, {"link": link, "state": state})
            for (link, state), count in Counter(
                (status.link, status.state.value) for status in links.statuses(())
            ).items()
        ],
    )
    metrics.show(
        "ottla_broker_link_lag",
        lambda: [
            (status.lag, {"link": status.link, "topic": status.topic, "partition": str(status.index)})
            for status in links.statuses(())
            if status.lag != UNKNOWN
        ],
    )
    metrics.show(
        "ottla_broker_link_records_missed_total",
        lambda: [
            (status.records_missed, {"link": status.link, "topic": status.topic, "partition": str(status.index)})
            for status in links.statuses(())
            if status.records_missed
        ],
    )


def _show_keeping(metrics: Metrics, keepers: LinkKeeperPool) -> None:
    metrics.show(
        "ottla_broker_link_problems",
        lambda: [
            (count, {"link": each.link, "kind": kind})
            for each in keepers.keepings(())
            for kind, count in {
                "FAILED": int(bool(each.failure)),
                **Counter(problem.kind.value for problem in each.problems),
            }.items()
        ],
    )
    metrics.show(
        "ottla_broker_link_in_step_timestamp_seconds",
        lambda: [
            (at_ms / 1000, {"link": each.link, "what": what})
            for each in keepers.keepings(())
            for what, at_ms in (("topics", each.topics_ms), ("groups", each.groups_ms))
            if at_ms != UNKNOWN
        ],
    )
