"""What settings mean for replicas, and whose eligible leaders a change of them makes worthless."""

from dataclasses import replace

import pytest

from ottla_controller.configs import plan_config_changes
from ottla_controller.partition_change import TopicRules
from ottla_controller.topic_rules import partitions_to_clear, rules_of_topics
from ottla_core.cluster.controller_rpc.controller_api import ConfigChange, ConfigResourceChange
from ottla_core.cluster.state.model import ClusterState, Topic
from tests.support.controller.replica_rules import ID, live, partition, state_of

DEFAULTS = TopicRules(min_insync_replicas=3, allows_unclean=True)


def test_the_topic_then_the_cluster_then_the_own_file() -> None:
    def of(topic_configs: dict[str, str], cluster_wide: dict[str, str]) -> TopicRules:
        return rules_of_topics(cluster_wide, DEFAULTS)(Topic(name="t", id=ID, partitions=(), configs=topic_configs))

    assert of({}, {}) == DEFAULTS
    assert of({}, {"min.insync.replicas": "2"}).min_insync_replicas == 2
    assert of({"min.insync.replicas": " 4"}, {"min.insync.replicas": "2"}).min_insync_replicas == 4
    assert not of({"unclean.leader.election.enable": "False"}, {}).allows_unclean
    assert not of({}, {"unclean.leader.election.enable": "false"}).allows_unclean
    assert of({"unclean.leader.election.enable": "true"}, {"unclean.leader.election.enable": "false"}).allows_unclean


STATE = state_of(
    partition("1", "1@5", eligible="2"),
    partition("12", "1@5", index=1),
    partition("", "none", eligible="12", index=2),
    brokers=live("1@5"),
)


def cleared(type_: int, name: str, change: ConfigChange, state: ClusterState = STATE) -> list[int]:
    resource = ConfigResourceChange(type=type_, name=name, changes=(change,))
    (plan,) = plan_config_changes([resource], state, replace_all=False)
    found = list(partitions_to_clear(plan, state))
    assert all(not one.eligible_leaders and one.partition_epoch == 42 for one in found)
    return [one.index for one in found]


@pytest.mark.parametrize(("type_", "name"), [(2, "t"), (4, "")])
def test_another_minimum_clears_the_eligible_leaders_of_led_partitions(type_: int, name: str) -> None:
    assert cleared(type_, name, ConfigChange(name="min.insync.replicas", value="2")) == [0]


def test_other_settings_and_topics_with_their_own_minimum_keep_them() -> None:
    assert cleared(2, "t", ConfigChange(name="retention.ms", value="2")) == []
    own = replace(STATE, topics={"t": replace(STATE.topics["t"], configs={"min.insync.replicas": "2"})})
    assert cleared(4, "", ConfigChange(name="min.insync.replicas", value="1"), own) == []
    assert cleared(2, "t", ConfigChange(name="min.insync.replicas", value="2"), own) == []


def test_a_single_broker_has_no_minimum_of_its_own() -> None:
    change = ConfigChange(name="min.insync.replicas", value="2")
    resource = ConfigResourceChange(type=4, name="1", changes=(change,))
    (plan,) = plan_config_changes([resource], STATE, replace_all=False)
    assert "cannot be changed for a single broker" in (plan.result.error_message or "")
