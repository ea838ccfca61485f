"""The store of copies in a topic of a real broker, as workers use it that take over from each other."""

import asyncio
import uuid
from dataclasses import replace
from uuid import UUID

import pytest

from ottla_core.client.cluster import AsyncCluster
from ottla_mirror.internal_topics.errors import InternalTopicError, WrittenByNewerVersion
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.internal_topics.topic_requests import Entry
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.map_topic import MapTopic
from ottla_mirror.offsets.offset_map import Translation
from ottla_mirror.offsets.stored_copy import Session, StoredCopy, begun
from tests.support.clients.client_cluster import opened_cluster

SOURCE_ID, TARGET_ID = UUID(int=1), UUID(int=2)
ORDERS = SourcePartition(topic="orders", topic_id=SOURCE_ID, partition=0)


def session_of(producer_id: int, replaced: Session | None = None, start: int = 10) -> Session:
    return Session(
        producer_id=producer_id,
        producer_epoch=0,
        source_topic_id=SOURCE_ID,
        source_start_offset=start,
        target_topic_id=TARGET_ID,
        target_start_offset=0,
        replaces=replaced.name if replaced else None,
    )


async def started(cluster: AsyncCluster, name: str) -> MapTopic:
    store = MapTopic(InternalTopic(cluster, name, replication_factor=1))
    await store.start()
    return store


@pytest.fixture
def name() -> str:
    return f"{uuid.uuid4().hex[:8]}.offset-map.internal"


async def test_a_copy_is_found_as_it_was_saved(bootstrap: str, name: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        store = await started(cluster, name)
        assert await store.load([ORDERS]) == {}
        session = session_of(7)
        assert await store.begin_session(ORDERS, session) == session
        copy = begun(session, None)
        for number in range(3000):
            copy.map.append(10 + number * 11, number * 10, 10)
            if number % 500 == 0:
                await store.save({ORDERS: replace(copy, next_sequence=number * 10)})
        await store.save({ORDERS: replace(copy, next_sequence=30_000)})
        found = (await (await started(cluster, name)).load([ORDERS]))[ORDERS]
        assert (found.session, found.next_sequence) == (session, 30_000)
        assert list(found.map.runs()) == list(copy.map.runs())
        assert found.map.translate(10 + 11 * 1234 + 10) == Translation(12350, 0)
        assert not found.map.holes()


async def test_of_workers_that_begin_sessions_at_once_all_hear_of_the_same(bootstrap: str, name: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        stores = [await started(cluster, name) for _ in range(5)]
        first = session_of(1)
        await stores[0].begin_session(ORDERS, first)
        own = [session_of(number, first) for number in range(10, 15)]
        held = await asyncio.gather(
            *(store.begin_session(ORDERS, session) for store, session in zip(stores, own, strict=True))
        )
        assert len(set(held)) == 1
        assert held[0] in own
        assert (await stores[0].load([ORDERS]))[ORDERS].session == held[0]


async def test_a_late_worker_overwrites_nothing_of_its_successor(bootstrap: str, name: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        early, late = await started(cluster, name), await started(cluster, name)
        session = session_of(7)
        await early.begin_session(ORDERS, session)
        copy = begun(session, None)
        copy.map.append(10, 0, 5)
        await early.save({ORDERS: replace(copy, next_sequence=5)})
        taken = (await late.load([ORDERS]))[ORDERS]
        taken.map.append(15, 5, 20)
        await late.save({ORDERS: replace(taken, next_sequence=25)})
        copy.map.append(15, 5, 1)
        await early.save({ORDERS: replace(copy, next_sequence=6)})
        found = (await (await started(cluster, name)).load([ORDERS]))[ORDERS]
        assert (found.next_source_offset, found.next_sequence) == (35, 25)


async def test_a_worker_that_has_its_partition_back_unawares_is_heard_again(bootstrap: str, name: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        owner, other = await started(cluster, name), await started(cluster, name)
        session = session_of(7)
        await owner.begin_session(ORDERS, session)
        copy = begun(session, None)
        copy.map.append(10, 0, 5)
        await owner.save({ORDERS: replace(copy, next_sequence=5)})
        taken = (await other.load([ORDERS]))[ORDERS]
        taken.map.append(15, 5, 1)
        await other.save({ORDERS: replace(taken, next_sequence=6)})
        for source in (15, 35):
            copy.map.append(source, source - 10, 20)
            await owner.save({ORDERS: replace(copy, next_sequence=source + 10)})
        found = (await (await started(cluster, name)).load([ORDERS]))[ORDERS]
        assert (found.next_source_offset, found.next_sequence) == (55, 45)
        assert not found.map.holes()


async def test_what_has_not_changed_is_not_written_again(bootstrap: str, name: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        topic = InternalTopic(cluster, name, replication_factor=1)
        store = MapTopic(topic)
        await store.start()
        partitions = [replace(ORDERS, partition=number) for number in range(50)]
        sessions = [session_of(number) for number in range(50)]
        await asyncio.gather(*map(store.begin_session, partitions, sessions))
        copies = {partition: begun(session, None) for partition, session in zip(partitions, sessions, strict=True)}
        await store.save(copies)
        end = await topic.end_offset()
        copies[ORDERS].map.append(10, 0, 5)
        await store.save(copies)
        await store.save(copies)
        assert await topic.end_offset() == end + 2  # a chunk and a position


async def test_a_copy_is_read_without_taking_it_over(bootstrap: str, name: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        owner, reader = await started(cluster, name), await started(cluster, name)
        session = session_of(7)
        await owner.begin_session(ORDERS, session)
        copy: StoredCopy = begun(session, None)
        copy.map.append(12, 0, 5)
        await owner.save({ORDERS: copy})
        await reader.read()
        before = reader.revision("orders", 0)
        found = reader.copy("orders", 0)
        assert found is not None
        assert found.map.translate(11) == Translation(0, 0)
        copy.map.append(17, 5, 5)
        await owner.save({ORDERS: copy})
        await reader.read()
        assert reader.revision("orders", 0) != before
        await owner.forget([ORDERS])
        await reader.read()
        assert reader.copy("orders", 0) is None


async def test_records_of_a_later_version_are_refused_by_name(bootstrap: str, name: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        topic = InternalTopic(cluster, name, replication_factor=1)
        store = MapTopic(topic)
        await store.start()
        await topic.append([Entry(b"\x00\x09\x01\x00\x00", b"what is to come")])
        with pytest.raises(WrittenByNewerVersion, match=r"at offset 0 has version 9 of the format.*up to 1"):
            await store.load([ORDERS])


async def test_a_topic_of_somebody_else_is_refused(bootstrap: str, name: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        topic = InternalTopic(cluster, name, replication_factor=1)
        await topic.ensure()
        await topic.append([Entry(b"key", b"value")])
        with pytest.raises(InternalTopicError, match=r"at offset 0 .*Something else writes to this topic"):
            await MapTopic(topic).start()
