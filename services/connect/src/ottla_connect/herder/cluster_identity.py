"""The id of the Kafka cluster that a worker works with; also its first sign of life, for which a start waits."""

import asyncio
import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ottla_connect.config import WorkerConfig
from ottla_connect.state.kafka_clients import KafkaClients, reason_of
from ottla_connect.state.keyed_log import LogError
from ottla_core.errors import OttlaError

DEADLINE_S = 60.0
ATTEMPT_S = 2.0


class ClusterUnreachable(OttlaError):
    """No broker answers; a worker cannot start then."""


async def kafka_cluster_id(config: WorkerConfig, stop: asyncio.Event) -> str:
    """Return the cluster's id; empty if `stop` was set before a broker has answered.

    Raises:
        ClusterUnreachable: no broker has answered for a minute, or the client settings are wrong.
    """
    try:
        admin = KafkaClients(config).admin("worker")
    except LogError as error:
        raise ClusterUnreachable(str(error)) from None
    deadline = time.monotonic() + DEADLINE_S
    while not stop.is_set():
        try:
            return await asyncio.to_thread(_ask, admin)
        except KafkaException as error:
            if time.monotonic() > deadline:
                servers = ",".join(config.bootstrap_servers)
                raise ClusterUnreachable(
                    f"no Kafka broker answers at bootstrap.servers={servers}: {reason_of(error)}"
                ) from None
    return ""


def _ask(admin: AdminClient) -> str:
    return str(admin.list_topics(timeout=ATTEMPT_S).cluster_id or "")
