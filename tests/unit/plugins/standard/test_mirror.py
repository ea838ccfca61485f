"""Filters and naming policies of mirrors, with the defaults of MirrorMaker 2."""

import pytest

from ottla_sdk import ConfigPropertyFilter, GroupFilter, InvalidConfig, ReplicationPolicy, TopicFilter
from ottla_sdk.runtime.plugin_lookup import CONNECT_HOOKS, MIRROR_HOOKS, PluginLookup, PluginNotFound
from ottla_standard.mirror.filters import DefaultConfigPropertyFilter, DefaultGroupFilter, DefaultTopicFilter
from ottla_standard.mirror.replication_policies import DefaultReplicationPolicy, IdentityReplicationPolicy

JAVA = "org.apache.kafka.connect.mirror"


def made(plugin, **settings):
    instance = plugin()
    instance.configure({key.replace("_", "."): value for key, value in settings.items()})
    return instance


@pytest.mark.parametrize(
    ("kind", "plugin"),
    [
        (TopicFilter, DefaultTopicFilter),
        (GroupFilter, DefaultGroupFilter),
        (ConfigPropertyFilter, DefaultConfigPropertyFilter),
        (ReplicationPolicy, DefaultReplicationPolicy),
        (ReplicationPolicy, IdentityReplicationPolicy),
    ],
)
def test_the_classes_are_found_by_javas_names_and_the_bare_ones(kind, plugin):
    lookup = PluginLookup(MIRROR_HOOKS)
    assert lookup.find(f"{JAVA}.{plugin.__name__}", kind) is plugin
    assert lookup.find(plugin.__name__, kind) is plugin


def test_connect_does_not_see_them():
    with pytest.raises(PluginNotFound):
        PluginLookup(CONNECT_HOOKS).find("DefaultTopicFilter", TopicFilter)


def test_without_settings_all_topics_are_copied_but_what_is_internal():
    topics = made(DefaultTopicFilter)
    assert all(map(topics.should_replicate_topic, ["orders", "A.orders", "x.internal", "_schemas"]))
    excluded = ["mm2-offset-syncs.B.internal", "orders.replica", "__consumer_offsets"]
    assert not any(map(topics.should_replicate_topic, excluded))


def test_a_topic_has_to_match_as_a_whole_and_exclusions_come_first():
    topics = made(DefaultTopicFilter, topics="orders, pay.*|refunds", topics_exclude="payroll")
    assert [each for each in ("orders", "orders2", "payments", "payroll", "refunds") if
            topics.should_replicate_topic(each)] == ["orders", "payments", "refunds"]  # fmt: skip


def test_an_empty_list_of_topics_copies_none():
    topics = made(DefaultTopicFilter, topics="")
    assert not topics.should_replicate_topic("orders")
    assert not topics.should_replicate_topic("")


def test_groups_of_consoles_and_of_connect_are_left_out():
    groups = made(DefaultGroupFilter)
    assert groups.should_replicate_group("billing")
    assert not any(map(groups.should_replicate_group, ["console-consumer-17", "connect-files", "__internal"]))


def test_settings_that_belong_to_one_cluster_are_left_out():
    properties = made(DefaultConfigPropertyFilter)
    assert properties.should_replicate_config_property("retention.ms")
    assert not properties.should_replicate_config_property("min.insync.replicas")
    assert not properties.should_replicate_source_default("retention.ms")
    assert made(DefaultConfigPropertyFilter, use_defaults_from="source").should_replicate_source_default("x")


def test_a_pattern_that_is_none_is_refused_by_its_setting():
    with pytest.raises(InvalidConfig, match=r"topics\.exclude.*\[a.*not a regular expression"):
        made(DefaultTopicFilter, topics_exclude="[a")


@pytest.mark.parametrize(
    ("topic", "source", "upstream"),
    [
        ("orders", None, None),
        ("A.orders", "A", "orders"),
        ("B.A.orders", "B", "A.orders"),
        (".x", "", "x"),
        ("x.", None, None),
        ("x..", None, None),
        ("A..x", "A", ".x"),
        ("A.B.", "A", "B."),
    ],
)
def test_a_name_says_where_a_topic_came_from(topic, source, upstream):
    policy = made(DefaultReplicationPolicy)
    assert policy.topic_source(topic) == source
    assert policy.upstream_topic(topic) == upstream


def test_names_may_have_another_separator_but_those_of_internal_topics():
    policy = DefaultReplicationPolicy()
    policy.configure(
        {
            "replication.policy.separator": "_",
            "replication.policy.internal.topic.separator.enabled": "false",
        }
    )
    assert policy.format_remote_topic("A", "orders") == "A_orders"
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"
    assert policy.is_internal_topic("A.checkpoints.internal")
    assert not policy.is_internal_topic("A_checkpoints_internal")


def test_the_original_of_a_copy_of_a_copy_is_found():
    policy = made(DefaultReplicationPolicy)
    assert policy.original_topic("B.A.orders") == "orders"
    assert policy.is_heartbeats_topic("B.A.heartbeats")


def test_names_may_stay_as_they_are_but_those_of_heartbeats():
    policy = made(IdentityReplicationPolicy, source_cluster_alias="A")
    assert policy.format_remote_topic("A", "orders") == "orders"
    assert (policy.topic_source("orders"), policy.upstream_topic("orders")) == ("A", "orders")
    assert policy.format_remote_topic("A", "heartbeats") == "A.heartbeats"
    assert (policy.topic_source("B.heartbeats"), policy.upstream_topic("B.heartbeats")) == ("B", "heartbeats")
    assert policy.original_topic("orders") == "orders"
