"""Creating, deleting and growing topics: who gets what, and every refusal."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_controller import topics
from ottla_controller.leader_election import first_state
from ottla_controller.topics import PARTITIONS_PER_REQUEST_MAX, CreationPlan, DeletionPlan, GrowthPlan, TopicDefaults
from ottla_core.cluster.controller_rpc.controller_api import (
    NewPartitions,
    NewTopic,
    PartitionAssignment,
    TopicReference,
)
from ottla_core.cluster.state.model import ClusterState, Member, Role, Topic
from ottla_core.errors import PolicyViolation
from ottla_core.shards import GROUP_TOPIC
from tests.support.controller.new_topics import new_topic

BROKERS = {
    broker_id: Member(
        role=Role.BROKER,
        id=broker_id,
        epoch=broker_id * 10,
        incarnation=UUID(int=1),
        rpc_address="h:1",
        version="1",
    )
    for broker_id in (1, 2, 3)
}
DEFAULTS = TopicDefaults(partition_count=4, replication_factor=2)
EXISTING_ID = UUID(int=99)
EXISTING = Topic(
    name="my.topic",
    id=EXISTING_ID,
    partitions=tuple(first_state(EXISTING_ID, index, (1, 2), BROKERS) for index in range(2)),
    mod_revision=7,
)
STATE = ClusterState(
    revision=50, brokers=BROKERS, topics={"my.topic": EXISTING}, topics_by_id={EXISTING_ID: EXISTING}
)


def plan_creations(requested: Sequence[NewTopic], state: ClusterState, defaults: TopicDefaults) -> list[CreationPlan]:
    return list(topics.plan_creations(requested, state, defaults))


def plan_deletions(requested: Sequence[TopicReference], state: ClusterState) -> list[DeletionPlan]:
    return list(topics.plan_deletions(requested, state))


def plan_growths(requested: Sequence[NewPartitions], state: ClusterState) -> list[GrowthPlan]:
    return list(topics.plan_growths(requested, state))


def assigned(*replicas: tuple[int, ...], first: int = 0) -> tuple[PartitionAssignment, ...]:
    return tuple(
        PartitionAssignment(index=index, broker_ids=broker_ids)
        for index, broker_ids in enumerate(replicas, start=first)
    )


def created(new: NewTopic, state: ClusterState = STATE) -> Topic:
    (plan,) = plan_creations([new], state, DEFAULTS)
    assert plan.result.error_code is ErrorCode.none, plan.result.error_message
    assert plan.topic is not None
    assert plan.result.topic_id == plan.topic.id == new.topic_id
    assert plan.result.partition_count == len(plan.topic.partitions)
    return plan.topic


def test_a_topic_gets_what_it_asks_for() -> None:
    topic = created(new_topic(name="a", partition_count=6, replication_factor=3, configs={"retention.ms": "1"}))
    assert len(topic.partitions) == 6
    assert all(sorted(p.replicas) == [1, 2, 3] for p in topic.partitions)
    assert all(p.isr == p.replicas for p in topic.partitions)
    assert all(p.leader == p.replicas[0] and p.leader_epoch == 0 for p in topic.partitions)
    assert all(p.leader_broker_epoch == p.leader * 10 for p in topic.partitions)
    assert topic.configs == {"retention.ms": "1"}


def test_a_topic_that_does_not_say_gets_the_defaults() -> None:
    topic = created(new_topic(name="a"))
    assert len(topic.partitions) == 4
    assert all(len(p.replicas) == 2 for p in topic.partitions)


def test_an_explicit_assignment_is_kept_in_order() -> None:
    topic = created(new_topic(name="a", assignments=(*assigned((2, 1), first=1), *assigned((3, 1)))))
    assert [p.replicas for p in topic.partitions] == [(3, 1), (2, 1)]
    assert [p.leader for p in topic.partitions] == [3, 2]


@pytest.mark.parametrize(
    ("request_", "code", "named"),
    [
        ({"name": ""}, ErrorCode.invalid_topic_exception, "empty"),
        ({"name": ".."}, ErrorCode.invalid_topic_exception, "not allowed"),
        ({"name": "a/b"}, ErrorCode.invalid_topic_exception, "a/b"),
        ({"name": "x" * 250}, ErrorCode.invalid_topic_exception, "249"),
        ({"name": "my.topic"}, ErrorCode.topic_already_exists, "already exists"),
        ({"name": "my_topic"}, ErrorCode.invalid_topic_exception, "collides with existing topic: my.topic"),
        ({"partition_count": 0}, ErrorCode.invalid_partitions, "larger than 0"),
        ({"partition_count": -2}, ErrorCode.invalid_partitions, "larger than 0"),
        ({"replication_factor": 0}, ErrorCode.invalid_replication_factor, "larger than 0"),
        ({"replication_factor": 4}, ErrorCode.invalid_replication_factor, "larger than available brokers: 3"),
        ({"configs": {"no.such": "1"}}, ErrorCode.invalid_config, "no.such"),
        ({"configs": {"retention.ms": "soon"}}, ErrorCode.invalid_config, "retention.ms"),
        ({"configs": {"retention.ms": None}}, ErrorCode.invalid_config, "Null value.*retention.ms"),
        ({"assignments": assigned((1,)), "partition_count": 1}, ErrorCode.invalid_request, "-1"),
        ({"assignments": assigned((1,)), "replication_factor": 1}, ErrorCode.invalid_request, "-1"),
        ({"assignments": assigned((1,)) * 2}, ErrorCode.invalid_replica_assignment, "more than one"),
        ({"assignments": assigned((1,), first=1)}, ErrorCode.invalid_replica_assignment, "gaps"),
        ({"assignments": assigned((1,), (1, 2))}, ErrorCode.invalid_replica_assignment, "2 replica"),
        ({"assignments": assigned((9,))}, ErrorCode.invalid_replica_assignment, "broker 9"),
    ],
)
def test_a_bad_creation_is_refused(request_: dict[str, Any], code: ErrorCode, named: str) -> None:
    (plan,) = plan_creations([new_topic(**({"name": "a"} | request_))], STATE, DEFAULTS)
    assert plan.topic is None
    assert plan.result.error_code is code
    assert plan.result.error_message is not None
    assert re.search(named, plan.result.error_message), plan.result.error_message


def test_a_topics_settings_are_checked_against_the_brokers_dynamic_ones() -> None:
    state = replace(STATE, broker_configs={None: {"log.cleaner.max.compaction.lag.ms": "100"}})
    (plan,) = plan_creations([new_topic(name="a", configs={"min.compaction.lag.ms": "101"})], state, DEFAULTS)
    assert plan.result.error_code is ErrorCode.invalid_config
    assert "min.compaction.lag.ms (101) > max.compaction.lag.ms (100)" in (plan.result.error_message or "")
    created(new_topic(name="a", configs={"min.compaction.lag.ms": "100"}), state)


def test_one_bad_topic_does_not_spoil_the_others() -> None:
    plans = plan_creations([new_topic(name="a"), new_topic(name="!"), new_topic(name="b")], STATE, DEFAULTS)
    assert [plan.topic is not None for plan in plans] == [True, False, True]


def test_a_name_that_appears_twice_is_refused_both_times() -> None:
    plans = plan_creations([new_topic(name="a"), new_topic(name="a")], STATE, DEFAULTS)
    assert [plan.result.error_code for plan in plans] == [ErrorCode.invalid_request] * 2


def test_topics_of_one_request_collide_too() -> None:
    plans = plan_creations([new_topic(name="a.b"), new_topic(name="a_b")], STATE, DEFAULTS)
    assert [plan.result.error_code for plan in plans] == [
        ErrorCode.none,
        ErrorCode.invalid_topic_exception,
    ]


def test_a_creation_that_is_repeated_with_its_topic_id_succeeds_without_a_second_topic() -> None:
    (plan,) = plan_creations([NewTopic(name="my.topic", topic_id=EXISTING_ID)], STATE, DEFAULTS)
    assert plan.topic is None
    assert plan.result.error_code is ErrorCode.none
    assert (plan.result.topic_id, plan.result.partition_count) == (EXISTING_ID, 2)


def test_without_brokers_no_topic_is_created() -> None:
    (plan,) = plan_creations([new_topic(name="a")], replace(STATE, brokers={}), DEFAULTS)
    assert plan.result.error_code is ErrorCode.invalid_replication_factor


def test_deletions_by_name_and_by_id() -> None:
    for reference in (TopicReference(name="my.topic"), TopicReference(topic_id=EXISTING_ID)):
        (plan,) = plan_deletions([reference], STATE)
        assert plan.topic is EXISTING
        assert (plan.result.name, plan.result.topic_id) == ("my.topic", EXISTING_ID)


def test_deletions_of_what_is_not_there_and_of_the_same_twice() -> None:
    unknown_id = UUID(int=5)
    plans = plan_deletions(
        [
            TopicReference(name="nope"),
            TopicReference(topic_id=unknown_id),
            TopicReference(name="my.topic"),
            TopicReference(topic_id=EXISTING_ID),
        ],
        STATE,
    )
    assert [plan.result.error_code for plan in plans] == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.none,
        ErrorCode.invalid_request,
    ]
    assert (plans[1].result.name, plans[1].result.topic_id) == (None, unknown_id)


def test_a_topic_grows_by_placed_or_assigned_partitions() -> None:
    (placed,) = plan_growths([NewPartitions(topic="my.topic", total_count=5)], STATE)
    assert [p.index for p in placed.added] == [2, 3, 4]
    assert all(len(p.replicas) == 2 for p in placed.added)
    assert placed.topic is not None
    assert placed.topic.partitions[:2] == EXISTING.partitions
    assert placed.topic.mod_revision == 7

    (assigned_plan,) = plan_growths([NewPartitions(topic="my.topic", total_count=3, assignments=((3, 2),))], STATE)
    assert [(p.index, p.replicas, p.leader) for p in assigned_plan.added] == [(2, (3, 2), 3)]


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewPartitions(topic="nope", total_count=3), ErrorCode.unknown_topic_or_partition),
        (NewPartitions(topic="my.topic", total_count=2), ErrorCode.invalid_partitions),
        (NewPartitions(topic="my.topic", total_count=1), ErrorCode.invalid_partitions),
        (
            NewPartitions(topic="my.topic", total_count=4, assignments=((1, 2),)),
            ErrorCode.invalid_replica_assignment,
        ),
        (
            NewPartitions(topic="my.topic", total_count=3, assignments=((1,),)),
            ErrorCode.invalid_replica_assignment,
        ),
    ],
)
def test_a_bad_growth_is_refused(new: NewPartitions, code: ErrorCode) -> None:
    (plan,) = plan_growths([new], STATE)
    assert plan.topic is None
    assert plan.result.error_code is code


def test_the_topic_that_keeps_groups_does_not_grow() -> None:
    groups = replace(EXISTING, name=GROUP_TOPIC)
    state = replace(STATE, topics={GROUP_TOPIC: groups}, topics_by_id={EXISTING_ID: groups})
    (plan,) = plan_growths([NewPartitions(topic=GROUP_TOPIC, total_count=3)], state)
    assert plan.topic is None
    assert plan.result.error_code is ErrorCode.invalid_partitions


def test_a_creation_that_is_repeated_after_the_topic_was_deleted_brings_nothing_back() -> None:
    new = NewTopic(name="t", topic_id=UUID(int=5))
    deleted = replace(STATE, deleted_topics={new.topic_id: 40})
    (plan,) = plan_creations([new], deleted, DEFAULTS)
    assert plan.topic is None
    assert plan.result.error_code is ErrorCode.unknown_topic_id


def test_a_request_for_too_many_partitions_is_refused_before_any_is_placed() -> None:
    half = PARTITIONS_PER_REQUEST_MAX // 2
    with pytest.raises(PolicyViolation, match=f"at most {PARTITIONS_PER_REQUEST_MAX} partitions"):
        plan_creations([new_topic(name="a", partition_count=2_000_000_000)], STATE, DEFAULTS)
    with pytest.raises(PolicyViolation, match=f"asks for {2 * half + 1}"):
        plan_creations(
            [new_topic(name="a", partition_count=half), new_topic(name="b", partition_count=half + 1)],
            STATE,
            DEFAULTS,
        )
    with pytest.raises(PolicyViolation):
        plan_growths([NewPartitions(topic="my.topic", total_count=PARTITIONS_PER_REQUEST_MAX + 3)], STATE)
    with pytest.raises(PolicyViolation):
        plan_deletions([TopicReference(name="my.topic")] * (PARTITIONS_PER_REQUEST_MAX + 1), STATE)


def test_topics_that_will_be_refused_count_too() -> None:
    nameless = [new_topic(name="", partition_count=-7)] * (PARTITIONS_PER_REQUEST_MAX + 1)
    with pytest.raises(PolicyViolation):
        plan_creations(nameless, STATE, DEFAULTS)


def test_a_cluster_grows_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla_controller.topics.PARTITIONS_PER_CLUSTER_MAX", 5)
    assert created(new_topic(name="a", partition_count=3)).name == "a"
    with pytest.raises(PolicyViolation, match="at most 5 partitions; this one has 2, and 4 more"):
        plan_creations([new_topic(name="a", partition_count=4)], STATE, DEFAULTS)


def test_new_topics_of_one_request_must_not_collide_either() -> None:
    plans = plan_creations([new_topic(name="a_b"), new_topic(name="a.b"), new_topic(name="a-b")], STATE, DEFAULTS)
    assert [plan.result.error_code for plan in plans] == [
        ErrorCode.none,
        ErrorCode.invalid_topic_exception,
        ErrorCode.none,
    ]
