"""Groups of one real cluster at another: offsets by an independent count, members, resets, and what is gone."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from ottla_core.client.group.offset_requests import CommittedOffset
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.records import Record
from ottla_mirror.groups.checkpoints import Checkpoint, CheckpointKey, Checkpoints
from ottla_mirror.groups.group_reports import GroupState
from ottla_mirror.groups.group_sync import NotLeading, UnknownGroup
from ottla_mirror.internal_topics.topic_follower import TopicFollower
from tests.support.eventually_async import eventually_async
from tests.support.mirror.mirror_flow import MirrorFlow, mirror_flow
from tests.support.mirror.mirrored_topic import MirroredTopic

pytestmark = pytest.mark.slow

SEED = 20


async def checkpoint_of(flow: MirrorFlow, group: str, topic: MirroredTopic) -> Checkpoint | None:
    """The checkpoint as the topic has it."""
    found = Checkpoints()

    def take(records: Sequence[Record]) -> None:
        for record in records:
            found.apply(record)

    await TopicFollower(flow.checkpoints, on_records=take, on_restart=found.clear).catch_up()
    return found.found.get(CheckpointKey(group, topic.remote_name, 0))


async def test_every_offset_is_translated_as_it_is_counted(source_bootstrap: str, bootstrap: str) -> None:
    chance = random.Random(SEED)
    async with mirror_flow(source_bootstrap, bootstrap) as flow:
        topic = await flow.topic()
        await topic.write(80)
        await topic.copy_on(chance)
        groups = {offset: flow.group() for offset in range(81)}
        for offset, group in groups.items():
            await flow.commit(group, topic, offset)
        sync = await flow.sync()
        await sync.emit_checkpoints()
        await sync.store_offsets()
        for offset, group in groups.items():
            expected = await topic.expected(offset)
            assert await checkpoint_of(flow, group, topic) == Checkpoint(offset, expected, "note")
            assert await flow.stored(group, topic) == expected
        assert {report.state for report in sync.reports.values()} == {GroupState.SYNCED}


async def test_an_empty_partition_and_one_that_is_not_copied_yet(source_bootstrap: str, bootstrap: str) -> None:
    async with mirror_flow(source_bootstrap, bootstrap) as flow:
        empty, ahead = await flow.topic(), await flow.topic()
        await ahead.write(30)
        group = flow.group()
        await flow.commit(group, empty, 0)
        await flow.commit(group, ahead, 20)
        sync = await flow.sync()
        await sync.emit_checkpoints()
        await sync.store_offsets()
        assert await flow.stored(group, empty) == 0
        assert await flow.stored(group, ahead) == 0
        await ahead.copy_on(random.Random(SEED), 15)
        await sync.emit_checkpoints()
        await sync.store_offsets()
        assert await flow.stored(group, ahead) == await ahead.expected(20)
        await ahead.copy_on(random.Random(SEED))
        report = await sync.sync_now(group)
        assert await flow.stored(group, ahead) == await ahead.expected(20)
        assert [each.not_copied for each in report.partitions] == [0, 0]


async def test_a_sync_on_request_says_what_is_missing(source_bootstrap: str, bootstrap: str) -> None:
    async with mirror_flow(source_bootstrap, bootstrap) as flow:
        topic = await flow.topic()
        await topic.write(50)
        await topic.copy_on(random.Random(SEED), 20)
        group = flow.group()
        await flow.commit(group, topic, 35)
        sync = await flow.sync(stores_offsets=False)
        report = await sync.sync_now(group)
        (found,) = report.partitions
        assert (report.is_stored, report.reason, found.is_stored) == (True, "", True)
        assert (found.source_offset, found.not_copied, found.source_not_copied) == (35, 15, 30)
        assert found.target_offset == await topic.expected(35) == await flow.stored(group, topic)
        with pytest.raises(UnknownGroup):
            await sync.sync_now(flow.group())


async def test_a_reset_at_the_source_arrives_until_the_group_is_used_at_the_target(
    source_bootstrap: str, bootstrap: str
) -> None:
    async with mirror_flow(source_bootstrap, bootstrap) as flow:
        topic = await flow.topic()
        await topic.write(60)
        await topic.copy_on(random.Random(SEED))
        group = flow.group()
        await flow.commit(group, topic, 50)
        sync = await flow.sync()

        async def synced_to(offset: int) -> bool:
            await flow.commit(group, topic, offset)
            await sync.emit_checkpoints()
            await sync.store_offsets()
            return await flow.stored(group, topic) == await topic.expected(offset)

        assert await synced_to(50)
        assert await synced_to(10)
        sync = await flow.sync()  # another leader
        assert await synced_to(5)
        async with members_at(bootstrap, group, topic.remote_name):
            await synced_to(55)
            assert await flow.stored(group, topic) == await topic.expected(5)
            assert sync.reports[group].state is GroupState.ACTIVE_AT_TARGET
        assert await synced_to(40)
        assert not await synced_to(20)
        assert await flow.stored(group, topic) == await topic.expected(40)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_with_members_at_the_target_keeps_its_offsets(
    source_bootstrap: str, bootstrap: str, protocol: str
) -> None:
    async with mirror_flow(source_bootstrap, bootstrap) as flow:
        topic = await flow.topic()
        await topic.write(40)
        await topic.copy_on(random.Random(SEED))
        group = flow.group()
        await flow.commit(group, topic, 30)
        sync = await flow.sync()
        async with members_at(bootstrap, group, topic.remote_name, protocol=protocol):
            report = await sync.sync_now(group)
            assert not report.is_stored
            assert "has members at the target" in report.reason
            assert await flow.stored(group, topic) is None
            # Also where the listing is too old to know of them.
            result = await flow.target.store(group, {TopicPartition(topic.remote_name, 0): CommittedOffset(1, "")})
            assert result.is_in_use
        report = await sync.sync_now(group)
        assert report.is_stored
        assert await flow.stored(group, topic) == await topic.expected(30)


async def test_checkpoints_of_what_is_gone_are_deleted_after_a_second_look(
    source_bootstrap: str, bootstrap: str
) -> None:
    async with mirror_flow(source_bootstrap, bootstrap) as flow:
        topic = await flow.topic()
        await topic.write(20)
        await topic.copy_on(random.Random(SEED))
        gone, kept = flow.group(), flow.group()
        await flow.commit(gone, topic, 10)
        await flow.commit(kept, topic, 10)
        sync = await flow.sync()
        await sync.emit_checkpoints()
        await asyncio.to_thread(delete_group, source_bootstrap, gone)
        await sync.refresh()
        await sync.emit_checkpoints()
        assert await checkpoint_of(flow, gone, topic) is not None
        await sync.emit_checkpoints()
        assert await checkpoint_of(flow, gone, topic) is None
        assert await checkpoint_of(flow, kept, topic) is not None


async def test_no_group_is_sent_where_it_was_in_a_former_topic_of_the_target(
    source_bootstrap: str, bootstrap: str
) -> None:
    async with mirror_flow(source_bootstrap, bootstrap) as flow:
        topic = await flow.topic()
        await topic.write(40)
        await topic.copy_on(random.Random(SEED))
        group = flow.group()
        await flow.commit(group, topic, 30)
        sync = await flow.sync()
        await sync.emit_checkpoints()
        await sync.store_offsets()
        assert await flow.stored(group, topic) == await topic.expected(30)

        await topic.make_target_anew()
        await offset_is_forgotten(flow, group, topic)
        await sync.emit_checkpoints()
        await sync.store_offsets()
        report = await sync.sync_now(group)
        assert (report.is_stored, report.reason) == (False, "nothing of its topics has been copied yet")
        another_leaders = await flow.sync()
        await another_leaders.store_offsets()
        assert await flow.stored(group, topic) is None

        await topic.begin_session()
        await topic.copy_on(random.Random(SEED + 1))
        await sync.emit_checkpoints()
        await sync.store_offsets()
        assert await flow.stored(group, topic) == await topic.expected(30)


async def test_an_offset_in_a_former_topic_of_the_source_is_not_translated_by_the_map_of_the_next(
    source_bootstrap: str, bootstrap: str
) -> None:
    async with mirror_flow(source_bootstrap, bootstrap) as flow:
        topic = await flow.topic()
        await topic.write(40)
        await topic.copy_on(random.Random(SEED))
        group = flow.group()
        await flow.commit(group, topic, 30)
        sync = await flow.sync()
        offsets = flow.source.offsets

        async def offsets_before_the_topic_is_made_anew(group: str) -> dict[TopicPartition, CommittedOffset]:
            found = await offsets(group)
            flow.source.offsets = offsets  # type: ignore[method-assign]
            await topic.make_source_anew()
            await topic.write(10)
            await topic.begin_session()
            await topic.copy_on(random.Random(SEED + 1))
            return found

        flow.source.offsets = offsets_before_the_topic_is_made_anew  # type: ignore[method-assign]
        await sync.emit_checkpoints()
        await sync.store_offsets()
        assert await checkpoint_of(flow, group, topic) is None
        assert await flow.stored(group, topic) is None


async def offset_is_forgotten(flow: MirrorFlow, group: str, topic: MirroredTopic) -> None:
    """Waits until the target has forgotten an offset, with its topic."""
    async with asyncio.timeout(30):
        while await flow.stored(group, topic) is not None:
            await asyncio.sleep(0.05)  # between two looks; the deadline ends them


async def test_who_leads_no_more_writes_nothing(source_bootstrap: str, bootstrap: str) -> None:
    async with mirror_flow(source_bootstrap, bootstrap) as flow:
        topic = await flow.topic()
        group = flow.group()
        await flow.commit(group, topic, 0)
        sync = await flow.sync()
        await sync.emit_checkpoints()
        await topic.write(10)
        await topic.copy_on(random.Random(SEED))
        await flow.commit(group, topic, 10)
        flow.leads = False
        with pytest.raises(NotLeading):
            await sync.emit_checkpoints()
        with pytest.raises(NotLeading):
            await sync.store_offsets()
        checkpoint = await checkpoint_of(flow, group, topic)
        assert checkpoint is not None
        assert checkpoint.upstream_offset == 0
        assert await flow.stored(group, topic) is None


def delete_group(bootstrap: str, group: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (deleted,) = admin.delete_consumer_groups([group]).values()
    deleted.result(30)


@asynccontextmanager
async def members_at(bootstrap: str, group: str, topic: str, *, protocol: str = "classic") -> AsyncIterator[None]:
    """A member that has its partitions, consumes nothing and commits nothing."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "latest",
    }
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])

        def has_partitions() -> bool:
            consumer.poll(0)
            return bool(consumer.assignment())

        await eventually_async(has_partitions, f"a member of {group} has partitions")
        yield
    finally:
        await asyncio.to_thread(consumer.close)
