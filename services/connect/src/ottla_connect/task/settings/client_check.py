"""Asks librdkafka whether it takes the settings of a connector's Kafka clients, by making such a client."""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from ottla_connect.client_settings import ClientKind
from ottla_connect.config import WorkerConfig
from ottla_connect.task.clients import client_settings
from ottla_sdk.file_policy import FileRefused
from ottla_sdk.kafka.client_settings import ClientSettingError

_CLIENTS: Mapping[ClientKind, Callable[[dict[str, Any]], Any]] = {
    "producer": Producer,
    "consumer": Consumer,
    "admin": AdminClient,
}


def client_setting_problems(kind: ClientKind, worker: WorkerConfig, overrides: Mapping[str, str]) -> list[str]:
    """Return what is wrong with overrides of a client's settings, as sentences that begin with the key.

    Each is tried by itself, so that all are found; those that are right by themselves are then tried together.

    Raises:
        ClientSettingError: some have no counterpart in librdkafka.
    """
    worker.client_config(kind, overrides)
    problems = [
        f"{key}: {problem}"
        for key, value in overrides.items()
        if (problem := _problem(kind, worker, {key: value})) is not None
    ]
    if not problems and len(overrides) > 1 and (problem := _problem(kind, worker, overrides)) is not None:
        problems.append(f"{next(iter(overrides))}: {problem}")
    return problems


def _problem(kind: ClientKind, worker: WorkerConfig, overrides: Mapping[str, str]) -> str | None:
    connector = {f"{kind}.override.{key}": value for key, value in overrides.items()}
    own = {"group.id": "validation"} if kind == "consumer" else {}
    try:
        settings = client_settings(kind, worker, connector, own)
    except FileRefused as error:
        return str(error)
    except ClientSettingError:
        return None  # all of them go together: what one needs by itself is among the others
    settings["log_level"] = "0"
    try:
        client = _CLIENTS[kind](settings)
    except (KafkaException, ValueError, TypeError) as error:
        return error.args[0].str() if isinstance(error, KafkaException) else str(error)
    if kind == "consumer":
        client.close()
    return None
