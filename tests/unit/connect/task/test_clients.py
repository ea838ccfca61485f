"""A task's clients are made by the worker's policy, whatever was stored when another one held."""

import pytest

from ottla_connect.config import WorkerConfig
from ottla_connect.task.clients import OverrideRefused, client_settings, permitted_overrides

CONNECTOR = {"producer.override.linger.ms": "5", "consumer.override.group.id": "other"}


@pytest.mark.parametrize(("kind", "key"), [("producer", "linger.ms"), ("consumer", "group.id")])
def test_no_client_is_made_with_what_the_policy_refuses(kind, key):
    worker = WorkerConfig.parse({"connector.client.config.override.policy": "None"})
    for make in (
        lambda: client_settings(kind, worker, CONNECTOR, {}),
        lambda: permitted_overrides(kind, worker, CONNECTOR),
    ):
        with pytest.raises(OverrideRefused, match=rf"{kind}\.override\.{key}: .*policy None"):
            make()


def test_a_client_is_made_with_what_the_policy_allows():
    worker = WorkerConfig.parse(
        {
            "connector.client.config.override.policy": "Allowlist",
            "connector.client.config.override.allowlist": "linger.ms",
        }
    )
    assert client_settings("producer", worker, CONNECTOR, {})["linger.ms"] == "5"
    assert client_settings("admin", worker, CONNECTOR, {})
