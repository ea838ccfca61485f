"""Owners of shards, as a table: who is registered, who owned what, who shall."""

from dataclasses import replace
from uuid import UUID

import pytest

from ottla_controller.shard_assignment import (
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    needs_examination,
    reassigned_shards,
    sharded_topics,
    with_producer_ids,
)
from ottla_core.cluster.state.features import OTTLA_VERSION, TRANSACTION_LEVEL, FinalizedFeatures
from ottla_core.cluster.state.model import NO_COORDINATOR, NO_EPOCH, ClusterState, Member, Role, Shard, Topic
from ottla_core.shards import GROUP_TOPIC, TRANSACTION_TOPIC
from ottla_core.topic_partition import TopicPartition

OTHER_TOPIC = "__other"
FIRST, SECOND = (TopicPartition(GROUP_TOPIC, index) for index in range(2))


def live(*registrations: str) -> dict[int, Member]:
    """Registered coordinators as `id@epoch`."""
    coordinators = {}
    for registration in registrations:
        coordinator_id, epoch = map(int, registration.split("@"))
        coordinators[coordinator_id] = Member(
            role=Role.GROUP_COORDINATOR,
            id=coordinator_id,
            epoch=epoch,
            incarnation=UUID(int=1),
            rpc_address="h:1",
            version="1",
        )
    return coordinators


def owned(*owners: str, topic: str = GROUP_TOPIC) -> dict[TopicPartition, Shard]:
    """Shards from 0 on as `coordinator@epoch`, or `none`, each with a producer id of its own at epoch 5."""
    shards = {}
    for index, owner in enumerate(owners):
        coordinator, epoch = (NO_COORDINATOR, NO_EPOCH) if owner == "none" else map(int, owner.split("@"))
        shards[TopicPartition(topic, index)] = Shard(
            topic_partition=TopicPartition(topic, index),
            coordinator=coordinator,
            coordinator_epoch=epoch,
            producer_id=100 + index,
            producer_epoch=5,
            revision=70 + index,
        )
    return shards


def moves(present: dict[TopicPartition, Shard], coordinators: dict[int, Member]) -> dict[int, int]:
    """The new owner of each shard that changes."""
    changed = reassigned_shards(GROUP_TOPIC, len(present), present, coordinators)
    return {shard.topic_partition.partition: shard.coordinator for shard in changed}


def test_new_shards_take_turns_over_the_coordinators_and_need_producer_ids() -> None:
    shards = reassigned_shards(GROUP_TOPIC, 5, {}, live("1@10", "2@20"))
    assert [(shard.topic_partition.partition, shard.coordinator, shard.coordinator_epoch) for shard in shards] == [
        (0, 1, 10),
        (1, 2, 20),
        (2, 1, 10),
        (3, 2, 20),
        (4, 1, 10),
    ]
    assert {(shard.producer_id, shard.producer_epoch, shard.revision) for shard in shards} == {(NO_PRODUCER_ID, 0, 0)}


@pytest.mark.parametrize(
    ("owners", "coordinators", "expected"),
    [
        pytest.param(["1@10", "2@20"], ["1@10", "2@20"], {}, id="all is well"),
        pytest.param(["1@10", "1@10", "2@20"], ["1@10", "2@20"], {}, id="one more is balance enough"),
        pytest.param(["1@10", "2@20", "1@10"], ["2@20"], {0: 2, 2: 2}, id="an owner is gone"),
        pytest.param(["1@10", "1@10"], ["1@11"], {0: 1, 1: 1}, id="an owner is back under another epoch"),
        pytest.param(["1@10", "2@20"], ["1@11", "2@20"], {0: 1}, id="one of two is back under another epoch"),
        pytest.param(["1@10", "1@10", "1@10", "1@10"], ["1@10", "2@20"], {2: 2, 3: 2}, id="a coordinator joins"),
        pytest.param(["1@10", "1@10", "1@10"], ["1@10", "2@20"], {2: 2}, id="the larger share stays where it is"),
        pytest.param(["1@10"], ["1@10", "2@20"], {}, id="a coordinator joins to whom nothing is due"),
        pytest.param(["1@10", "2@20"], [], {0: -1, 1: -1}, id="all are gone"),
        pytest.param(["none", "none"], [], {}, id="all are gone still"),
        pytest.param(["none", "none"], ["2@20"], {0: 2, 1: 2}, id="the first one is back"),
        pytest.param(["1@10", "2@20", "3@30"], ["1@10", "3@30"], {1: 1}, id="of equals the lowest id takes over"),
        pytest.param(["1@9", "1@10", "1@10"], ["1@10", "2@20"], {0: 2}, id="what must be read again moves first"),
    ],
)
def test_shards_move_only_where_they_must(
    owners: list[str], coordinators: list[str], expected: dict[int, int]
) -> None:
    assert moves(owned(*owners), live(*coordinators)) == expected


def test_a_change_keeps_the_producer_id_raises_its_epoch_and_names_the_revision_it_replaces() -> None:
    (shard,) = reassigned_shards(GROUP_TOPIC, 2, owned("1@10", "2@20"), live("1@10", "2@21"))
    assert shard == Shard(
        topic_partition=SECOND, coordinator=2, coordinator_epoch=21, producer_id=101, producer_epoch=6, revision=71
    )


@pytest.mark.parametrize(("floor", "expected"), [(4, (101, 6)), (5, (101, 6)), (9, (101, 10))])
def test_an_epoch_that_a_log_has_seen_is_not_given_again(floor: int, expected: tuple[int, int]) -> None:
    coordinators = live("1@10", "2@21")
    coordinators[2] = replace(coordinators[2], producer_epoch_floor=floor)
    (shard,) = reassigned_shards(GROUP_TOPIC, 2, owned("1@10", "2@20"), coordinators)
    assert (shard.producer_id, shard.producer_epoch) == expected


def test_when_a_log_has_seen_the_last_epoch_the_shard_gets_another_producer_id() -> None:
    coordinators = {2: replace(live("2@21")[2], producer_epoch_floor=PRODUCER_EPOCH_MAX)}
    (shard,) = reassigned_shards(GROUP_TOPIC, 1, owned("2@20"), coordinators)
    assert (shard.producer_id, shard.producer_epoch) == (NO_PRODUCER_ID, 0)


def test_without_coordinators_shards_have_no_owner_and_new_ones_are_not_written() -> None:
    (shard,) = reassigned_shards(GROUP_TOPIC, 3, owned("1@10"), {})
    assert (shard.coordinator, shard.coordinator_epoch, shard.producer_epoch) == (NO_COORDINATOR, NO_EPOCH, 6)


def test_after_the_last_producer_epoch_comes_another_producer_id() -> None:
    present = {FIRST: replace(owned("1@10")[FIRST], producer_epoch=PRODUCER_EPOCH_MAX - 1)}
    (last,) = reassigned_shards(GROUP_TOPIC, 1, present, live("1@11"))
    assert (last.producer_id, last.producer_epoch) == (100, 32767)
    (after,) = reassigned_shards(GROUP_TOPIC, 1, {FIRST: last}, live("1@12"))
    assert (after.producer_id, after.producer_epoch, after.revision) == (NO_PRODUCER_ID, 0, 70)


def test_producer_ids_are_filled_in_only_where_they_lack() -> None:
    shards = reassigned_shards(GROUP_TOPIC, 3, owned("1@10"), live("1@11"))
    assert [shard.producer_id for shard in with_producer_ids(shards, [7, 8])] == [100, 7, 8]


def topic(configs: dict[str, str]) -> Topic:
    return Topic(name=GROUP_TOPIC, id=UUID(int=1), partitions=(), configs=configs)


def test_only_coordinators_shards_and_their_topic_are_a_reason_to_look() -> None:
    before = ClusterState(coordinators=live("1@10"), shards=owned("1@10"), topics={GROUP_TOPIC: topic({})})
    assert needs_examination(None, before)
    assert not needs_examination(before, replace(before, revision=9, brokers=live("1@4")))
    assert not needs_examination(before, replace(before, topics={**before.topics, "other": topic({})}))
    assert needs_examination(before, replace(before, coordinators=live("1@11")))
    assert needs_examination(before, replace(before, shards=owned("1@10")))
    assert needs_examination(before, replace(before, topics={GROUP_TOPIC: topic({"retention.ms": "1"})}))


def test_shards_of_transactions_have_owners_once_every_coordinator_knows_them() -> None:
    topics = {name: replace(topic({}), name=name) for name in (GROUP_TOPIC, TRANSACTION_TOPIC, "other")}
    before = ClusterState(
        topics=topics, features=FinalizedFeatures(levels={OTTLA_VERSION: TRANSACTION_LEVEL - 1}), shards={}
    )
    after = replace(before, features=FinalizedFeatures(levels={OTTLA_VERSION: TRANSACTION_LEVEL}))
    assert [each.name for each in sharded_topics(before)] == [GROUP_TOPIC]
    assert [each.name for each in sharded_topics(after)] == [GROUP_TOPIC, TRANSACTION_TOPIC]
    assert needs_examination(before, after)
    assert sharded_topics(replace(after, topics={})) == []


def test_each_topic_is_shared_out_by_itself() -> None:
    coordinators = live("1@10", "2@20")
    shards = {**owned("1@10", "2@20"), **owned("1@10", "1@10", "1@9", "1@10", topic=OTHER_TOPIC)}
    assert reassigned_shards(GROUP_TOPIC, 2, shards, coordinators) == []
    changed = reassigned_shards(OTHER_TOPIC, 4, shards, coordinators)
    assert [(str(shard.topic_partition), shard.coordinator) for shard in changed] == [
        ("__other-2", 2),
        ("__other-3", 2),
    ]
