"""The broker's partitions follow the cluster state: over real logs, with the state given by the test."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from ottla_broker.config import BrokerConfig
from ottla_broker.partition import Partition
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_core.cluster.state.model import NO_LEADER, Member
from ottla_core.errors import NotLeaderOrFollower, UnknownTopicId, UnknownTopicOrPartition
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.partition_logs import failing_fsyncs
from tests.support.broker.reconciled_node import (
    BROKER,
    DEADLINE_SECONDS,
    EPOCH,
    Feed,
    Node,
    member,
    node_in,
    topic,
    until,
)
from tests.support.eventually_async import eventually_async


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with node_in(tmp_path / "logs") as made:
        yield made


async def test_a_new_topic_is_led_and_takes_records(node: Node) -> None:
    made = topic(partitions=240)
    await node.publish(made)

    assert len(node.table) == 240
    assert [node.append("t", 239), node.append(made.id, 239)] == [0, 1]


async def test_the_logs_of_many_new_topics_are_created_together(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    under_way = most_under_way = 0
    create = node.store.create

    async def counted(name: TopicPartition, *arguments: object, **options: object):
        nonlocal under_way, most_under_way
        under_way += 1
        most_under_way = max(most_under_way, under_way)
        try:
            return await create(name, *arguments, **options)  # type: ignore[arg-type]
        finally:
            under_way -= 1

    monkeypatch.setattr(node.store, "create", counted)
    await node.publish(*(topic(f"t{number}") for number in range(30)))

    assert len(node.table) == most_under_way == 30


async def test_only_assigned_partitions_are_held_and_only_led_ones_are_served(node: Node) -> None:
    await node.publish(topic("elsewhere", replicas=(2,), leader=2), topic("followed", replicas=(2, 1), leader=2))

    for name in ("elsewhere", "followed"):
        with pytest.raises(NotLeaderOrFollower):
            node.append(name)
    assert node.names_on_disk() == {"followed-0"}


async def test_what_the_cluster_does_not_know_is_refused(node: Node) -> None:
    await node.publish(topic())

    for named, index, error in (
        ("nowhere", 0, UnknownTopicOrPartition),
        ("t", 1, UnknownTopicOrPartition),
        ("t", -1, UnknownTopicOrPartition),
        (uuid4(), 0, UnknownTopicId),
    ):
        with pytest.raises(error):
            node.append(named, index)


async def test_a_topic_deleted_and_created_anew_starts_empty(node: Node) -> None:
    await node.publish(topic())
    assert [node.append("t"), node.append("t")] == [0, 1]

    await node.publish(topic())

    assert node.append("t") == 0
    assert any(name.endswith("-delete") for name in node.names_on_disk())


async def test_until_the_old_log_is_retired_nothing_of_the_new_topic_reaches_it(node: Node) -> None:
    old, new = topic(), topic()
    await node.publish(old)
    node.append("t")

    revision = node.feed.publish(new)  # not carried out yet: nothing has awaited
    for named in ("t", new.id):
        with pytest.raises(NotLeaderOrFollower):
            node.append(named)
    with pytest.raises(UnknownTopicId):
        node.append(old.id)

    assert await node.reconciler.wait_reached(revision, DEADLINE_SECONDS)
    assert node.append(new.id) == 0


async def test_files_are_deleted_only_if_the_deletion_was_seen(node: Node) -> None:
    await node.publish(topic())
    node.append("t")

    await node.publish(deleted_topics={})

    assert [name.rpartition("-")[2] for name in node.names_on_disk()] == ["stray"]
    with pytest.raises(UnknownTopicOrPartition):
        node.append("t")


async def test_one_topic_that_fails_holds_up_neither_the_others_nor_its_own_deletion(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = node.store.create

    async def failing(name: TopicPartition, *arguments: object, **options: object):
        if name == TopicPartition("bad", 1):
            raise OSError("no room")
        return await create(name, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(node.store, "create", failing)
    await node.publish(topic("bad", partitions=2), topic("good"))
    assert node.append("good") == 0

    await node.publish(topic("bad"), topic("good", topic_id=node.feed.state.topics["good"].id))
    assert node.append("bad") == 0


async def test_a_log_that_is_slow_to_create_is_waited_for_when_another_fails(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = node.store.create

    async def slow_or_failing(name: TopicPartition, *arguments: object, **options: object):
        if name == TopicPartition("bad", 1):
            raise OSError("no room")
        for _ in range(50):
            await asyncio.sleep(0)
        return await create(name, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(node.store, "create", slow_or_failing)
    old, new = topic("bad", partitions=2), topic("bad")
    await node.publish(old)
    await node.publish(new)

    assert node.append(new.id) == 0
    assert node.store.get(TopicPartition("bad", 0)).topic_id == new.id


async def test_what_failed_is_tried_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    create, attempts = node.store.create, []

    async def failing_once(name: TopicPartition, *arguments: object, **options: object):
        attempts.append(name)
        if len(attempts) == 1:
            raise OSError("no room")
        return await create(name, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(node.store, "create", failing_once)
    await node.publish(topic())
    with pytest.raises(NotLeaderOrFollower):
        node.append("t")

    await until(lambda: node.leads("t"))
    assert node.append("t") == 0


async def test_a_role_that_could_not_be_given_is_given_later_though_nothing_changes_in_the_cluster(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.publish(topic(replicas=(2, BROKER), leader=2))
    node.fetchers.followed.clear()
    follow, attempts = node.fetchers.follow, []

    def failing_once(partition: Partition, leader: Member) -> None:
        attempts.append(partition)
        if len(attempts) == 1:
            raise OSError("no room")
        follow(partition, leader)

    monkeypatch.setattr(node.fetchers, "follow", failing_once)
    node.reconciler.give_roles_again({"t"})
    assert (len(attempts), node.fetchers.followed) == (1, {})

    await until(lambda: node.fetchers.followed == {"t-0": (2, 0)})


async def test_settings_that_contradict_each_other_on_this_broker_do_not_stop_it(node: Node) -> None:
    made = replace(topic(), configs={"min.compaction.lag.ms": "100000", "retention.ms": "5"})
    await node.publish(made, broker_configs={None: {"log.cleaner.max.compaction.lag.ms": "1000"}})

    assert node.append("t") == 0
    assert node.table.leader_of("t", 0).log.config.retention_ms == 5


async def test_leadership_follows_the_registration_that_it_was_elected_with(node: Node) -> None:
    made = topic(replicas=(BROKER, 2), isr=(BROKER, 2))
    await node.publish(made)
    node.append("t")

    node.registration.current = False
    with pytest.raises(NotLeaderOrFollower):
        node.append("t")

    anew = replace(made, partitions=(replace(made.partitions[0], leader_epoch=1, leader_broker_epoch=99),))
    await node.publish(anew)
    with pytest.raises(NotLeaderOrFollower):
        node.append("t")

    node.registration.registered_epoch, node.registration.current = 99, True
    node.changed.set()
    await until(lambda: node.leads("t"))
    assert node.append("t") == 1


async def test_a_sole_replica_goes_on_leading_while_its_registration_has_lapsed(node: Node) -> None:
    made = topic()
    await node.publish(made)
    node.registration.current = False
    node.changed.set()
    await node.publish(made, topic("other"))

    assert node.append("t") == 0


async def test_a_sole_replica_goes_on_leading_while_the_controller_thinks_it_gone(node: Node) -> None:
    made = topic()
    await node.publish(made)
    node.append("t")

    for leader, leader_epoch in ((NO_LEADER, 1), (BROKER, 2)):
        state = replace(made.partitions[0], leader=leader, leader_epoch=leader_epoch, leader_broker_epoch=99)
        await node.publish(replace(made, partitions=(state,)))
        assert node.append("t") == leader_epoch
    assert node.table.leader_of("t", 0).log.leader_epochs.entries[-1] == (2, 2)


async def test_without_having_led_a_sole_replica_waits_for_its_election(node: Node) -> None:
    await node.publish(topic(leader_epoch=3, leader_broker_epoch=EPOCH - 1))

    with pytest.raises(NotLeaderOrFollower):
        node.append("t")


async def test_a_log_whose_topic_was_deleted_while_the_broker_was_away_is_set_aside(node: Node) -> None:
    made = topic()
    await node.publish(made)
    node.append("t")
    await node.reconciler.close()

    again = Node(node.directories, node.store, Feed())
    await again.reconciler.start()

    assert [name.rpartition("-")[2] for name in again.names_on_disk()] == ["stray"]
    await again.reconciler.close()


async def test_what_others_lead_is_copied_from_them_and_what_is_led_here_is_not(node: Node) -> None:
    made = topic(replicas=(2, 3, BROKER), isr=(2, 3, BROKER), leader=2)
    await node.publish(made)
    assert node.fetchers.followed == {"t-0": (2, 0)}

    for leader, leader_epoch, followed in (
        (3, 1, {"t-0": (3, 1)}),
        (NO_LEADER, 2, {}),
        (BROKER, 3, {}),
        (2, 4, {"t-0": (2, 4)}),
    ):
        state = replace(made.partitions[0], leader=leader, leader_epoch=leader_epoch, leader_broker_epoch=EPOCH)
        await node.publish(replace(made, partitions=(state,)))
        assert node.fetchers.followed == followed
        assert node.leads("t") == (leader == BROKER)


async def test_what_can_take_no_more_records_is_not_copied(node: Node) -> None:
    made = topic(replicas=(2, 3, BROKER), isr=(2, 3, BROKER), leader=2)
    await node.publish(made)
    partition = node.table.get(TopicPartition("t", 0))
    assert partition is not None
    node.context.on_failed_log = lambda _: node.reconciler.give_roles_again({"t"})

    with failing_fsyncs():
        partition.log._flush.start(partition.log.log_end_offset)
        await eventually_async(lambda: partition.has_failed_log, "the fsync has failed")
    assert node.fetchers.followed == {}
    for leader, leader_epoch in ((3, 1), (2, 2)):
        state = replace(made.partitions[0], leader=leader, leader_epoch=leader_epoch)
        await node.publish(replace(made, partitions=(state,)))
        assert node.fetchers.followed == {}


async def test_a_leader_that_is_back_under_another_registration_is_followed_there(node: Node) -> None:
    made = topic(replicas=(2, BROKER), leader=2)
    await node.publish(made)

    others = {number: each for number, each in node.feed.state.brokers.items() if number != 2}
    await node.publish(made, brokers=others)
    assert node.fetchers.followed == {}

    await node.publish(made, brokers={**others, 2: replace(member(2), epoch=9)})
    assert node.fetchers.followed == {"t-0": (2, 0)}


async def test_a_log_whose_replica_was_moved_elsewhere_is_deleted(node: Node) -> None:
    made = topic(partitions=2, replicas=(2, BROKER), leader=2)
    await node.publish(made)
    assert node.names_on_disk() == {"t-0", "t-1"}

    moved = replace(made, partitions=(replace(made.partitions[0], replicas=(2, 3)), made.partitions[1]))
    await node.publish(moved)

    assert [name.rpartition("-")[2] for name in sorted(node.names_on_disk())] == ["delete", "1"]
    assert node.fetchers.followed == {"t-1": (2, 0)}
    with pytest.raises(NotLeaderOrFollower):
        node.table.replica_of("t", 0)
    assert node.table.replica_of("t", 1).topic_partition.partition == 1


async def test_a_leader_whose_registration_has_lapsed_goes_on_while_all_that_could_replace_it_fetch(
    node: Node,
) -> None:
    await node.publish(topic(replicas=(BROKER, 2, 3), isr=(BROKER, 2)))
    ttl_ms = BrokerConfig.model_fields["member_lease_ttl_ms"].default
    node.registration.current = False
    node.now_ms = 1000
    with pytest.raises(NotLeaderOrFollower):
        node.append("t")

    partition = node.table.replica_of("t", 0)
    partition.record_follower_fetch(FollowerContact(2, 1, 1000), offset=0, log_start_offset=0)
    node.now_ms += ttl_ms
    assert node.append("t") == 0

    node.now_ms += 1
    with pytest.raises(NotLeaderOrFollower):
        node.append("t")


async def test_a_leader_stops_at_once_when_its_replica_is_moved_elsewhere(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = topic(replicas=(BROKER, 2), isr=(BROKER, 2))
    await node.publish(made)
    create, may_go_on = node.store.create, asyncio.Event()

    async def slow(*arguments: object, **options: object):
        await may_go_on.wait()
        return await create(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(node.store, "create", slow)
    moved = replace(made.partitions[0], replicas=(2,), isr=(2,), leader=2, leader_epoch=1)
    revision = node.feed.publish(topic("new"), replace(made, partitions=(moved,)))
    await until(lambda: not node.leads("t"))
    with pytest.raises(NotLeaderOrFollower):
        node.append("t")

    may_go_on.set()
    assert await node.reconciler.wait_reached(revision, DEADLINE_SECONDS)


async def test_topics_with_the_same_settings_share_what_holds_for_them_until_the_brokers_settings_change(
    node: Node,
) -> None:
    plain, other, own = topic("plain"), topic("other"), replace(topic("own"), configs={"retention.ms": "7"})
    await node.publish(plain, other, own)
    before = node.table.topic_config(plain)

    assert node.table.topic_config(other) is before
    assert (node.table.topic_config(own).retention_ms, before.retention_ms) == (7, TopicConfig().retention_ms)

    await node.publish(plain, other, own, broker_configs={None: {"log.retention.ms": "9"}})
    assert [node.table.topic_config(each).retention_ms for each in (plain, other, own)] == [9, 9, 7]
    assert node.table.topic_config(plain, replace(node.feed.state, broker_configs={})).retention_ms == (
        before.retention_ms
    )


async def test_a_setting_that_only_a_newer_release_knows_keeps_no_topic_from_being_led(node: Node) -> None:
    ours = replace(topic("t"), configs={"retention.ms": "7", "of.a.newer.release": "1"})
    with capture_logs() as logs:
        await node.publish(ours)
    partition = node.table.get(TopicPartition("t", 0))
    assert partition is not None
    assert partition.leads
    assert partition.log.config.retention_ms == 7
    told = [each["settings"] for each in logs if each["event"] == "settings of a topic are unknown to this release"]
    assert told == [["of.a.newer.release"]]
