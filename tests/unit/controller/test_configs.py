"""Changes of settings, in full and incrementally."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_controller.configs import (
    DYNAMIC_BROKER_CONFIGS,
    BrokerTarget,
    ClientMetricsTarget,
    ConfigPlan,
    TopicTarget,
    plan_config_changes,
)
from ottla_core.client_metrics_config import SUBSCRIPTIONS_MAX
from ottla_core.cluster.controller_rpc.controller_api import (
    ConfigChange,
    ConfigOperation,
    ConfigResourceChange,
    ConfigResourceType,
)
from ottla_core.cluster.state.model import ClusterState, Topic

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


# Settings that contradict each other only when they are put together

LAG_MIN, LAG_MAX = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"


def lagging(**lags_ms: str) -> ClusterState:
    """Topics by their own min.compaction.lag.ms, over a cluster-wide longest lag of 100."""
    topics = {
        name: Topic(name=name, id=UUID(int=number), partitions=(), configs={"min.compaction.lag.ms": lag_ms})
        for number, (name, lag_ms) in enumerate(lags_ms.items())
    }
    return ClusterState(topics=topics, broker_configs={None: {LAG_MAX: "100"}})


def altered(type_: int, name: str, **values: str) -> ConfigResourceChange:
    changes = tuple(ConfigChange(name=key.replace("_", "."), value=value) for key, value in values.items())
    return ConfigResourceChange(type=type_, name=name, changes=changes)


def codes(plans: list[ConfigPlan]) -> list[ErrorCode]:
    return [plan.result.error_code for plan in plans]


TOPIC_TYPE, BROKER_TYPE = 2, 4


def test_a_topics_settings_are_checked_against_the_brokers_dynamic_ones() -> None:
    state = lagging(t="5")
    change = altered(TOPIC_TYPE, "t", min_compaction_lag_ms="101")
    (refused,) = plan_config_changes([change], state, replace_all=False)
    assert refused.result.error_code is ErrorCode.invalid_config
    message = refused.result.error_message or ""
    assert "min.compaction.lag.ms (101) > max.compaction.lag.ms (100)" in message
    assert message.endswith("with the dynamic settings of all brokers")
    fitting = altered(TOPIC_TYPE, "t", min_compaction_lag_ms="101", max_compaction_lag_ms="200")
    assert codes(plan_config_changes([fitting], state, replace_all=False)) == [ErrorCode.none]


def test_a_topics_settings_are_checked_against_those_of_a_single_broker_too() -> None:
    state = ClusterState(topics=lagging(t="5").topics, broker_configs={3: {LAG_MAX: "50"}})
    (refused,) = plan_config_changes([altered(TOPIC_TYPE, "t", min_compaction_lag_ms="51")], state, replace_all=False)
    assert (refused.result.error_message or "").endswith("with the dynamic settings of broker 3")


@pytest.mark.parametrize("name", ["", "1"])
def test_a_change_of_brokers_settings_names_the_topics_that_it_contradicts(name: str) -> None:
    state = lagging(a="10", b="80", c="90")
    shorter = altered(BROKER_TYPE, name, **{LAG_MAX.replace(".", "_"): "50"})
    (refused,) = plan_config_changes([shorter], state, replace_all=False)
    assert refused.result.error_code is ErrorCode.invalid_config
    message = refused.result.error_message or ""
    assert "topics 'b', 'c': " in message
    assert "'a'" not in message
    longer = altered(BROKER_TYPE, name, **{LAG_MAX.replace(".", "_"): "95"})
    assert codes(plan_config_changes([longer], state, replace_all=False)) == [ErrorCode.none]


def test_many_contradicted_topics_are_counted_rather_than_listed() -> None:
    state = lagging(**{f"t{number}": "90" for number in range(25)})
    shorter = altered(BROKER_TYPE, "", **{LAG_MAX.replace(".", "_"): "50"})
    (refused,) = plan_config_changes([shorter], state, replace_all=False)
    assert "'t9' and 15 more: " in (refused.result.error_message or "")


def test_brokers_settings_are_checked_against_each_other() -> None:
    shortest = altered(BROKER_TYPE, "7", **{LAG_MIN.replace(".", "_"): "101"})
    (refused,) = plan_config_changes([shortest], lagging(), replace_all=False)
    assert (refused.result.error_message or "").endswith("with the dynamic settings of broker 7")


def test_a_topic_that_is_in_contradiction_already_does_not_hold_up_the_brokers_settings() -> None:
    state = lagging(old="500", fine="5")
    longer = altered(BROKER_TYPE, "", **{LAG_MAX.replace(".", "_"): "200"})
    assert codes(plan_config_changes([longer], state, replace_all=False)) == [ErrorCode.none]


def test_resources_of_one_request_are_checked_together() -> None:
    state = lagging(t="5")
    longer = altered(BROKER_TYPE, "", **{LAG_MAX.replace(".", "_"): "200"})
    raised = altered(TOPIC_TYPE, "t", min_compaction_lag_ms="150")
    assert codes(plan_config_changes([longer, raised], state, replace_all=False)) == [ErrorCode.none] * 2
    shorter = altered(BROKER_TYPE, "", **{LAG_MAX.replace(".", "_"): "90"})
    raised = altered(TOPIC_TYPE, "t", min_compaction_lag_ms="95")
    assert codes(plan_config_changes([raised, shorter], state, replace_all=False)) == [
        ErrorCode.none,
        ErrorCode.invalid_config,
    ]


def test_the_throttles_of_replication_are_set_for_brokers_and_topics() -> None:
    rate, replicas = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
    plan = planned((rate, SET, "1000"), type_=ConfigResourceType.BROKER, name="1")
    assert plan.configs == {"log.retention.ms": "2", rate: "1000"}
    plan = planned((rate, SET, "-1"), type_=ConfigResourceType.BROKER, name="1")
    assert plan.result.error_code == ErrorCode.invalid_config
    plan = planned((replicas, APPEND, "0:1"))
    assert plan.configs == {**TOPIC.configs, replicas: "0:1"}
    assert planned((replicas, SET, "0")).result.error_code == ErrorCode.invalid_config


def client_metrics(
    name: str,
    *changes: tuple[str, ConfigOperation, str | None],
    state: ClusterState = STATE,
    replace_all: bool = False,
) -> ConfigPlan:
    resource = ConfigResourceChange(
        type=ConfigResourceType.CLIENT_METRICS,
        name=name,
        changes=tuple(ConfigChange(name=n, operation=operation, value=v) for n, operation, v in changes),
    )
    (plan,) = plan_config_changes([resource], state, replace_all=replace_all)
    return plan


def test_a_subscription_to_clients_metrics_is_made_changed_and_deleted_by_its_settings() -> None:
    made = client_metrics("s", ("metrics", APPEND, "a.,b."), ("interval.ms", SET, "1000"))
    assert (made.target, made.configs) == (ClientMetricsTarget("s"), {"metrics": "a.,b.", "interval.ms": "1000"})
    there = ClusterState(client_metrics_configs={"s": {"metrics": "a.,b.", "interval.ms": "1000"}})
    changed = client_metrics("s", ("metrics", SUBTRACT, "a."), ("interval.ms", DELETE, None), state=there)
    assert changed.configs == {"metrics": "b."}
    assert client_metrics("s", state=there, replace_all=True).configs == {}


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("", ("metrics", SET, "a"), ErrorCode.invalid_request),
        ("s", ("interval.ms", SET, "99"), ErrorCode.invalid_request),
        ("s", ("no.such.setting", SET, "1"), ErrorCode.invalid_request),
        ("s", ("match", SET, "colour=blue"), ErrorCode.invalid_config),
        ("s", ("interval.ms", APPEND, "100"), ErrorCode.invalid_config),
        ("s", ("metrics", SET, None), ErrorCode.invalid_request),
    ],
)
def test_a_subscription_that_cannot_be_is_refused(
    name: str, change: tuple[str, ConfigOperation, str | None], code: ErrorCode
) -> None:
    plan = client_metrics(name, change)
    assert (plan.result.error_code, plan.target) == (code, None)


def test_a_cluster_has_a_bounded_number_of_subscriptions() -> None:
    full = ClusterState(
        client_metrics_configs={f"s{number}": {"metrics": "a"} for number in range(SUBSCRIPTIONS_MAX)}
    )
    refused = client_metrics("one more", ("metrics", SET, "a"), state=full)
    assert refused.result.error_code is ErrorCode.policy_violation
    assert client_metrics("s0", ("metrics", SET, "b"), state=full).result.error_code is ErrorCode.none
    assert client_metrics("s0", ("metrics", DELETE, None), state=full).configs == {}
