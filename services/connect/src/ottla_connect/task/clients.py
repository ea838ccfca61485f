"""Kafka clients of a task: their settings, and their logs through Python's logging."""

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from ottla_connect.client_settings import ClientKind
from ottla_connect.config import WorkerConfig
from ottla_connect.task.pipeline.transform_chain import below
from ottla_sdk import FatalError
from ottla_sdk.file_policy import permitted_path

PRODUCER_DEFAULTS = {
    "partitioner": "murmur2_random",  # Java's, so that keys go to the same partitions as from Kafka Connect
    "queue.buffering.max.kbytes": str(64 * 1024),
    "queue.buffering.max.messages": "100000",
}
CONSUMER_DEFAULTS = {
    "enable.auto.offset.store": "false",
    "fetch.queue.backoff.ms": "10",  # by default a fast reader waits a second whenever it has emptied the queue
    "isolation.level": "read_uncommitted",  # Java's default, which librdkafka does not share
    "queued.max.messages.kbytes": str(32 * 1024),  # well within the limit of memory of a task
}

FILES = (".location", ".file")
"""What settings end with that name a file."""
PROBE = "probe"
"""In place of a file of authorities: those of the system."""
log = logging.getLogger("librdkafka")


def overrides(kind: ClientKind, connector: Mapping[str, str]) -> dict[str, str]:
    """Return what a connector's settings override in clients of a kind."""
    return below(connector, f"{kind}.override.")


class OverrideRefused(FatalError):
    """The worker's policy does not let the connector override a client's setting."""


def permitted_overrides(kind: ClientKind, worker: WorkerConfig, connector: Mapping[str, str]) -> dict[str, str]:
    """Return what a connector's settings override in clients of a kind, for a client that is about to be made.

    The policy is asked here once more: settings that were stored under another policy, or by somebody who may write
    to the config topic, have not been validated under this one.

    Raises:
        OverrideRefused: the worker's policy does not allow it.
        FileRefused: it names a file that connectors may not touch.
    """
    own = overrides(kind, connector)
    if problems := worker.override_problems(kind, own):
        raise OverrideRefused("; ".join(problems))
    for key, value in own.items():
        if key.endswith(FILES) and value != PROBE:
            permitted_path(value)
    return own


def client_settings(
    kind: ClientKind, worker: WorkerConfig, connector: Mapping[str, str], own: Mapping[str, str]
) -> dict[str, Any]:
    """Return librdkafka's settings for a client of a task.

    Args:
        kind: whose client it is.
        worker: the worker's settings.
        connector: the connector's.
        own: the task's defaults, such as the consumer's group; worker and connector may override them.

    Raises:
        ClientSettingError: some setting has no counterpart in librdkafka.
        OverrideRefused: the worker's policy does not allow an override.
    """
    defaults = {"producer": PRODUCER_DEFAULTS, "consumer": CONSUMER_DEFAULTS}.get(kind, {})
    return {**defaults, **own, **worker.client_config(kind, permitted_overrides(kind, worker, connector))}


def log_client_error(error: KafkaError) -> None:
    """Log what a client says about its connections; it goes on by itself."""
    log.warning("%s: %s", error.name(), error.str())
