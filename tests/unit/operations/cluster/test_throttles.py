"""The settings that throttle a plan."""

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigChange
from ottla_operations.cluster.throttles import throttle_removal, throttle_settings

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def test_what_is_read_and_what_is_written_is_named_with_rates_for_all_who_copy():
    changes = throttle_settings({T0: (1, 2), T1: (2, 1)}, {T0: (1, 3), T1: (4, 3)}, 5000)
    assert changes[:2] == [
        ConfigChange(TOPIC_RESOURCE, "t", "leader.replication.throttled.replicas", "0:1,0:2,1:2,1:1"),
        ConfigChange(TOPIC_RESOURCE, "t", "follower.replication.throttled.replicas", "0:3,1:4,1:3"),
    ]
    assert {(change.resource, change.name, change.value) for change in changes[2:]} == {
        (broker, f"{side}.replication.throttled.rate", "5000")
        for broker in ("1", "2", "3", "4")
        for side in ("leader", "follower")
    }


def test_what_copies_nothing_needs_no_throttle():
    assert throttle_settings({U0: (1, 2)}, {U0: (2, 1)}, 5000) == []


def test_every_setting_is_removed_again():
    before, targets = {T0: (1, 2), U0: (3,)}, {T0: (1, 3), U0: (2,)}
    made = {(change.resource_type, change.resource, change.name) for change in throttle_settings(before, targets, 1)}
    removed = throttle_removal(["t", "u"], [1, 2, 3])
    assert {(change.resource_type, change.resource, change.name) for change in removed} >= made
    assert {change.value for change in removed} == {None}
    assert {change.resource_type for change in removed} == {TOPIC_RESOURCE, BROKER_RESOURCE}
