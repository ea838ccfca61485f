"""The id of the Kafka cluster that a worker works with."""

import asyncio

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ottla_connect.config import WorkerConfig
from ottla_core.errors import OttlaError

TIMEOUT_S = 60.0


class ClusterUnreachable(OttlaError):
    """No broker answers; a worker cannot start then."""


async def kafka_cluster_id(config: WorkerConfig) -> str:
    """Return the cluster's id.

    Raises:
        ClusterUnreachable: no broker answers within a minute.
    """
    return await asyncio.to_thread(_ask, config)


def _ask(config: WorkerConfig) -> str:
    admin = AdminClient({**config.client_config("admin")})
    try:
        return str(admin.list_topics(timeout=TIMEOUT_S).cluster_id or "")
    except KafkaException as error:
        servers = ",".join(config.bootstrap_servers)
        raise ClusterUnreachable(f"no Kafka broker answers at bootstrap.servers={servers}: {error}") from None
