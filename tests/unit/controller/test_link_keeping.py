"""What a link's keeper may have changed, and what is looked at again before."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_controller import link_promotion
from ottla_controller.cluster_links import plan_change
from ottla_controller.link_keeping import check_registered, plan_keeping
from ottla_controller.link_promotion import plan_promotion
from ottla_controller.linked_topics import LinkedTopicPlan
from ottla_core.cluster.controller_rpc.link_api import LinkChange, NewLinkedTopic
from ottla_core.cluster.state.link_properties import keeper_of
from ottla_core.cluster.state.model import ClusterState, Link
from ottla_core.errors import InvalidRequest, KafkaError, StaleBrokerEpoch
from tests.unit.controller.test_cluster_links import DEFAULTS, LINK, linked_topic, new_topic, own_topic, state_with
from tests.unit.controller.test_topics import BROKERS

KEEPER = keeper_of(LINK.id, BROKERS) or 0


def kept(new: NewLinkedTopic, state: ClusterState, *, broker_id: int = KEEPER) -> LinkedTopicPlan:
    (plan,) = plan_keeping(LINK.id, broker_id, [new], state, DEFAULTS)
    return plan


def with_link(**changes: Any) -> ClusterState:
    return state_with(links=(replace(LINK, **changes),))


def test_a_topic_that_is_not_here_is_linked() -> None:
    plan = kept(new_topic(configs={"retention.ms": "5"}), state_with())
    assert plan.topic is not None
    assert plan.topic.origin is not None
    assert plan.topic.origin.link_id == LINK.id
    assert dict(plan.topic.configs) == {"retention.ms": "5"}
    assert all(partition.link == LINK.id for partition in plan.topic.partitions)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (with_link(topics=("payments",)), "does not follow"),
        (with_link(properties={"topics.exclude": "ord.*"}), "does not follow"),
        (with_link(promoted_topics=frozenset({"orders"})), "was promoted"),
        (state_with(own_topic()), "is here and does not follow"),
        (state_with(replace(linked_topic(), origin=None)), "is here and does not follow"),
    ],
)
def test_what_the_link_does_not_follow_any_more_is_refused(state: ClusterState, says: str) -> None:
    plan = kept(new_topic(), state)
    assert plan.topic is None
    assert says in (plan.result.error_message or "")


def test_a_topic_that_follows_another_topic_of_the_source_is_left_as_it_is() -> None:
    plan = kept(new_topic(source_topic_id=UUID(int=9), source_leader_epochs=(1, 2, 3)), state_with(linked_topic()))
    assert (plan.topic, plan.result.error_code) == (None, ErrorCode.policy_violation)


def test_a_topic_of_which_a_partition_was_promoted_is_left_as_it_is() -> None:
    topic = linked_topic()
    half = replace(topic, partitions=(topic.partitions[0], replace(topic.partitions[1], link=None)))
    assert kept(new_topic(source_leader_epochs=(1, 2, 3)), state_with(half)).topic is None
    assert kept(new_topic(source_leader_epochs=(1, 2), configs={"retention.ms": "5"}), state_with(half)).topic is None


@pytest.mark.parametrize(
    ("state", "broker_id", "says"),
    [
        (state_with(), KEEPER % 3 + 1, "does not keep"),
        (with_link(paused=True), KEEPER, "paused"),
        (with_link(properties={"refresh.topics.enabled": "false"}), KEEPER, "does not refresh"),
        (with_link(id=UUID(int=LINK.id.int + 3)), KEEPER, "there is no link"),
    ],
)
def test_only_the_keeper_of_a_link_that_runs_has_anything_changed(
    state: ClusterState, broker_id: int, says: str
) -> None:
    with pytest.raises(KafkaError, match=says):
        kept(new_topic(), state, broker_id=broker_id)


def test_a_former_registration_is_refused() -> None:
    check_registered(1, 10, state_with())
    with pytest.raises(StaleBrokerEpoch):
        check_registered(1, 9, state_with())


def test_a_linked_topic_gets_the_partitions_and_settings_of_its_source_in_one_step() -> None:
    topic = replace(linked_topic(), configs={"retention.ms": "1", "min.insync.replicas": "1"})
    plan = kept(new_topic(source_leader_epochs=(5, 7, 9), configs={"segment.ms": "7"}), state_with(topic))
    assert plan.topic is not None
    assert dict(plan.topic.configs) == {"segment.ms": "7", "min.insync.replicas": "1"}
    assert [(each.index, each.link, each.leader_epoch) for each in plan.added] == [(2, LINK.id, 9)]
    assert len(plan.topic.partitions) == 3


def test_a_linked_topic_that_is_in_step_needs_nothing_and_never_shrinks() -> None:
    state = state_with(linked_topic())
    assert kept(new_topic(source_leader_epochs=(9, 9)), state).topic is None
    plan = kept(new_topic(source_leader_epochs=(9,)), state)
    assert (plan.topic, plan.result.error_code) == (None, ErrorCode.none)


def test_settings_that_are_refused_do_not_keep_a_topic_from_growing() -> None:
    wanted = new_topic(source_leader_epochs=(5, 7, 9), configs={"retention.ms": "never"})
    plan = kept(wanted, state_with(linked_topic()))
    assert plan.result.error_code is ErrorCode.invalid_config
    assert plan.topic is not None
    assert (len(plan.topic.partitions), dict(plan.topic.configs)) == (3, {})


def test_settings_stay_where_they_do_not_go_along() -> None:
    state = state_with(linked_topic(), links=(replace(LINK, properties={"sync.topic.configs.enabled": "false"}),))
    assert kept(new_topic(configs={"retention.ms": "5"}, source_leader_epochs=(5, 7)), state).topic is None


def test_a_promotion_is_remembered_and_one_of_all_pauses_the_link() -> None:
    state = state_with(linked_topic())
    one = plan_promotion("west", ["orders"], state).link
    assert (one.promoted_topics, one.paused) == (frozenset({"orders"}), False)
    every = plan_promotion("west", [], state).link
    assert (every.promoted_topics, every.paused) == (frozenset({"orders"}), True)
    again = plan_change(LinkChange(name="west", forgotten_promotions=("orders",)), state_with(links=(one,)))
    assert again.promoted_topics == frozenset()


def test_a_link_that_cannot_remember_all_promotions_links_nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_promotion, "PROMOTED_NAMES_BYTES_MAX", 5)
    link: Link = plan_promotion("west", ["orders"], state_with(linked_topic())).link
    assert link.properties == {"refresh.topics.enabled": "false"}


def test_properties_of_a_link_are_checked() -> None:
    changed = plan_change(LinkChange(name="west", properties={"topics.exclude": "a"}), state_with())
    assert changed.properties == {"topics.exclude": "a"}
    unset = plan_change(LinkChange(name="west", properties={"topics.exclude": None}), state_with(links=(changed,)))
    assert unset.properties == {}
    with pytest.raises(InvalidRequest, match=r"west.*colour is no property"):
        plan_change(LinkChange(name="west", properties={"colour": "red"}), state_with())
