"""The settings of single groups and of brokers' loggers.

Everything here holds for the reference Kafka as well (`OTTLA_TEST_REFERENCE=1`).
"""

import uuid
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.describe_configs.v4 import request as describe_configs
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.incremental_alter_configs.v1 import request as alter_configs
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta

from tests.conftest import TopicFactory
from tests.support.clients.raw_client import RawClient
from tests.support.clusters.broker_under_test import BrokerUnderTest
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

BROKER_LOGGER, GROUP = 8, 32
OF_A_LOGGER = 6
NODE = "1"
SET, DELETE = 0, 1
OF_THE_GROUP, DEFAULT = 8, 5
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
TIMEOUT = i32Timedelta.parse(timedelta(minutes=1))
LOADING = {
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_load_in_progress,
}


@pytest.fixture
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient.to(bootstrap) as connected:
        yield connected


@pytest.fixture
def group() -> str:
    return f"group/with spaces {uuid.uuid4().hex[:8]}"


def alter(client: RawClient, kind: int, name: str, values: Mapping[str, str | None]) -> tuple[ErrorCode, str | None]:
    """Sets each setting, or deletes it where its value is None."""
    changes = tuple(
        alter_configs.AlterableConfig(name=key, value=value, config_operation=i8(DELETE if value is None else SET))
        for key, value in values.items()
    )
    resource = alter_configs.AlterConfigsResource(resource_type=i8(kind), resource_name=name, configs=changes)
    request = alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    (answer,) = client.ask(request).responses
    return answer.error_code, answer.error_message


def describe(client: RawClient, kind: int, name: str) -> dict[str, Any]:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=i8(kind), resource_name=name, configuration_keys=None
    )
    (answer,) = client.ask(
        describe_configs.DescribeConfigsRequest(
            resources=(resource,), include_synonyms=True, include_documentation=True
        )
    ).results
    assert answer.error_code is ErrorCode.none, answer.error_message
    return {config.name: config for config in answer.configs}


def synonyms(config: Any) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in config.synonyms]


def listed(client: RawClient, kind: int) -> set[str]:
    answer = client.ask(ListConfigResourcesRequest(resource_types=(i8(kind),)))
    assert answer.error_code is ErrorCode.none
    return {resource.resource_name for resource in answer.config_resources}


def test_a_group_has_every_setting_that_kafka_has_with_what_holds_for_all_groups(
    client: RawClient, group: str
) -> None:
    described = describe(client, GROUP, group)
    assert set(described) == {
        SESSION,
        HEARTBEAT,
        "share.auto.offset.reset",
        "share.heartbeat.interval.ms",
        "share.isolation.level",
        "share.record.lock.duration.ms",
        "share.session.timeout.ms",
        "streams.heartbeat.interval.ms",
        "streams.initial.rebalance.delay.ms",
        "streams.num.standby.replicas",
        "streams.session.timeout.ms",
    }
    assert described[SESSION].value == "6000", "as all groups of the cluster under test"
    assert described["share.isolation.level"].value == "read_uncommitted"
    assert synonyms(described[SESSION]) == [(SESSION, "6000", DEFAULT)]
    assert described[SESSION].config_source == DEFAULT
    assert synonyms(described["share.isolation.level"]) == [("share.isolation.level", "read_uncommitted", DEFAULT)]


def test_a_groups_settings_are_set_shown_listed_and_deleted(
    client: RawClient, broker: BrokerUnderTest, group: str
) -> None:
    assert alter(client, GROUP, group, {SESSION: "8000", HEARTBEAT: "700"}) == (ErrorCode.none, None)
    eventually(lambda: describe(client, GROUP, group)[SESSION].value == "8000", "the setting is shown")
    shown = describe(client, GROUP, group)[SESSION]
    assert (shown.config_source, shown.read_only, shown.is_sensitive) == (OF_THE_GROUP, False, False)
    assert synonyms(shown) == [(SESSION, "8000", OF_THE_GROUP)]
    assert group in listed(client, GROUP)
    assert alter(client, GROUP, group, {SESSION: None, HEARTBEAT: None}) == (ErrorCode.none, None)
    eventually(lambda: describe(client, GROUP, group)[SESSION].value == "6000", "the setting is gone")
    if not broker.is_reference:  # which goes on listing a group that had settings
        eventually(lambda: group not in listed(client, GROUP), "the group is listed no more")


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({SESSION: "5999"}, ErrorCode.invalid_config),
        ({SESSION: "60001"}, ErrorCode.invalid_config),
        ({HEARTBEAT: "499"}, ErrorCode.invalid_config),
        ({HEARTBEAT: "15001"}, ErrorCode.invalid_config),
        ({SESSION: "6000", HEARTBEAT: "6000"}, ErrorCode.invalid_config),
        ({SESSION: "soon"}, ErrorCode.invalid_config),
        ({"no.such.setting": "1"}, ErrorCode.invalid_config),
    ],
)
def test_a_group_gets_no_setting_beyond_the_limits(
    client: RawClient, group: str, values: Mapping[str, str], code: ErrorCode
) -> None:
    assert alter(client, GROUP, group, values)[0] is code
    assert group not in listed(client, GROUP)


def heartbeat(client: RawClient, group: str, topic: str, member: str, epoch: int) -> Any:
    """The answer to a heartbeat, once the coordinator is there."""
    answers: list[Any] = []

    def answered() -> bool:
        client.ask(FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(group,)))
        joining = epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=GroupId(group),
            member_id=member,
            member_epoch=i32(epoch),
            rebalance_timeout=TIMEOUT,
            subscribed_topic_names=(TopicName(topic),) if joining else None,
            subscribed_topic_regex=None,
            topic_partitions=() if joining else None,
        )
        answers.append(client.ask(request))
        return answers[-1].error_code not in LOADING

    eventually(answered, "the coordinator answers")
    assert answers[-1].error_code is ErrorCode.none, answers[-1].error_message
    return answers[-1]


def test_members_are_told_the_heartbeat_interval_of_their_group(
    client: RawClient, group: str, new_topic: TopicFactory
) -> None:
    topic, member = new_topic(), str(uuid.uuid4())
    joined = heartbeat(client, group, topic, member, 0)
    assert joined.heartbeat_interval.total_seconds() == 0.5
    assert alter(client, GROUP, group, {HEARTBEAT: "800"}) == (ErrorCode.none, None)

    def is_told() -> bool:
        answer = heartbeat(client, group, topic, member, joined.member_epoch)
        return bool(answer.heartbeat_interval.total_seconds() == 0.8)

    eventually(is_told, "the interval is the group's own")
    assert alter(client, GROUP, group, {HEARTBEAT: None}) == (ErrorCode.none, None)
    eventually(lambda: not is_told(), "the interval is everybody's again")


# Loggers


def test_levels_of_loggers_are_described_and_changed_on_the_broker_that_is_asked(client: RawClient) -> None:
    before = describe(client, BROKER_LOGGER, NODE)["root"]
    assert (before.value, before.config_source, before.read_only) == ("INFO", OF_A_LOGGER, False)
    try:
        assert alter(client, BROKER_LOGGER, NODE, {"root": "WARN"}) == (ErrorCode.none, None)
        assert describe(client, BROKER_LOGGER, NODE)["root"].value == "WARN"
    finally:
        alter(client, BROKER_LOGGER, NODE, {"root": "INFO"})
    assert describe(client, BROKER_LOGGER, NODE)["root"].value == "INFO"


@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        (NODE, {"no.such.logger": "INFO"}, ErrorCode.invalid_config),
        (NODE, {"root": "LOUD"}, ErrorCode.invalid_config),
        (NODE, {"root": None}, ErrorCode.invalid_request),
        ("2", {"root": "INFO"}, ErrorCode.invalid_request),
        ("", {"root": "INFO"}, ErrorCode.invalid_request),
    ],
)
def test_a_level_that_cannot_be_is_refused(
    client: RawClient, name: str, values: Mapping[str, str | None], code: ErrorCode
) -> None:
    found, message = alter(client, BROKER_LOGGER, name, values)
    assert (found, bool(message)) == (code, True)
