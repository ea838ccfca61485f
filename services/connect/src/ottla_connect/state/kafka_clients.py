"""librdkafka clients for the worker's own purposes: internal topics and the offsets of sink connectors' groups."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from ottla_connect.client_settings import ClientKind
from ottla_connect.config import WorkerConfig
from ottla_connect.state.keyed_log import LogError

REQUEST_TIMEOUT_S = 15.0
LEADER_PREFIX = "connect-cluster-"
"""Before the group's name it makes the leader's transactional id (Kafka's DistributedConfig)."""
LEADER_TRANSACTION_MS = 10_000
"""A leader that dies in the middle of a write must not keep the others from reading for long."""
# After this time without it in the brokers' metadata, the consumer says that a topic is gone; it was there at first.
GONE_NOTICED_MS = "5000"

# A topic that is deleted must not come back by itself, with settings that lose what is written to it. The question of
# any client would do that, not only a consumer's, whatever librdkafka's documentation of this setting says.
NO_AUTO_CREATION = {"allow.auto.create.topics": "false"}

# librdkafka's own error codes; they are public, whatever their names look like.
ALL_BROKERS_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001
AUTO_OFFSET_RESET = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001
PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001
RESOLVE = KafkaError._RESOLVE  # noqa: SLF001
TIMED_OUT = KafkaError._TIMED_OUT  # noqa: SLF001
TRANSPORT = KafkaError._TRANSPORT  # noqa: SLF001
UNKNOWN_PARTITION = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001
UNKNOWN_TOPIC = KafkaError._UNKNOWN_TOPIC  # noqa: SLF001

log = structlog.get_logger("kafka clients")


class KafkaClients:
    """Makes clients with the worker's settings; every one reports to this process's log.

    Each method raises `LogError` if the settings are wrong.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config

    def admin(self, kind: ClientKind = "worker", overrides: Mapping[str, str] | None = None) -> AdminClient:
        """Return an admin client, with the worker's own settings or those for connectors' admin clients."""
        settings = self._config.client_config(kind, overrides)
        try:
            return AdminClient(self._reporting(settings))
        except KafkaException as error:
            raise LogError(f"an admin client cannot be made: {reason_of(error)}") from None

    def producer(self) -> Producer:
        """Return a producer for internal topics: idempotent, placing keys as Java's producer does."""
        settings = self._config.client_config(
            "worker",
            {
                "acks": "all",
                "enable.idempotence": "true",
                "partitioner": "murmur2_random",
                "message.timeout.ms": str(max(1, int(self._config.write_timeout_s * 1000))),
                "linger.ms": "0",
            },
        )
        try:
            return Producer(self._reporting(settings))
        except KafkaException as error:
            raise LogError(f"a producer cannot be made: {reason_of(error)}") from None

    def leader_producer(self) -> Producer:
        """Return the producer with transactions by which the leading worker writes to the config topic (KIP-618)."""
        timeout_ms = max(1, int(self._config.write_timeout_s * 1000))
        settings = self._config.client_config(
            "worker",
            {
                "acks": "all",
                "enable.idempotence": "true",
                "transactional.id": f"{LEADER_PREFIX}{self._config.group_id}",
                "transaction.timeout.ms": str(max(timeout_ms, LEADER_TRANSACTION_MS)),
                "message.timeout.ms": str(timeout_ms),
                "linger.ms": "0",
            },
        )
        try:
            return Producer(self._reporting(settings))
        except KafkaException as error:
            raise LogError(f"a producer with transactions cannot be made: {reason_of(error)}") from None

    def consumer(self, on_error: Callable[[KafkaError], None]) -> Consumer:
        """Return a consumer that follows partitions it is told of; it joins no group and commits nothing.

        `on_error` is called by its `poll` for errors of the client, as which it also reports topics that are gone.
        """
        settings = self._config.client_config(
            "worker",
            {
                "group.id": self._config.group_id,
                "enable.auto.commit": "false",
                "enable.auto.offset.store": "false",
                "auto.offset.reset": "none",
                "enable.partition.eof": "true",
                "isolation.level": "read_committed",
                "topic.metadata.propagation.max.ms": GONE_NOTICED_MS,
            },
        )
        try:
            return Consumer({**self._reporting(settings), "error_cb": on_error})
        except KafkaException as error:
            raise LogError(f"a consumer cannot be made: {reason_of(error)}") from None

    def _reporting(self, settings: Mapping[str, str]) -> dict[str, Any]:
        return {**settings, **NO_AUTO_CREATION, "logger": logging.getLogger("librdkafka"), "error_cb": _report}


def _report(error: KafkaError) -> None:
    log.info("a Kafka client has trouble", reason=error.str())


def reason_of(error: BaseException) -> str:
    """Return what a client's exception says, without its wrapping."""
    cause = error.args[0] if error.args else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
