"""Offsets as the REST API takes and gives them."""

from typing import Any

import pytest

from ottla_connect.config import WorkerConfig
from ottla_connect.herder.connector_offsets import (
    admin_overrides,
    check_overrides,
    check_source,
    parse_sink,
    sink_document,
    sink_group_id,
)
from ottla_core.rest.errors import BadRequest
from ottla_sdk import TopicPartition


def partition(topic: Any = "t", number: Any = 3) -> dict[str, Any]:
    return {"kafka_topic": topic, "kafka_partition": number}


def test_a_groups_offsets_are_listed_by_topic_and_partition() -> None:
    offsets = {TopicPartition("t", 10): 5, TopicPartition("t", 2): 7, TopicPartition("a", 0): 0}
    assert sink_document(offsets) == [
        ({"kafka_topic": "a", "kafka_partition": 0}, {"kafka_offset": 0}),
        ({"kafka_topic": "t", "kafka_partition": 2}, {"kafka_offset": 7}),
        ({"kafka_topic": "t", "kafka_partition": 10}, {"kafka_offset": 5}),
    ]


def test_numbers_may_be_written_as_text_and_null_removes() -> None:
    parsed = parse_sink([(partition(), {"kafka_offset": "1000"}), (partition("u", "4"), None)])
    assert parsed == {TopicPartition("t", 3): 1000, TopicPartition("u", 4): None}


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (({"kafka_topic": "t"}, None), "kafka_partition"),
        (({"kafka_partition": 1}, None), "kafka_topic"),
        ((partition(None), None), "kafka_topic"),
        ((partition(number="three"), None), "kafka_partition must be a whole number"),
        ((partition(number=-1), None), "kafka_partition must be a whole number"),
        ((partition(number=True), None), "kafka_partition must be a whole number"),
        ((partition(number=2**31), None), "no partition 2147483648"),
        ((partition(), {"offset": 1}), "kafka_offset"),
        ((partition(), {"kafka_offset": None}), "kafka_offset"),
        ((partition(), {"kafka_offset": 1.5}), "kafka_offset must be a whole number"),
        ((partition(), {"kafka_offset": 2**63}), "an offset 9223372036854775808"),
    ],
)
def test_other_offsets_of_sinks_are_refused_by_name(pair: Any, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        parse_sink([pair])


def test_offsets_of_sources_hold_text_numbers_and_booleans() -> None:
    check_source([({"file": "x", "shard": 1}, {"position": 7, "done": False}), ({"file": "y"}, None)])
    with pytest.raises(BadRequest, match="position in a partition or offset must be text"):
        check_source([({"file": "x"}, {"position": [1]})])
    with pytest.raises(BadRequest, match="file in a partition or offset must be text"):
        check_source([({"file": {}}, None)])


def test_a_sinks_group_bears_its_name_unless_it_or_the_worker_says_otherwise() -> None:
    plain, configured = WorkerConfig.parse({}), WorkerConfig.parse({"consumer.group.id": "all"})
    assert sink_group_id("a", {}, plain) == "connect-a"
    assert sink_group_id("a", {}, configured) == "all"
    assert sink_group_id("a", {"consumer.override.group.id": "mine"}, configured) == "mine"


def test_a_connectors_account_is_used_unless_its_secret_is_not_known_here() -> None:
    settings = {"name": "a", "admin.override.sasl.username": "bob", "admin.override.sasl.password": "x"}
    assert admin_overrides(settings) == {"sasl.username": "bob", "sasl.password": "x"}
    assert admin_overrides({**settings, "admin.override.sasl.password": "${file:/s:p}"}) == {}


def test_offsets_are_not_reached_by_a_client_that_the_policy_does_not_allow():
    refusing = WorkerConfig.parse({"connector.client.config.override.policy": "None"})
    check_overrides({"topics": "t"}, refusing)
    for override in ({"admin.override.client.rack": "r"}, {"consumer.override.group.id": "g"}):
        check_overrides(override, WorkerConfig.parse({}))
        with pytest.raises(BadRequest, match=f"{next(iter(override))}.*policy None"):
            check_overrides(override, refusing)
