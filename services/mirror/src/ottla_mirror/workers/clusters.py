"""Connections to the clusters of flows, and the checks that two clusters are what a flow thinks they are."""

from typing import Final

from ottla_core.client.cluster import AsyncCluster
from ottla_core.errors import OttlaError
from ottla_mirror.config.clients import ClientConfig
from ottla_mirror.state.flow_records import ClusterIds

CLIENT_ID: Final = "ottla-mirror"
INTERNAL_REPLICAS_DEFAULT: Final = 3
"""MirrorMaker's, where nothing is written; fewer where a cluster has fewer brokers."""


class FlowRefused(OttlaError):
    """A flow cannot run between these clusters; the message says why, and what to do."""


def connected(client: ClientConfig) -> AsyncCluster:
    """Return a cluster to ask; nothing is connected before something is asked.

    Raises:
        ConfigurationError: a file of its security cannot be used.
    """
    bootstrap = [(each.host, each.port) for each in client.bootstrap]
    return AsyncCluster(bootstrap, security=client.client_security(), client_id=client.client_id or CLIENT_ID)


def internal_replicas(wanted: int | None, brokers: int) -> int:
    """Return the replication factor of a topic of the mirror's own."""
    return wanted or max(min(INTERNAL_REPLICAS_DEFAULT, brokers), 1)


def check_clusters(flow: str, ids: ClusterIds, noted: ClusterIds | None) -> None:
    """Check that a flow has two clusters, and the same as ever.

    Args:
        flow: its name.
        ids: as the clusters say them now; empty where one is too old to say it.
        noted: as they were when the flow began; None if it has not.

    Raises:
        FlowRefused: it would copy a cluster to itself, or mix what it has copied with another cluster's.
    """
    if ids.source and ids.source == ids.target:
        raise FlowRefused(f"{flow}: source and target are the same cluster ({ids.source})")
    if noted is None:
        return
    for side, now, before in (("source", ids.source, noted.source), ("target", ids.target, noted.target)):
        if now != before:
            raise FlowRefused(
                f"{flow}: the {side} is the cluster {now or 'without an id'}, but the flow began with "
                f"{before or 'one without an id'}; its offsets mean nothing there. Give the cluster another alias"
            )
