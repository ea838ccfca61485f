"""The properties of links, which topics and groups go along, and which broker keeps a link."""

from dataclasses import replace
from uuid import UUID

import pytest

from ottla_core.cluster.state.link_properties import (
    DEFAULTS,
    follows_group,
    follows_topic,
    keeper_of,
    link_properties,
    properties_of,
)
from ottla_core.cluster.state.linked_topic_settings import FOLLOWED, with_followed
from ottla_core.cluster.state.model import Link
from ottla_core.errors import InvalidRequest
from ottla_core.topic_config import TOPIC_CONFIG_DEFINITIONS
from tests.unit.controller.test_topics import BROKERS

LINK = Link(
    name="west",
    id=UUID(int=70),
    source_cluster_id="there",
    bootstrap_servers=("west:9092",),
    topics=("orders.*", "__.*", ".*heartbeats"),
    groups=(".*",),
)


def test_what_is_not_written_has_its_default() -> None:
    found = link_properties({"refresh.topics.interval.seconds": "5", "sync.group.offsets.enabled": "false"})
    assert found == replace(DEFAULTS, refresh_topics_interval_seconds=5, sync_group_offsets_enabled=False)
    assert link_properties({"topics.exclude": "a.*, b"}).topics_exclude == ("a.*", "b")
    assert link_properties({"topics.exclude": ""}).topics_exclude == ()


def test_all_that_is_wrong_is_told_at_once() -> None:
    wrong = {
        "refresh.topics.interval.seconds": "0",
        "sync.group.offsets.enabled": "yes",
        "groups.exclude": "(",
        "colour": "red",
    }
    with pytest.raises(InvalidRequest) as refused:
        link_properties(wrong)
    assert all(name in refused.value.message for name in wrong)


def test_properties_of_a_later_version_are_passed_over() -> None:
    link = replace(LINK, properties={"refresh.topics.interval.seconds": "5", "colour": "red"})
    assert properties_of(link) == replace(DEFAULTS, refresh_topics_interval_seconds=5)


def test_topics_are_followed_that_a_pattern_matches_unless_they_are_excluded_or_internal() -> None:
    link = replace(LINK, properties={"topics.exclude": "orders.*private"})
    assert follows_topic(link, "orders.eu")
    assert not follows_topic(link, "orders.private")
    assert not follows_topic(link, "payments")
    assert not follows_topic(link, "__consumer_offsets")
    assert not follows_topic(LINK, "west.heartbeats")


def test_groups_go_along_that_a_pattern_matches_unless_they_are_excluded() -> None:
    assert follows_group(LINK, "billing")
    assert not follows_group(LINK, "console-consumer-1")
    assert not follows_group(replace(LINK, groups=("b",)), "billing")


def test_one_live_broker_keeps_a_link_and_links_are_spread() -> None:
    assert {keeper_of(UUID(int=number), BROKERS) for number in range(6)} == {1, 2, 3}
    link_id = UUID(int=1)
    keeper = keeper_of(link_id, BROKERS)
    assert keeper is not None
    leaving = {**BROKERS, keeper: replace(BROKERS[keeper], shutting_down=True)}
    assert keeper_of(link_id, leaving) in BROKERS.keys() - {keeper}
    assert keeper_of(link_id, {keeper: leaving[keeper]}) == keeper
    assert keeper_of(link_id, {}) is None


def test_followed_settings_are_settings_of_topics_and_not_those_of_replication() -> None:
    assert set(TOPIC_CONFIG_DEFINITIONS) >= FOLLOWED
    assert not [name for name in FOLLOWED if "replica" in name or "flush" in name or "leader" in name]


def test_followed_settings_are_as_in_the_source_and_the_others_stay() -> None:
    present = {"retention.ms": "1", "min.insync.replicas": "2", "cleanup.policy": "compact"}
    wanted = {"retention.ms": "9", "segment.ms": "5", "min.insync.replicas": "1"}
    assert with_followed(present, wanted) == {"retention.ms": "9", "segment.ms": "5", "min.insync.replicas": "2"}
