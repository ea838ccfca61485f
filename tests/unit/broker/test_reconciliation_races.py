"""What changes while the reconciler waits: each effect is decided by the state of its own moment, over real logs."""

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ottla_broker.log.directories import batched_creation
from ottla_broker.log.store import log_store
from ottla_broker.reconciliation import LOGS_CREATED_AT_ONCE_MAX
from ottla_broker.replication.following import append_from_leader
from ottla_core.cluster.state.model import Topic
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.partition_logs import batch_of
from tests.support.broker.reconciled_node import (
    BROKER,
    DEADLINE_SECONDS,
    Feed,
    Node,
    node_in,
    open_store,
    topic,
    until,
)

NAME = TopicPartition("t", 0)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with node_in(tmp_path / "logs") as made:
        yield made


class Gate:
    """Holds up whoever comes to it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def passed(self) -> None:
        self.reached.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self.opened.wait()


def hold_up_creation(node: Node, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Have the creation of logs wait."""
    create, gate = node.store.create, Gate()

    async def held(*arguments: object, **options: object) -> object:
        await gate.passed()
        return await create(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(node.store, "create", held)
    return gate


def hold_up_retirement(node: Node, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Have whoever wants a log to come to rest wait, as for a round of compaction to be given up."""
    paused, gate = node.store.cleaner.paused, Gate()

    @asynccontextmanager
    async def held(name: TopicPartition) -> AsyncIterator[None]:
        async with paused(name):
            await gate.passed()
            yield

    monkeypatch.setattr(node.store.cleaner, "paused", held)
    return gate


def followed() -> Topic:
    return topic(replicas=(2, BROKER), isr=(2, BROKER), leader=2)


def with_state(made: Topic, **changes: object) -> Topic:
    return replace(made, partitions=(replace(made.partitions[0], **changes), *made.partitions[1:]))  # type: ignore[arg-type]


def taken_away(made: Topic) -> Topic:
    return with_state(made, replicas=(2,), isr=(2,), leader_epoch=1)


def given_back(made: Topic, *, isr: tuple[int, ...] = (2, BROKER)) -> Topic:
    return with_state(made, replicas=(2, BROKER), isr=isr, leader_epoch=1)


def replicate(node: Node, count: int) -> None:
    """Append as this broker's fetcher does."""
    partition = node.table.get(NAME)
    assert partition is not None
    epoch = partition.state.leader_epoch
    for _ in range(count):
        batch = bytearray(batch_of(b"v"))
        batch[0:8] = partition.log.log_end_offset.to_bytes(8, "big")
        batch[12:16] = epoch.to_bytes(4, "big")
        append_from_leader(
            partition, memoryview(bytes(batch)), leader_epoch=epoch, high_watermark=0, log_start_offset=0, now_ms=0
        )


def end_offset(node: Node) -> int | None:
    partition = node.table.get(NAME)
    return None if partition is None else partition.log.log_end_offset


async def test_a_replica_that_came_back_during_a_long_pass_keeps_its_log(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, new = followed(), topic("new", partitions=LOGS_CREATED_AT_ONCE_MAX)
    await node.publish(made)
    replicate(node, 7)
    gate = hold_up_creation(node, monkeypatch)

    node.feed.publish(new, taken_away(made))
    await gate.reached.wait()
    node.feed.publish(new, given_back(made))
    node.reconciler.give_roles()
    assert node.fetchers.followed == {"t-0": (2, 1)}, "it is copied again, and may be in sync from now on"
    gate.opened.set()
    await node.publish(new, given_back(made))

    assert end_offset(node) == 7
    assert node.fetchers.followed == {"t-0": (2, 1)}
    assert "t-0" in node.names_on_disk()


async def test_a_replica_that_comes_back_while_its_log_is_being_retired_keeps_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = followed()
    await node.publish(made)
    replicate(node, 7)
    gate = hold_up_retirement(node, monkeypatch)

    node.feed.publish(taken_away(made))
    await gate.reached.wait()
    node.feed.publish(given_back(made))
    gate.opened.set()
    await node.publish(given_back(made))

    assert end_offset(node) == 7
    assert node.fetchers.followed == {"t-0": (2, 1)}
    assert node.names_on_disk() == {"t-0"}


async def test_a_replica_that_comes_back_right_after_its_log_has_gone_claims_nothing_of_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = followed()
    await node.publish(made)
    replicate(node, 7)
    reached, opened = threading.Event(), threading.Event()
    sync = log_store.sync_directory

    def held(path: Path) -> None:
        reached.set()
        assert opened.wait(DEADLINE_SECONDS)
        sync(path)

    monkeypatch.setattr(log_store, "sync_directory", held)
    node.feed.publish(taken_away(made))
    await until(reached.is_set)
    node.feed.publish(given_back(made, isr=(2,)))
    node.reconciler.give_roles()

    assert node.fetchers.followed == {}, "a log that is gone is not copied on"
    opened.set()
    await node.publish(given_back(made, isr=(2,)))
    assert end_offset(node) == 0
    assert node.fetchers.followed == {"t-0": (2, 1)}


@pytest.mark.parametrize("leads", [False, True])
async def test_a_replica_that_comes_back_and_goes_again_while_its_log_is_being_retired_has_no_role_left(
    node: Node, monkeypatch: pytest.MonkeyPatch, *, leads: bool
) -> None:
    made = topic(replicas=(BROKER, 2)) if leads else followed()
    await node.publish(made)
    partition = node.table.get(NAME)
    assert partition is not None
    gate = hold_up_retirement(node, monkeypatch)

    node.feed.publish(taken_away(with_state(made, leader=2)))
    await gate.reached.wait()
    node.feed.publish(with_state(made, leader_epoch=2))
    await until(lambda: partition.leads if leads else bool(node.fetchers.followed))
    revision = node.feed.publish()
    gate.opened.set()
    assert await node.reconciler.wait_reached(revision, DEADLINE_SECONDS)

    assert (partition.leads, node.fetchers.followed) == (False, {})
    assert node.table.get(NAME) is None


async def test_a_topic_that_was_missing_for_a_moment_keeps_its_log_and_its_leader(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = topic()
    await node.publish(made)
    node.append("t")
    gate = hold_up_retirement(node, monkeypatch)

    node.feed.publish(deleted_topics={})
    await gate.reached.wait()
    node.feed.publish(made, deleted_topics={})
    gate.opened.set()
    await node.publish(made, deleted_topics={})

    assert node.append("t") == 1


async def test_a_deletion_that_is_seen_only_while_a_log_is_set_aside_deletes_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = topic()
    await node.publish(made)
    node.append("t")
    gate = hold_up_retirement(node, monkeypatch)

    node.feed.publish(deleted_topics={})
    await gate.reached.wait()
    revision = node.feed.publish(deleted_topics={made.id: 9})
    gate.opened.set()
    assert await node.reconciler.wait_reached(revision, DEADLINE_SECONDS)

    assert [name.rpartition("-")[2] for name in node.names_on_disk()] == ["delete"]


async def test_logs_of_a_topic_that_is_deleted_meanwhile_are_not_created_any_more(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = hold_up_creation(node, monkeypatch)
    node.feed.publish(topic(partitions=LOGS_CREATED_AT_ONCE_MAX + 40))
    await gate.reached.wait()
    anew = topic(partitions=2)
    revision = node.feed.publish(anew)
    gate.opened.set()
    assert await node.reconciler.wait_reached(revision, DEADLINE_SECONDS)

    assert {log.topic_id for log in node.store.logs.values()} == {anew.id}
    deleted = [name for name in node.names_on_disk() if name.endswith("-delete")]
    assert len(deleted) <= LOGS_CREATED_AT_ONCE_MAX, "only those are retired that were being created already"
    assert node.append(anew.id, 1) == 0


async def test_settings_that_change_while_a_log_is_created_hold_for_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = topic(partitions=2)
    gate = hold_up_creation(node, monkeypatch)
    node.feed.publish(made)
    await gate.reached.wait()
    revision = node.feed.publish(replace(made, configs={"min.insync.replicas": "2"}))
    node.reconciler.give_roles()
    gate.opened.set()
    assert await node.reconciler.wait_reached(revision, DEADLINE_SECONDS)

    assert node.table.leader_of("t", 1).log.config.min_insync_replicas == 2


async def test_a_log_that_could_not_be_created_for_any_reason_is_tried_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[object] = []
    create_log = batched_creation.create_log

    def failing_once(*arguments: object) -> object:
        attempts.append(arguments)
        if len(attempts) == 1:
            raise ValueError("a defect")
        return create_log(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(batched_creation, "create_log", failing_once)
    await node.publish(topic())
    await until(lambda: node.leads("t"))
    assert node.append("t") == 0


@pytest.mark.parametrize("hold_up", [hold_up_retirement, hold_up_creation])
async def test_elections_do_not_wait_for_logs_that_come_or_go(
    node: Node, monkeypatch: pytest.MonkeyPatch, hold_up: Callable[[Node, pytest.MonkeyPatch], Gate]
) -> None:
    led, given = topic("led", replicas=(BROKER, 2)), topic("given", replicas=(2, BROKER), leader=2)
    await node.publish(led, given, topic("goes"))
    gate = hold_up(node, monkeypatch)

    come = topic("comes")
    node.feed.publish(led, given, come)
    await gate.reached.wait()
    led = with_state(led, leader=2, leader_epoch=1)
    given = with_state(given, leader=BROKER, leader_epoch=1)
    revision = node.feed.publish(led, given, come)
    await until(lambda: node.leads("given") and not node.leads("led"))

    gate.opened.set()
    assert await node.reconciler.wait_reached(revision, DEADLINE_SECONDS)
    assert node.leads("comes")


# A log that is gone although the controller counts on it


async def test_a_replica_that_counts_as_complete_and_finds_itself_empty_takes_no_part(node: Node) -> None:
    reported: list[str] = []
    node.context.on_lost_log = lambda partition: reported.append(str(partition.topic_partition))
    made = followed()
    await node.publish(made)
    replicate(node, 7)
    await node.publish(deleted_topics={})  # merely missing: its log is set aside
    await node.publish(made, deleted_topics={})

    assert (reported, end_offset(node)) == (["t-0"], 0)
    assert node.fetchers.followed == {}, "a fetch would let it stay in the set"
    elected = with_state(made, leader=BROKER, isr=(BROKER,), leader_epoch=1, leader_broker_epoch=70)
    await node.publish(elected)
    assert not node.leads("t"), "its membership says that it has everything"

    await node.publish(with_state(elected, leader=2, isr=(2,), leader_epoch=2))
    assert node.fetchers.followed == {"t-0": (2, 2)}
    await node.publish(with_state(elected, leader_epoch=3))
    assert node.leads("t")


async def test_an_empty_replica_leads_when_the_controller_knows_and_has_elected_it_all_the_same(node: Node) -> None:
    made = topic()
    await node.publish(made)
    node.append("t")
    await node.publish(deleted_topics={})
    again = with_state(made, leader_epoch=1)
    await node.publish(again, deleted_topics={})
    assert not node.leads("t")

    partition = node.table.get(NAME)
    assert partition is not None
    partition.has_lost_log, partition.loss_was_told = False, True  # as once the controller has answered
    node.reconciler.give_roles_again({"t"})
    assert node.append("t") == 0


async def test_a_replica_that_was_slow_to_create_its_first_log_may_lead(node: Node) -> None:
    await node.publish(topic(leader_epoch=3))
    assert node.append("t") == 0


@pytest.mark.parametrize("is_emptied", [False, True])
async def test_a_log_that_vanished_while_the_broker_was_down_is_missed(tmp_path: Path, *, is_emptied: bool) -> None:
    made, directory = topic(), tmp_path / "logs"
    async with node_in(directory) as node:
        await node.publish(made)
        node.append("t")
    (log_directory,) = directory.glob("t-0")
    for file in log_directory.glob("0*"):
        file.unlink()
    if not is_emptied:
        shutil.rmtree(log_directory)
    (directory / ".kafka_cleanshutdown").unlink()

    for _ in range(2):  # also at the start after the next one
        store = await open_store([directory])
        again = Node([directory], store, Feed())
        again.feed.publish(made)
        await again.reconciler.start()
        assert not again.leads("t")
        await again.reconciler.close()
        await store.close()


@asynccontextmanager
async def restarted_without_log(directory: Path, made: Topic, now: Topic) -> AsyncIterator[tuple[Node, list[str]]]:
    """Restart a broker that has lost a log; yield it with the losses that it reports."""
    async with node_in(directory) as node:
        await node.publish(made)
        node.append("t")
    shutil.rmtree(directory / "t-0")
    (directory / ".kafka_cleanshutdown").unlink()
    store = await open_store([directory])
    again, reported = Node([directory], store, Feed()), list[str]()
    again.context.on_lost_log = lambda partition: reported.append(str(partition.topic_partition))
    again.feed.publish(now)
    await again.reconciler.start()
    yield again, reported
    await again.reconciler.close()
    await store.close()


def take_over(node: Node, records: bytes, high_watermark: int) -> None:
    """Have the replica take over what its leader, of the newest state, answers to a fetch."""
    partition = node.table.get(NAME)
    assert partition is not None
    append_from_leader(
        partition,
        records,
        leader_epoch=partition.state.leader_epoch,
        high_watermark=high_watermark,
        log_start_offset=0,
        now_ms=node.now_ms,
    )


async def test_a_late_proposal_does_not_make_a_log_count_that_is_lost(tmp_path: Path) -> None:
    made = topic(replicas=(2, BROKER))
    outside = with_state(made, leader=2, isr=(2,), leader_epoch=1)
    async with restarted_without_log(tmp_path / "logs", made, outside) as (node, reported):
        assert node.fetchers.followed
        assert not reported, "nobody counts on it"
        take_over(node, b"", high_watermark=1)
        await node.publish(with_state(outside, isr=(2, BROKER)))  # proposed when its former log was there
        assert reported == ["t-0"]
        assert not node.fetchers.followed

        await node.publish(with_state(outside, isr=(BROKER,), leader=BROKER, leader_epoch=2))
        assert not node.leads("t")
        await node.publish(with_state(outside, isr=(2,), leader_epoch=3))
        assert node.fetchers.followed, "the controller has taken note"
        await node.publish(with_state(outside, isr=(2, BROKER), leader_epoch=3))
        assert reported == ["t-0", "t-0"], "and may be told of it again"
        assert node.store.directories.lost == {NAME}, "the next start has to know as well"


async def test_a_log_that_has_come_as_far_as_what_is_committed_counts_again(tmp_path: Path) -> None:
    made = topic(replicas=(2, BROKER))
    outside = with_state(made, leader=2, isr=(2,), leader_epoch=1)
    async with restarted_without_log(tmp_path / "logs", made, outside) as (node, reported):
        take_over(node, batch_of(b"v", leader_epoch=1), high_watermark=1)
        await node.publish(with_state(outside, isr=(2, BROKER)))
        assert not reported
        assert node.fetchers.followed
        assert not node.store.directories.lost


async def test_a_log_that_was_deleted_on_purpose_is_not_missed(tmp_path: Path) -> None:
    made, directory = topic(), tmp_path / "logs"
    async with node_in(directory) as node:
        await node.publish(made)
        node.append("t")
    (directory / "t-0").rename(directory / f"t-0.{'0' * 32}-delete")
    store = await open_store([directory])
    again = Node([directory], store, Feed())
    again.feed.publish(made)
    await again.reconciler.start()
    assert again.append("t") == 0
    await again.reconciler.close()
    await store.close()
