"""How the cluster state advances: visibility of topics, identity of what did not change, bad values, deletions."""

from dataclasses import replace
from uuid import UUID

import pytest

from ottla_core.acls import PatternType, Permission, ResourceKind
from ottla_core.cluster.etcd.key_value import KeyDeletion, KeyValue
from ottla_core.cluster.state import codec, state_tracker
from ottla_core.cluster.state.codec import TopicRecord
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import (
    BrokerRegistration,
    ClusterState,
    ControllerLeader,
    Member,
    PartitionState,
    Recovery,
    Role,
    Shard,
)
from ottla_core.cluster.state.security import SecurityState
from ottla_core.cluster.state.security_codec import encode_acl
from ottla_core.cluster.state.state_tracker import ClusterReplaced, StateTracker
from ottla_core.shards import GROUP_TOPIC
from ottla_core.topic_partition import TopicPartition

SPACE = KeySpace("test")
A, B, ACL = UUID(int=1), UUID(int=2), UUID(int=3)


def entry(key: str, value: bytes, revision: int) -> KeyValue:
    return KeyValue(key=key, value=value, create_revision=revision, mod_revision=revision)


def topic(name: str, topic_id: UUID, count: int, revision: int = 1, **configs: str) -> KeyValue:
    record = TopicRecord(id=topic_id, partition_count=count, configs=configs)
    return entry(SPACE.topic(name), codec.encode_topic(record), revision)


def partition(topic_id: UUID, index: int, revision: int = 1, leader: int = 1) -> KeyValue:
    state = PartitionState(topic_id=topic_id, index=index, replicas=(1, 2), isr=(1, 2), leader=leader, leader_epoch=0)
    return entry(SPACE.partition(topic_id, index), codec.encode_partition(state), revision)


def partition_gone(topic_id: UUID, index: int) -> KeyDeletion:
    return KeyDeletion(key=SPACE.partition(topic_id, index), mod_revision=9)


def topic_gone(name: str) -> KeyDeletion:
    return KeyDeletion(key=SPACE.topic(name), mod_revision=9)


def member(role: Role, member_id: int, revision: int) -> KeyValue:
    value = codec.encode_member(
        Member(role=role, id=member_id, epoch=0, incarnation=UUID(int=5), rpc_address="h:1", version="1")
    )
    return entry(SPACE.member(role, member_id), value, revision)


def shard(index: int, revision: int = 1, coordinator: int = 1, topic: str = GROUP_TOPIC) -> KeyValue:
    value = Shard(
        topic_partition=TopicPartition(topic, index),
        coordinator=coordinator,
        coordinator_epoch=3,
        producer_id=index,
        producer_epoch=0,
    )
    return entry(SPACE.shard(topic, index), codec.encode_shard(value), revision)


def registration(broker_id: int, revision: int = 1, broker_epoch: int = 3) -> KeyValue:
    value = BrokerRegistration(broker_id=broker_id, broker_epoch=broker_epoch)
    return entry(SPACE.registration(broker_id), codec.encode_registration(value), revision)


@pytest.fixture
def tracker() -> StateTracker:
    """A tracker that knows topic `a` with two partitions and topic `b` with one."""
    tracker = StateTracker(SPACE)
    tracker.advance(
        [
            *(partition(A, 0), partition(A, 1), topic("a", A, 2)),
            *(partition(B, 0), topic("b", B, 1), member(Role.BROKER, 1, 3)),
        ],
        revision=5,
    )
    return tracker


def test_a_listing_becomes_a_state(tracker: StateTracker) -> None:
    state = tracker.state
    assert state.revision == 5
    assert set(state.topics) == {"a", "b"}
    assert state.topics_by_id[A] is state.topics["a"]
    assert [p.index for p in state.topics["a"].partitions] == [0, 1]
    assert state.brokers[1].epoch == 3


def test_a_topic_is_invisible_until_its_record_is_there() -> None:
    tracker = StateTracker(SPACE)
    tracker.advance([partition(A, 0), partition(A, 1)], 1)
    assert tracker.state.topics == {}
    tracker.advance([topic("a", A, 2)], 2)
    assert len(tracker.state.topics["a"].partitions) == 2


def test_a_topic_is_invisible_while_a_partition_is_missing(tracker: StateTracker) -> None:
    tracker.advance([topic("c", UUID(int=3), 1, revision=6)], 6)
    assert "c" not in tracker.state.topics
    tracker.advance([partition_gone(A, 1)], 7)
    assert "a" not in tracker.state.topics
    assert A not in tracker.state.topics_by_id
    tracker.advance([partition(A, 1, 8)], 8)
    assert "a" in tracker.state.topics


def test_partitions_beyond_the_count_wait_for_the_record(tracker: StateTracker) -> None:
    before = tracker.state.topics["a"]
    tracker.advance([partition(A, 2, 6), partition(A, 3, 6)], 6)
    assert tracker.state.topics["a"] is before
    tracker.advance([topic("a", A, 4, 7)], 7)
    assert [p.index for p in tracker.state.topics["a"].partitions] == [0, 1, 2, 3]


def test_what_did_not_change_keeps_its_identity(tracker: StateTracker) -> None:
    before = tracker.state
    tracker.advance([partition(A, 1, 6, leader=2)], 6)
    after = tracker.state
    assert after.topics["b"] is before.topics["b"]
    assert after.topics["a"].partitions[0] is before.topics["a"].partitions[0]
    assert after.topics["a"].partitions[1].leader == 2
    assert after.brokers is before.brokers
    assert before.topics["a"].partitions[1].leader == 1, "an older snapshot never changes"


def test_a_deleted_topic_goes_with_its_record_and_leaves_orphans_until_they_are_deleted(
    tracker: StateTracker,
) -> None:
    tracker.advance([topic_gone("a")], 6)
    assert set(tracker.state.topics) == {"b"}
    assert {(p.topic_id, p.index) for p in tracker.orphans()} == {(A, 0), (A, 1)}
    tracker.advance([partition_gone(A, 0), partition_gone(A, 1)], 7)
    assert tracker.orphans() == []


def test_partitions_beyond_the_count_are_orphans(tracker: StateTracker) -> None:
    tracker.advance([partition(B, 1, 6)], 6)
    assert [(p.topic_id, p.index, p.partition_epoch) for p in tracker.orphans()] == [(B, 1, 6)]


def test_a_topic_deleted_and_created_anew_in_one_batch_has_its_new_id(tracker: StateTracker) -> None:
    new_id = UUID(int=8)
    tracker.advance([topic_gone("a"), partition(new_id, 0, 6), topic("a", new_id, 1, 6)], 6)
    assert tracker.state.topics["a"].id == new_id
    assert A not in tracker.state.topics_by_id


def test_changed_configs_make_a_new_topic_with_the_same_partitions(tracker: StateTracker) -> None:
    before = tracker.state.topics["a"]
    tracker.advance([topic("a", A, 2, 6, **{"retention.ms": "1"})], 6)
    after = tracker.state.topics["a"]
    assert after.configs == {"retention.ms": "1"}
    assert after.mod_revision == 6
    assert after.partitions == before.partitions


def test_members_the_leader_settings_and_the_cluster_id_come_and_go(tracker: StateTracker) -> None:
    tracker.advance(
        [
            member(Role.CONTROLLER, 1, 6),
            member(Role.GROUP_COORDINATOR, 1, 6),
            entry(SPACE.controller, codec.encode_controller(1, "h:1"), 6),
            entry(SPACE.cluster_id, codec.encode_cluster_id("x"), 6),
            entry(SPACE.broker_config(None), codec.encode_config({"a": "1"}), 6),
            entry(SPACE.broker_config(1), codec.encode_config({"a": "2"}), 6),
            entry(SPACE.group_config("g"), codec.encode_config({"a": "3"}), 6),
            entry(SPACE.client_metrics_config("s"), codec.encode_config({"a": "4"}), 6),
        ],
        6,
    )
    state = tracker.state
    assert set(state.controllers) == {1}
    assert state.coordinators[1].epoch == 6
    assert state.controller == ControllerLeader(id=1, epoch=6, rpc_address="h:1")
    assert state.cluster_id == "x"
    assert state.broker_configs == {None: {"a": "1"}, 1: {"a": "2"}}
    assert (state.group_configs, state.client_metrics_configs) == ({"g": {"a": "3"}}, {"s": {"a": "4"}})
    members_gone = (SPACE.member(Role.CONTROLLER, 1), SPACE.member(Role.GROUP_COORDINATOR, 1))
    settings = (SPACE.broker_config(1), SPACE.group_config("g"), SPACE.client_metrics_config("s"))
    gone = (SPACE.controller, *members_gone, *settings)
    tracker.advance([KeyDeletion(key=key, mod_revision=7) for key in gone], 7)
    state = tracker.state
    assert (set(state.brokers), state.coordinators) == ({1}, {})
    assert (state.controller, state.controllers, state.broker_configs) == (None, {}, {None: {"a": "1"}})
    assert (state.group_configs, state.client_metrics_configs) == ({}, {})


def test_a_bad_value_is_reported_and_leaves_what_was_known(tracker: StateTracker) -> None:
    before = tracker.state.topics["a"]
    bad_values = tracker.advance([entry(SPACE.partition(A, 0), b"{", 6), member(Role.BROKER, 2, 6)], 6)
    assert len(bad_values) == 1
    assert tracker.state.topics["a"] is before
    assert set(tracker.state.brokers) == {1, 2}


def test_listing_again_forgets_what_is_gone_and_keeps_the_identity_of_what_is_equal(
    tracker: StateTracker,
) -> None:
    before = tracker.state
    tracker.reload([partition(B, 0), topic("b", B, 1), member(Role.BROKER, 1, 3)], 20)
    assert set(tracker.state.topics) == {"b"}
    assert tracker.state.topics["b"] is before.topics["b"]
    assert tracker.state.topics_by_id[B] is before.topics["b"]
    assert tracker.state.brokers is before.brokers
    assert tracker.state.revision == 20
    assert tracker.orphans() == []


def test_a_listing_and_the_changes_that_led_to_it_give_the_same_state(tracker: StateTracker) -> None:
    changes = [
        [partition(A, 2, 6), topic("a", A, 3, 6)],
        [partition(A, 0, 7, leader=2)],
        [topic_gone("b")],
        [partition_gone(B, 0)],
    ]
    for revision, batch in enumerate(changes, start=6):
        tracker.advance(batch, revision)
    listed = StateTracker(SPACE)
    listed.reload(
        [
            *(partition(A, 0, 7, leader=2), partition(A, 1), partition(A, 2, 6), topic("a", A, 3, 6)),
            member(Role.BROKER, 1, 3),
        ],
        9,
    )
    assert tracker.state == listed.state


def test_a_fresh_tracker_publishes_the_empty_state() -> None:
    tracker = StateTracker(SPACE)
    tracker.reload([], 3)
    assert tracker.state == replace(ClusterState(), revision=3)


# Deletions that were seen, and topics that are merely missing


def test_a_deletion_that_was_seen_is_named_with_its_revision(tracker: StateTracker) -> None:
    tracker.advance([topic_gone("a")], 9)
    assert tracker.state.deleted_topics == {A: 9}
    tracker.reload([], 20)
    assert tracker.state.deleted_topics == {A: 9}, "what was seen stays seen"
    assert B not in tracker.state.topics_by_id


def test_a_topic_missing_from_a_new_listing_is_not_a_deleted_one(tracker: StateTracker) -> None:
    tracker.reload([partition(B, 0), topic("b", B, 1)], 20)
    assert A not in tracker.state.topics_by_id
    assert tracker.state.deleted_topics == {}


def test_a_topic_replaced_while_nobody_looked_is_not_a_deleted_one(tracker: StateTracker) -> None:
    new_id = UUID(int=8)
    tracker.reload([partition(new_id, 0, 9), topic("a", new_id, 1, 9)], 20)
    assert tracker.state.topics["a"].id == new_id
    assert tracker.state.deleted_topics == {}


def test_a_topic_that_lost_a_partitions_key_or_whose_record_was_overwritten_is_not_a_deleted_one(
    tracker: StateTracker,
) -> None:
    tracker.advance([partition_gone(A, 1), topic("b", UUID(int=8), 1, 9)], 9)
    assert tracker.state.topics == {}
    assert tracker.state.deleted_topics == {}


def test_a_topic_deleted_and_created_anew_is_a_deleted_one_by_its_former_id(tracker: StateTracker) -> None:
    new_id = UUID(int=8)
    tracker.advance([topic_gone("a"), partition(new_id, 0, 9), topic("a", new_id, 1, 9)], 9)
    assert tracker.state.deleted_topics == {A: 9}


def test_a_topic_put_back_by_hand_is_not_a_deleted_one_any_more(tracker: StateTracker) -> None:
    tracker.advance([topic_gone("a")], 9)
    tracker.advance([topic("a", A, 2, 10)], 10)
    assert tracker.state.deleted_topics == {}
    tracker.reload([], 20)
    assert tracker.state.deleted_topics == {}


def test_a_topic_that_is_stored_and_cannot_be_shown_is_named_as_incomplete(tracker: StateTracker) -> None:
    assert tracker.state.incomplete_topics == frozenset()
    tracker.advance([partition_gone(A, 1)], 6)
    assert (tracker.state.incomplete_topics, set(tracker.state.topics)) == ({"a"}, {"b"})
    tracker.advance([partition(A, 1, 7)], 7)
    assert tracker.state.incomplete_topics == frozenset()
    tracker.advance([partition_gone(A, 1)], 8)
    tracker.advance([topic_gone("a")], 9)
    assert tracker.state.incomplete_topics == frozenset()


def test_a_first_listing_names_the_topics_of_which_it_has_only_a_part_or_cannot_read_one() -> None:
    listed = StateTracker(SPACE)
    entries = [
        *(topic("part", A, 2), partition(A, 0)),
        *(topic("odd", B, 1), entry(SPACE.partition(B, 0), b"{", 3)),
        entry(SPACE.topic("unreadable"), b"{", 3),
    ]
    listed.reload(entries, 5)
    assert listed.state.incomplete_topics == {"part", "odd", "unreadable"}
    listed.reload([*entries[1:], partition(A, 0), partition(A, 1), topic("part", A, 2)], 6)
    assert listed.state.incomplete_topics == {"odd", "unreadable"}
    listed.advance([topic_gone("unreadable"), topic_gone("odd")], 7)
    assert listed.state.incomplete_topics == frozenset()


def test_a_known_topic_whose_record_can_no_longer_be_read_is_not_incomplete(tracker: StateTracker) -> None:
    tracker.advance([entry(SPACE.topic("a"), b"{", 6)], 6)
    assert tracker.state.incomplete_topics == frozenset()
    tracker.advance([partition_gone(A, 0)], 7)
    assert tracker.state.incomplete_topics == {"a"}


def test_only_the_latest_deletions_are_remembered(tracker: StateTracker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_tracker, "DELETIONS_REMEMBERED_MAX", 1)
    tracker.advance([topic_gone("a")], 9)
    tracker.advance([topic_gone("b")], 10)
    assert set(tracker.state.deleted_topics) == {B}


# What a new listing must not take away


def test_what_a_listing_cannot_read_stays_as_it_was(tracker: StateTracker) -> None:
    tracker.advance(
        [
            member(Role.CONTROLLER, 2, 6),
            member(Role.GROUP_COORDINATOR, 2, 6),
            shard(0, 6),
            entry(SPACE.controller, codec.encode_controller(2, "h:1"), 6),
            entry(SPACE.cluster_id, codec.encode_cluster_id("x"), 6),
            entry(SPACE.broker_config(1), codec.encode_config({"a": "2"}), 6),
        ],
        6,
    )
    before = tracker.state
    unreadable = (
        *(SPACE.topic("a"), SPACE.partition(B, 0), SPACE.member(Role.BROKER, 1), SPACE.member(Role.CONTROLLER, 2)),
        *(SPACE.controller, SPACE.cluster_id, SPACE.broker_config(1)),
        *(SPACE.member(Role.GROUP_COORDINATOR, 2), SPACE.shard(GROUP_TOPIC, 0)),
    )
    bad_values = tracker.reload(
        [*(entry(key, b"{", 7) for key in unreadable), partition(A, 0), partition(A, 1), topic("b", B, 1)], 7
    )
    assert len(bad_values) == len(unreadable)
    assert tracker.state == replace(before, revision=7)
    assert tracker.state.topics is before.topics
    assert tracker.state.shards is before.shards
    assert tracker.orphans() == []
    tracker.advance([topic_gone("a")], 8)
    assert A in tracker.state.deleted_topics


def denials(tracker: StateTracker) -> set[tuple[ResourceKind, PatternType, str]]:
    """What everybody is denied, all operations from every address."""
    found = tracker.state.security.acls.values()
    assert all((each.principal, each.host, each.operation) == ("User:*", "*", None) for each in found)
    assert all(each.permission is Permission.DENY for each in found)
    return {(each.kind, each.pattern, each.name) for each in found}


EVERYTHING = {(kind, PatternType.LITERAL, "*") for kind in ResourceKind}
OF_ORDERS = (ResourceKind.TOPIC, PatternType.PREFIXED, "orders-")


@pytest.mark.parametrize(
    ("value", "denied"),
    [
        (b"{", EVERYTHING),
        (b'{"kind": 99, "pattern": 3, "name": "orders"}', EVERYTHING),
        (b'{"kind": 2, "pattern": 4, "name": "orders-", "operation": 99}', {OF_ORDERS}),
    ],
)
def test_what_a_list_may_deny_that_cannot_be_read_is_denied(
    value: bytes, denied: set[tuple[ResourceKind, PatternType, str]]
) -> None:
    tracker, key = StateTracker(SPACE), SPACE.acl(ACL)
    assert len(tracker.reload([entry(key, value, 5)], 5)) == 1
    assert denials(tracker) == denied
    assert ACL in tracker.state.security.acls, "whoever deletes a denial deletes what cannot be read"
    before = tracker.state.security
    tracker.reload([entry(key, value, 5)], 6)
    assert tracker.state.security is before
    tracker.advance([KeyDeletion(key=key, mod_revision=7)], 7)
    assert tracker.state.security == SecurityState()


def test_a_list_that_cannot_be_read_comes_to_hold_when_it_can_and_holds_on_when_it_no_longer_can() -> None:
    tracker, key = StateTracker(SPACE), SPACE.acl(ACL)
    tracker.advance([entry(key, b"{", 5)], 5)
    assert denials(tracker) == EVERYTHING
    binding = replace(next(iter(tracker.state.security.acls.values())), principal="User:ann")
    tracker.advance([entry(key, encode_acl(binding), 6)], 6)
    assert tracker.state.security == SecurityState(acls={ACL: binding})
    tracker.advance([entry(key, b"{", 7)], 7)
    tracker.reload([entry(key, b"{", 7)], 8)
    assert tracker.state.security == SecurityState(acls={ACL: binding})


def test_an_unreadable_value_of_an_unknown_topic_makes_no_topic(tracker: StateTracker) -> None:
    bad_values = tracker.reload(
        [entry(SPACE.topic("new"), b"{", 7), entry(SPACE.partition(UUID(int=9), 0), b"", 7)], 7
    )
    assert len(bad_values) == 2
    assert tracker.state.topics == {}


def test_no_partition_is_an_orphan_while_a_topic_cannot_be_read() -> None:
    """A controller that starts then would remove the partitions of the topic, which is as good as deleting it."""
    tracker = StateTracker(SPACE)
    tracker.reload([partition(A, 0), entry(SPACE.topic("a"), b"{", 3)], 5)
    assert tracker.orphans() == []
    tracker.advance([topic("a", A, 1, 6)], 6)
    assert tracker.orphans() == []
    tracker.advance([entry(SPACE.topic("a"), b"{", 7), partition(A, 1, 7)], 7)
    assert tracker.orphans() == []
    tracker.advance([topic_gone("a")], 8)
    assert {p.index for p in tracker.orphans()} == {0, 1}


def test_a_topic_put_back_by_hand_while_nobody_looked_is_not_a_deleted_one_any_more(tracker: StateTracker) -> None:
    tracker.advance([topic_gone("a")], 9)
    tracker.reload([topic("a", A, 2, 10), partition(A, 0), partition(A, 1)], 20)
    assert tracker.state.deleted_topics == {}


# Shards

FIRST, SECOND = (TopicPartition(GROUP_TOPIC, index) for index in range(2))


def test_shards_come_change_and_go_and_keep_the_identity_of_the_others(tracker: StateTracker) -> None:
    tracker.advance([shard(0, 6), shard(1, 6)], 6)
    before = tracker.state
    tracker.advance([shard(1, 7, coordinator=2)], 7)
    after = tracker.state
    assert after.shards[FIRST] is before.shards[FIRST]
    assert (after.shards[SECOND].coordinator, after.shards[SECOND].revision) == (2, 7)
    assert after.topics is before.topics
    assert before.shards[SECOND].coordinator == 1, "an older snapshot never changes"
    tracker.advance([partition(A, 0, 8)], 8)
    assert tracker.state.shards is after.shards
    tracker.advance([KeyDeletion(key=SPACE.shard(GROUP_TOPIC, 0), mod_revision=9)], 9)
    assert set(tracker.state.shards) == {SECOND}


def test_listing_again_keeps_the_identity_of_equal_shards_and_forgets_those_that_are_gone(
    tracker: StateTracker,
) -> None:
    tracker.advance([shard(0, 6), shard(1, 6), member(Role.GROUP_COORDINATOR, 1, 6)], 6)
    before = tracker.state
    tracker.reload([shard(0, 6), shard(1, 6), member(Role.GROUP_COORDINATOR, 1, 6)], 7)
    assert tracker.state.shards is before.shards
    assert tracker.state.coordinators is before.coordinators
    tracker.reload([shard(1, 6)], 8)
    assert set(tracker.state.shards) == {SECOND}
    assert tracker.state.shards[SECOND] is before.shards[SECOND]
    assert tracker.state.coordinators == {}


def test_registrations_come_change_and_go_and_keep_their_identity(tracker: StateTracker) -> None:
    tracker.advance([registration(1, 6), registration(2, 6)], 6)
    first = tracker.state.registrations
    tracker.advance([registration(2, 7, broker_epoch=7)], 7)
    assert tracker.state.registrations[1] is first[1]
    assert (tracker.state.registrations[2].broker_epoch, tracker.state.registrations[2].revision) == (7, 7)
    before = tracker.state.registrations
    tracker.reload([registration(1, 6), registration(2, 7, broker_epoch=7)], 8)
    assert tracker.state.registrations is before
    unreadable = entry(SPACE.registration(1), b"{", 9)
    assert len(tracker.reload([unreadable, registration(2, 7, broker_epoch=7)], 9)) == 1
    assert tracker.state.registrations == before
    tracker.advance([KeyDeletion(key=SPACE.registration(1), mod_revision=10)], 10)
    assert set(tracker.state.registrations) == {2}


def test_shards_of_other_topics_are_left_to_later_versions(tracker: StateTracker) -> None:
    other = entry(SPACE.shard("__share_group_state", 0), b"in a format to come", 6)
    assert tracker.advance([other], 6) == []
    assert tracker.reload([other], 7) == []
    assert tracker.state.shards == {}


def test_shards_that_their_topic_does_not_count_are_orphans(tracker: StateTracker) -> None:
    tracker.advance(
        [shard(0, 6), shard(1, 6), partition(UUID(int=7), 0, 6), topic(GROUP_TOPIC, UUID(int=7), 1, 6)], 6
    )
    assert [each.topic_partition.partition for each in tracker.orphan_shards()] == [1]
    tracker.advance([topic_gone(GROUP_TOPIC)], 9)
    assert [each.topic_partition.partition for each in tracker.orphan_shards()] == [0, 1]


def test_no_shard_is_an_orphan_while_the_topic_is_incomplete_or_cannot_be_read(tracker: StateTracker) -> None:
    tracker.advance([shard(0, 6), topic(GROUP_TOPIC, UUID(int=7), 1, 6)], 6)
    assert GROUP_TOPIC not in tracker.state.topics
    assert tracker.orphan_shards() == []
    fresh = StateTracker(SPACE)
    fresh.reload([shard(0, 6), entry(SPACE.topic(GROUP_TOPIC), b"{", 6)], 6)
    assert fresh.orphan_shards() == []


def test_shards_of_two_topics_are_apart_and_orphans_by_their_own_topic(
    tracker: StateTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_tracker, "SHARDED_TOPICS", (GROUP_TOPIC, "__other"))
    tracker.advance(
        [
            *(shard(0, 6), shard(1, 6), shard(0, 6, coordinator=2, topic="__other")),
            *(topic(GROUP_TOPIC, UUID(int=7), 1, 6), entry(SPACE.topic("__other"), b"{", 6)),
        ],
        6,
    )
    other = TopicPartition("__other", 0)
    assert {name: each.coordinator for name, each in tracker.state.shards.items()} == {FIRST: 1, SECOND: 1, other: 2}
    assert [each.topic_partition for each in tracker.orphan_shards()] == [SECOND], "the other topic cannot be read"
    tracker.advance([topic_gone("__other")], 7)
    assert [each.topic_partition for each in tracker.orphan_shards()] == [SECOND, other]
    before = tracker.state
    tracker.reload([entry(SPACE.shard("__other", 0), b"{", 8), topic(GROUP_TOPIC, UUID(int=7), 1, 6)], 8)
    assert tracker.state.shards == {other: before.shards[other]}, "what cannot be read stays as it was"


# Another cluster


@pytest.fixture
def identified(tracker: StateTracker) -> StateTracker:
    """A tracker that knows the id of its cluster."""
    tracker.advance([entry(SPACE.cluster_id, codec.encode_cluster_id("x"), 6)], 6)
    return tracker


@pytest.mark.parametrize(
    "change",
    [KeyDeletion(key=SPACE.cluster_id, mod_revision=7), entry(SPACE.cluster_id, codec.encode_cluster_id("y"), 7)],
)
def test_nothing_is_applied_when_the_cluster_id_goes_or_changes(identified: StateTracker, change: KeyValue) -> None:
    before = identified.state
    with pytest.raises(ClusterReplaced, match="belongs to the cluster x"):
        identified.advance([topic_gone("a"), change, partition_gone(B, 0)], 7)
    assert identified.state is before
    assert identified.orphans() == []


@pytest.mark.parametrize("known", [0, 5])
def test_a_listing_of_the_same_cluster_after_another_recovery_is_refused(known: int) -> None:
    """Its etcd has come further than the one that was followed, so the revision says nothing."""

    def listing(number: int, revision: int) -> list[KeyValue]:
        found = [entry(SPACE.cluster_id, codec.encode_cluster_id("x"), revision)]
        if number:
            found.append(entry(SPACE.recovery, codec.encode_recovery(Recovery(number=number)), revision))
        return found

    tracker = StateTracker(SPACE)
    tracker.reload(listing(known, 6), 6)
    tracker.reload(listing(known, 7), 7)
    with pytest.raises(ClusterReplaced, match="recovery 9"):
        tracker.reload(listing(9, 20), 20)


def test_a_tracker_that_expects_a_cluster_takes_no_other() -> None:
    with pytest.raises(ClusterReplaced, match="belongs to the cluster ours"):
        StateTracker(SPACE, "ours").reload([entry(SPACE.cluster_id, codec.encode_cluster_id("x"), 6)], 6)


@pytest.mark.parametrize(
    ("entries", "revision"),
    [
        ([], 20),
        ([entry(SPACE.cluster_id, codec.encode_cluster_id("y"), 1)], 20),
        ([entry(SPACE.cluster_id, codec.encode_cluster_id("x"), 1)], 5),
    ],
)
def test_a_listing_of_another_cluster_or_of_an_earlier_revision_is_refused(
    identified: StateTracker, entries: list[KeyValue], revision: int
) -> None:
    before = identified.state
    with pytest.raises(ClusterReplaced, match="restored or emptied"):
        identified.reload(entries, revision)
    assert identified.state is before


def test_a_cluster_id_that_was_not_known_yet_is_taken(tracker: StateTracker) -> None:
    tracker.reload([entry(SPACE.cluster_id, codec.encode_cluster_id("x"), 6)], 6)
    assert tracker.state.cluster_id == "x"
