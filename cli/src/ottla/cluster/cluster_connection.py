"""How the commands about brokers, replicas and leaders reach a cluster, once their settings have been looked at."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.kafka_client import check_settings, client_config

if TYPE_CHECKING:
    from ottla.cluster.cluster_admin import ClusterAdmin


def cluster_admin(bootstrap: str, properties: Sequence[str] | None) -> "ClusterAdmin":
    """Return the cluster; nothing is asked yet.

    Raises:
        CommandError: a property, or a setting of the profile, cannot be used.
    """
    from ottla.cluster.cluster_admin import ClusterAdmin  # noqa: PLC0415 - takes a twentieth of a second

    config = client_config(bootstrap, properties)
    check_settings(config)
    return ClusterAdmin(bootstrap, config)
