"""Requests about clients' metrics as a client sends them (KIP-714), and the settings of subscriptions."""

import urllib.request
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from prometheus_client.parser import text_string_to_metric_families

from tests.support.clients.raw_client import RawClient
from tests.support.messages.sparse_request import sparse_request

CLIENT_METRICS = 16
SET, DELETE = 0, 1
NO_INSTANCE = UUID(int=0)


def alter_subscription(
    client: RawClient, name: str, values: Mapping[str, str | None]
) -> tuple[ErrorCode, str | None]:
    """Sets each setting, or deletes it where its value is None."""
    changes = [
        {"name": key, "value": value, "config_operation": DELETE if value is None else SET}
        for key, value in values.items()
    ]
    resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": changes}
    (answer,) = client.ask(sparse_request("incremental_alter_configs", 1, resources=[resource])).responses
    return answer.error_code, answer.error_message


def describe_subscription(client: RawClient, name: str) -> dict[str, tuple[str | None, int]]:
    """The value of each setting, and where it comes from."""
    resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configuration_keys": None}
    (answer,) = client.ask(sparse_request("describe_configs", 4, resources=[resource])).results
    assert answer.error_code is ErrorCode.none, answer.error_message
    return {config.name: (config.value, config.config_source) for config in answer.configs}


def subscriptions(client: RawClient, version: int = 1) -> set[str]:
    """The names of all subscriptions."""
    wanted = {"resource_types": [CLIENT_METRICS]} if version else {}
    answer = client.ask(sparse_request("list_config_resources", version, **wanted))
    assert answer.error_code is ErrorCode.none
    return {each.resource_name for each in answer.config_resources}


def ask_what_is_wanted(client: RawClient, instance_id: UUID = NO_INSTANCE) -> Any:
    return client.ask(sparse_request("get_telemetry_subscriptions", 0, client_instance_id=instance_id))


def push(
    client: RawClient,
    instance_id: UUID,
    subscription_id: int,
    metrics: bytes,
    *,
    codec: int = 0,
    is_last: bool = False,
    within_s: float = 30.0,
) -> ErrorCode:
    request = sparse_request(
        "push_telemetry",
        0,
        client_instance_id=instance_id,
        subscription_id=subscription_id,
        terminating=is_last,
        compression_type=codec,
        metrics=metrics,
    )
    code: ErrorCode = client.ask(request, within_s=within_s).error_code
    return code


def shown(metrics_url: str, name: str, **labels: str) -> dict[tuple[str, ...], float]:
    """The series of a metric at a Prometheus page that have these labels, by the values of all of their labels."""
    with urllib.request.urlopen(metrics_url, timeout=30) as page:
        families = text_string_to_metric_families(page.read().decode())
        samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {
        tuple(sample.labels.values()): sample.value for sample in samples if labels.items() <= sample.labels.items()
    }
