"""Changes of settings, in full and incrementally."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_controller.configs import (
    DYNAMIC_BROKER_CONFIGS,
    BrokerTarget,
    ConfigPlan,
    TopicTarget,
    plan_config_changes,
)
from ottla_core.cluster.controller_api import (
    ConfigChange,
    ConfigOperation,
    ConfigResourceChange,
    ConfigResourceType,
)
from ottla_core.cluster.model import ClusterState, Topic

TOPIC = Topic(name="t", id=UUID(int=1), partitions=(), configs={"retention.ms": "5", "cleanup.policy": "compact"})
STATE = ClusterState(
    topics={"t": TOPIC}, broker_configs={None: {"log.retention.ms": "1"}, 1: {"log.retention.ms": "2"}}
)
SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def planned(
    *changes: tuple[str, ConfigOperation, str | None],
    type_: int = ConfigResourceType.TOPIC,
    name: str = "t",
    replace_all: bool = False,
) -> ConfigPlan:
    resource = ConfigResourceChange(
        type=type_,
        name=name,
        changes=tuple(ConfigChange(name=n, operation=operation, value=v) for n, operation, v in changes),
    )
    (plan,) = plan_config_changes([resource], STATE, replace_all=replace_all)
    return plan


@pytest.mark.parametrize(
    ("changes", "configs"),
    [
        ([("retention.ms", SET, "9")], {"retention.ms": "9", "cleanup.policy": "compact"}),
        ([("retention.ms", DELETE, None)], {"cleanup.policy": "compact"}),
        ([("segment.ms", DELETE, None)], TOPIC.configs),
        ([("cleanup.policy", APPEND, "delete")], {"retention.ms": "5", "cleanup.policy": "compact,delete"}),
        ([("cleanup.policy", APPEND, "compact")], TOPIC.configs),
        ([("cleanup.policy", SUBTRACT, "delete")], TOPIC.configs),
        (
            [("cleanup.policy", SET, "compact,delete"), ("retention.ms", SET, "7")],
            {"retention.ms": "7", "cleanup.policy": "compact,delete"},
        ),
    ],
)
def test_incremental_changes_touch_what_they_name(
    changes: list[tuple[str, ConfigOperation, str | None]], configs: dict[str, str]
) -> None:
    plan = planned(*changes)
    assert plan.result.error_code is ErrorCode.none, plan.result.error_message
    assert plan.target == TopicTarget("t")
    assert plan.configs == configs


def test_appending_to_a_setting_without_a_value_starts_at_its_default() -> None:
    plan = planned(("cleanup.policy", APPEND, "compact"), replace_all=True)
    assert plan.configs == {"cleanup.policy": "delete,compact"}


def test_a_full_change_removes_what_it_does_not_name() -> None:
    assert planned(("segment.ms", SET, "60000"), replace_all=True).configs == {"segment.ms": "60000"}
    assert planned(replace_all=True).configs == {}


@pytest.mark.parametrize(
    ("name", "target", "configs"),
    [
        ("", BrokerTarget(None), {"log.retention.ms": "9"}),
        ("1", BrokerTarget(1), {"log.retention.ms": "9"}),
        ("4", BrokerTarget(4), {"log.retention.ms": "9"}),
    ],
)
def test_brokers_have_settings_each_and_together(name: str, target: BrokerTarget, configs: dict[str, str]) -> None:
    plan = planned(("log.retention.ms", SET, "9"), type_=ConfigResourceType.BROKER, name=name)
    assert (plan.target, plan.configs) == (target, configs)


def test_every_dynamic_broker_setting_takes_the_default_of_its_topic_setting() -> None:
    assert "log.retention.ms" in DYNAMIC_BROKER_CONFIGS
    assert "log.retention.hours" not in DYNAMIC_BROKER_CONFIGS
    assert "log.dirs" not in DYNAMIC_BROKER_CONFIGS


@pytest.mark.parametrize(
    ("changes", "type_", "name", "code"),
    [
        ([("retention.ms", SET, "x")], 2, "t", ErrorCode.invalid_config),
        ([("no.such", SET, "x")], 2, "t", ErrorCode.invalid_config),
        ([("retention.ms", APPEND, "1")], 2, "t", ErrorCode.invalid_config),
        ([("retention.ms", SET, None)], 2, "t", ErrorCode.invalid_request),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], 2, "t", ErrorCode.invalid_request),
        ([("retention.ms", SET, "1")], 2, "nope", ErrorCode.unknown_topic_or_partition),
        ([("log.retention.ms", SET, "x")], 4, "", ErrorCode.invalid_config),
        ([("log.dirs", SET, "x")], 4, "1", ErrorCode.invalid_config),
        ([("log.retention.ms", SET, "1")], 4, "one", ErrorCode.invalid_request),
        ([("x", SET, "1")], 8, "1", ErrorCode.invalid_request),
        ([("cleanup.policy", SUBTRACT, "compact")], 2, "t", ErrorCode.invalid_config),
    ],
)
def test_a_bad_change_is_refused(
    changes: list[tuple[str, ConfigOperation, str | None]], type_: int, name: str, code: ErrorCode
) -> None:
    plan = planned(*changes, type_=type_, name=name)
    assert plan.result.error_code is code
    assert plan.configs is None


def test_a_resource_that_appears_twice_is_refused_both_times_and_others_are_not() -> None:
    change = ConfigResourceChange(type=2, name="t", changes=())
    other = ConfigResourceChange(type=4, name="", changes=())
    plans = plan_config_changes([change, other, change], STATE, replace_all=False)
    assert [plan.result.error_code for plan in plans] == [
        ErrorCode.invalid_request,
        ErrorCode.none,
        ErrorCode.invalid_request,
    ]
