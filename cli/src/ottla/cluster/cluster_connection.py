"""How the commands about brokers, replicas and leaders reach a cluster, once their settings have been looked at."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.kafka_client import client_config
from ottla_operations.kafka_access import check_settings

if TYPE_CHECKING:
    from ottla_operations.cluster.cluster_admin import ClusterAdmin


def cluster_admin(bootstrap: str, properties: Sequence[str] | None) -> "ClusterAdmin":
    """Return the cluster; nothing is asked yet.

    Raises:
        OperationError: a property, or a setting of the profile, cannot be used.
    """
    from ottla_operations.cluster.cluster_admin import ClusterAdmin  # noqa: PLC0415 - takes a twentieth of a second

    config = client_config(bootstrap, properties)
    check_settings(config)
    return ClusterAdmin(bootstrap, config)
