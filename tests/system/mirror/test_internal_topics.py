"""Topics of a mirror's own, with a real broker: made once, appended to without gaps and doubles, followed."""

import asyncio
import uuid
from collections.abc import Sequence

import pytest

from ottla_core.client.cluster import AsyncCluster
from ottla_core.wire.records import Record
from ottla_mirror.internal_topics.errors import InternalTopicError
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.internal_topics.topic_follower import TopicFollower
from ottla_mirror.internal_topics.topic_requests import BATCH_BYTES_MAX, Entry
from tests.support.clients.client_cluster import opened_cluster
from tests.support.clusters.broker_under_test import make_anew
from tests.support.clusters.service_process import RestartableBroker

Seen = list[tuple[bytes | None, bytes | None]]


def topic_of(cluster: AsyncCluster, name: str = "") -> InternalTopic:
    return InternalTopic(cluster, name or f"own-{uuid.uuid4().hex[:12]}.internal", replication_factor=1)


def followed(topic: InternalTopic) -> tuple[TopicFollower, Seen]:
    """A follower, and what it has seen since it began or restarted."""
    seen: Seen = []

    def take(records: Sequence[Record]) -> None:
        seen.extend((record.key, record.value) for record in records)

    return TopicFollower(topic, on_records=take, on_restart=seen.clear), seen


async def test_records_are_appended_in_order_and_read_back(bootstrap: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        topic = topic_of(cluster)
        await topic.ensure()
        await topic.ensure()
        follower, seen = followed(topic)
        await topic.append([Entry(b"a", b"1"), Entry(b"b", None)])
        await follower.catch_up()
        assert seen == [(b"a", b"1"), (b"b", None)]
        assert await topic.append([Entry(b"a", b"2")]) == 2
        await follower.catch_up()
        await follower.catch_up()
        assert seen[2:] == [(b"a", b"2")]


async def test_many_who_append_at_once_share_requests_and_all_are_stored(bootstrap: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        topic = topic_of(cluster)
        await topic.ensure()
        entries = [[Entry(b"%d" % number, b"x" * 1000)] for number in range(2000)]
        offsets = await asyncio.gather(*map(topic.append, entries))
        assert len(set(offsets)) <= 2 + 2_100_000 // BATCH_BYTES_MAX
        follower, seen = followed(topic)
        await asyncio.gather(*(follower.catch_up(at_least=offset) for offset in offsets))
        assert [key for key, _ in seen] == [b"%d" % number for number in range(2000)]


async def test_what_was_given_up_is_stored_once_before_anything_else_is(bootstrap: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        topic = topic_of(cluster)
        await topic.ensure()
        given_up: list[bytes] = []
        for number in range(30):
            task = asyncio.create_task(topic.append([Entry(b"given up", b"%d" % number)]))
            for _ in range(number):
                await asyncio.sleep(0)
            if task.cancel():
                given_up.append(b"%d" % number)
            await asyncio.gather(task, return_exceptions=True)
            await topic.append([Entry(b"kept", b"%d" % number)])
        follower, seen = followed(topic)
        await follower.catch_up()
        assert [value for key, value in seen if key == b"kept"] == [b"%d" % number for number in range(30)]
        values = [value for key, value in seen if key == b"given up"]
        assert len(values) == len(set(values))
        for key, value in seen:
            if key == b"given up":
                assert seen.index((key, value)) < seen.index((b"kept", value))
        assert given_up


async def test_a_topic_made_anew_is_read_from_its_start(bootstrap: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        topic = topic_of(cluster)
        await topic.ensure()
        follower, seen = followed(topic)
        await topic.append([Entry(b"old", b"1"), Entry(b"old", b"2")])
        await follower.catch_up()
        await asyncio.to_thread(make_anew, bootstrap, topic.name)
        await topic.append([Entry(b"new", b"1")])
        await follower.catch_up()
        assert seen == [(b"new", b"1")]


async def test_a_batch_that_the_topic_does_not_take_is_an_error_at_once(bootstrap: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        topic = topic_of(cluster)
        await topic.ensure()
        with pytest.raises(InternalTopicError, match="cannot be written: message_too_large"):
            await topic.append([Entry(b"large", b"x" * 2_000_000)])
        await topic.append([Entry(b"small", b"1")])
        follower, seen = followed(topic)
        await follower.catch_up()
        assert seen == [(b"small", b"1")]


async def test_a_topic_that_is_not_there_cannot_be_followed(bootstrap: str) -> None:
    async with opened_cluster(bootstrap) as cluster:
        topic = topic_of(cluster)
        follower, _ = followed(topic)
        with pytest.raises(InternalTopicError, match="is not there"):
            await follower.catch_up()


async def test_appending_goes_on_over_a_crash_of_the_broker(restartable_broker: RestartableBroker) -> None:
    async with opened_cluster(restartable_broker.bootstrap) as cluster:
        topic = topic_of(cluster)
        await topic.ensure()
        await topic.append([Entry(b"k", b"before")])
        await asyncio.to_thread(restartable_broker.kill)
        later = asyncio.create_task(topic.append([Entry(b"k", b"after")], timeout_s=60))
        await asyncio.to_thread(restartable_broker.start)
        await later
        follower, seen = followed(topic)
        await follower.catch_up()
        assert seen == [(b"k", b"before"), (b"k", b"after")]
