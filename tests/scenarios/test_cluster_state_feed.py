"""The watch and the feed against a real etcd that restarts, compacts, stalls or is emptied."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from ottla_core.background import failures
from ottla_core.cluster.etcd import connection as etcd_connection
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.errors import EtcdUnavailable, WatchHistoryLost
from ottla_core.cluster.etcd.key_value import KeyChange, KeyValue
from ottla_core.cluster.membership.cluster_id import ensure_cluster_id
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.codec import TopicRecord
from ottla_core.cluster.state.feature_check import LevelUnsupported
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import ClusterState, PartitionState, Recovery
from ottla_core.cluster.state.state_tracker import ClusterReplaced
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import RequestTimedOut
from tests.scenarios.conftest import CLUSTER
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.free_ports import free_port
from tests.support.servers.faulty_proxy import FaultyProxy

SPACE = KeySpace(CLUSTER)
WATCH_DEADLINE_S = 60


@asynccontextmanager
async def client_of(process: EtcdProcess) -> AsyncIterator[EtcdClient]:
    """A client of its own."""
    client = EtcdClient([process.endpoint])
    yield client
    await client.close()


def empty(etcd_process: EtcdProcess) -> None:
    """Starts etcd anew without its data."""
    etcd_process.stop()
    shutil.rmtree(etcd_process.directory / "data")
    etcd_process.start()


async def write_setting(etcd: EtcdClient, broker_id: int, value: str) -> int:
    """Writes a broker's setting and returns the revision."""
    write = op.put(SPACE.broker_config(broker_id), codec.encode_config({"v": value}))
    return (await etcd.transaction([], [write])).revision


async def test_a_feed_begins_with_what_is_there_and_follows(etcd: EtcdClient) -> None:
    await write_setting(etcd, 1, "a")
    feed = ClusterStateFeed(etcd, CLUSTER)
    await feed.start()
    steps: list[tuple[ClusterState, ClusterState]] = []
    feed.subscribe(lambda former, new: steps.append((former, new)))
    first = feed.state
    assert first.broker_configs == {1: {"v": "a"}}

    revision = await write_setting(etcd, 1, "b")
    state = await feed.wait_for_revision(revision, 10)
    assert state.broker_configs == {1: {"v": "b"}}
    assert steps == [(first, state)]
    await feed.close()


LATER = op.put(SPACE.broker_config(1), b'{"format":2,"all":"is different"}')


async def test_a_value_of_a_later_format_ends_a_process_that_follows(
    etcd: EtcdClient, feed: ClusterStateFeed
) -> None:
    await etcd.transaction([], [LATER])
    failure = await asyncio.wait_for(feed.wait_failed(), 10)
    assert isinstance(failure, LevelUnsupported)
    assert "of format 2, and this release reads format 1: start a release that has it" in str(failure)


async def test_a_process_does_not_begin_where_there_is_a_value_of_a_later_format(etcd: EtcdClient) -> None:
    await etcd.transaction([], [LATER])
    with pytest.raises(LevelUnsupported, match="of format 2"):
        await ClusterStateFeed(etcd, CLUSTER).start()


async def test_a_value_that_is_damaged_ends_nobody(etcd: EtcdClient, feed: ClusterStateFeed) -> None:
    await write_setting(etcd, 1, "a")
    await etcd.transaction([], [op.put(SPACE.broker_config(1), b"damaged")])
    revision = await write_setting(etcd, 2, "b")
    state = await feed.wait_for_revision(revision, 10)
    assert state.broker_configs == {1: {"v": "a"}, 2: {"v": "b"}}


async def test_waiting_for_a_revision_that_does_not_come_times_out(feed: ClusterStateFeed) -> None:
    with pytest.raises(RequestTimedOut, match="revision"):
        await feed.wait_for_revision(feed.state.revision + 1000, 0.05)


async def test_a_listener_that_raises_does_not_stop_the_feed_and_is_counted(
    etcd: EtcdClient, feed: ClusterStateFeed
) -> None:
    def fail(_former: ClusterState, _new: ClusterState) -> None:
        raise RuntimeError("listener's bug")

    failures_before = failures.total()
    feed.subscribe(fail)
    heard: list[int] = []
    unsubscribe = feed.subscribe(lambda _former, new: heard.append(new.revision))
    revision = await write_setting(etcd, 1, "a")
    await feed.wait_for_revision(revision, 10)
    assert heard == [revision]
    assert failures.total() == failures_before + 1
    unsubscribe()
    await feed.wait_for_revision(await write_setting(etcd, 1, "b"), 10)
    assert heard == [revision]


async def test_a_listing_longer_than_a_page_is_complete(etcd: EtcdClient) -> None:
    count = 4500
    for start in range(0, count, 100):
        writes = [op.put(SPACE.broker_config(n), codec.encode_config({})) for n in range(start, start + 100)]
        await etcd.transaction([], writes)
    listing = await etcd.list_prefix(SPACE.prefix)
    assert len({entry.key for entry in listing.entries}) == count


@pytest.mark.slow
async def test_a_feed_goes_on_after_etcd_has_restarted(
    etcd: EtcdClient, feed: ClusterStateFeed, etcd_process: EtcdProcess
) -> None:
    await feed.wait_for_revision(await write_setting(etcd, 1, "before"), 10)
    etcd_process.restart()
    other = EtcdClient([etcd_process.endpoint])
    await other.server_version()
    revision = await write_setting(other, 2, "after")
    state = await feed.wait_for_revision(revision, 30)
    assert state.broker_configs == {1: {"v": "before"}, 2: {"v": "after"}}
    await other.close()


@pytest.mark.slow
async def test_an_interrupted_watch_delivers_every_change_once_and_in_order(
    etcd: EtcdClient, proxied_etcd: EtcdClient, proxy: FaultyProxy
) -> None:
    """Catching up comes in several batches that all carry the newest revision in their header."""
    first = await write_setting(etcd, 1, "0")
    seen: list[int] = []
    interruptions = 0
    batches = proxied_etcd.watch_prefix(SPACE.prefix, first)
    async with asyncio.timeout(WATCH_DEADLINE_S), aclosing(batches):
        async for batch in batches:
            seen.extend(change.mod_revision for change in batch.changes)
            if seen == [first]:
                proxy.lose_answers = True
                proxy.sever()
                last = first
                for number in range(3000):
                    last = await write_setting(etcd, 1, str(number))
                proxy.lose_answers = False
                proxy.sever()
            elif interruptions < 2:
                interruptions += 1
                proxy.sever()
            if seen[-1] == last:
                break
    assert seen == list(range(first, last + 1))


@pytest.mark.slow
async def test_a_feed_lists_again_when_its_history_was_compacted(
    etcd: EtcdClient, proxied_etcd: EtcdClient, proxy: FaultyProxy, etcd_process: EtcdProcess
) -> None:
    feed = ClusterStateFeed(proxied_etcd, CLUSTER)
    await feed.start()
    await feed.wait_for_revision(await write_setting(etcd, 1, "kept"), 10)
    proxy.lose_answers = True
    proxy.sever()
    for number in range(20):
        revision = await write_setting(etcd, 2, str(number))
    await etcd.transaction([], [op.delete(SPACE.broker_config(1))])
    revision = await write_setting(etcd, 3, "last")
    etcd_process.etcdctl("compact", str(revision))
    proxy.lose_answers = False
    proxy.sever()
    state = await feed.wait_for_revision(revision, 30)
    assert state.broker_configs == {2: {"v": "19"}, 3: {"v": "last"}}
    await feed.close()


async def test_a_watch_from_a_compacted_revision_says_that_history_is_lost(
    etcd: EtcdClient, etcd_process: EtcdProcess
) -> None:
    for number in range(5):
        revision = await write_setting(etcd, 1, str(number))
    etcd_process.etcdctl("compact", str(revision))
    with pytest.raises(WatchHistoryLost, match=f"keeps {revision}"):
        await anext(etcd.watch_prefix(SPACE.prefix, 2))


@pytest.mark.slow
async def test_a_feed_notices_that_etcd_was_emptied(
    etcd: EtcdClient, feed: ClusterStateFeed, etcd_process: EtcdProcess
) -> None:
    for number in range(20):
        revision = await write_setting(etcd, number, "old")
    await feed.wait_for_revision(revision, 10)
    known = feed.state
    empty(etcd_process)
    failure = await asyncio.wait_for(feed.wait_failed(), 30)
    assert isinstance(failure, ClusterReplaced)
    assert "was etcd restored or emptied?" in str(failure)
    assert feed.state is known, "nothing of what is known is given up"


@pytest.mark.slow
async def test_a_feed_notices_an_emptied_etcd_that_has_come_further_since(
    etcd: EtcdClient,
    proxied_etcd: EtcdClient,
    proxy: FaultyProxy,
    etcd_process: EtcdProcess,
) -> None:
    await ensure_cluster_id(etcd, CLUSTER)
    feed = ClusterStateFeed(proxied_etcd, CLUSTER)
    await feed.start()
    await feed.wait_for_revision(await write_setting(etcd, 1, "old"), 10)
    known = feed.state
    proxy.lose_answers = True
    proxy.sever()
    empty(etcd_process)
    async with client_of(etcd_process) as other:
        await ensure_cluster_id(other, CLUSTER)
        for number in range(20):
            await write_setting(other, number, "new")
    proxy.lose_answers = False
    proxy.sever()
    failure = await asyncio.wait_for(feed.wait_failed(), 30)
    assert f"belongs to the cluster {known.cluster_id}" in str(failure)
    assert feed.state is known
    await feed.close()


@pytest.mark.slow
async def test_a_feed_notices_a_recovery_of_the_same_cluster_that_has_come_further_since(
    etcd: EtcdClient,
    proxied_etcd: EtcdClient,
    proxy: FaultyProxy,
    etcd_process: EtcdProcess,
) -> None:
    cluster_id = await ensure_cluster_id(etcd, CLUSTER)
    feed = ClusterStateFeed(proxied_etcd, CLUSTER)
    await feed.start()
    await feed.wait_for_revision(await write_setting(etcd, 1, "old"), 10)
    known = feed.state
    proxy.lose_answers = True
    proxy.sever()
    empty(etcd_process)
    async with client_of(etcd_process) as other:
        put_id = op.put(SPACE.cluster_id, codec.encode_cluster_id(cluster_id))
        put_recovery = op.put(SPACE.recovery, codec.encode_recovery(Recovery(number=7)))
        await other.transaction([], [put_id, put_recovery])
        for number in range(20):
            await write_setting(other, number, "new")
    proxy.lose_answers = False
    proxy.sever()
    failure = await asyncio.wait_for(feed.wait_failed(), 30)
    assert "recovery 7" in str(failure)
    assert feed.state is known
    await feed.close()


async def test_a_feed_that_expects_a_cluster_does_not_begin_with_another(etcd: EtcdClient) -> None:
    await ensure_cluster_id(etcd, CLUSTER)
    with pytest.raises(ClusterReplaced, match="belongs to the cluster ours"):
        await ClusterStateFeed(etcd, CLUSTER, cluster_id="ours").start()


async def test_a_cluster_whose_keys_are_all_deleted_is_not_taken_for_one_whose_topics_are(
    etcd: EtcdClient, etcd_process: EtcdProcess
) -> None:
    await ensure_cluster_id(etcd, CLUSTER)
    topic_id = uuid4()
    partition = PartitionState(topic_id=topic_id, index=0, replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
    record = TopicRecord(id=topic_id, partition_count=1)
    await etcd.transaction(
        [],
        [
            op.put(SPACE.partition(topic_id, 0), codec.encode_partition(partition)),
            op.put(SPACE.topic("t"), codec.encode_topic(record)),
        ],
    )
    feed = ClusterStateFeed(etcd, CLUSTER)
    await feed.start()
    steps: list[ClusterState] = []
    feed.subscribe(lambda _former, new: steps.append(new))
    etcd_process.etcdctl("del", "--prefix", SPACE.prefix)
    assert isinstance(await asyncio.wait_for(feed.wait_failed(), 30), ClusterReplaced)
    assert set(feed.state.topics) == {"t"}
    assert steps == []
    await feed.close()


@pytest.mark.slow
async def test_a_topic_deleted_while_the_history_was_compacted_is_missing_but_not_known_to_be_deleted(
    etcd: EtcdClient, proxied_etcd: EtcdClient, proxy: FaultyProxy, etcd_process: EtcdProcess
) -> None:
    ids = {name: uuid4() for name in ("seen", "unseen")}
    for name, topic_id in ids.items():
        record = TopicRecord(id=topic_id, partition_count=0)
        await etcd.transaction([], [op.put(SPACE.topic(name), codec.encode_topic(record))])
    feed = ClusterStateFeed(proxied_etcd, CLUSTER)
    await feed.start()
    assert set(feed.state.topics) == set(ids)
    await etcd.transaction([], [op.delete(SPACE.topic("seen"))])
    await feed.wait_for(lambda state: "seen" not in state.topics, 10)
    proxy.lose_answers = True
    proxy.sever()
    await etcd.transaction([], [op.delete(SPACE.topic("unseen"))])
    revision = await write_setting(etcd, 1, "last")
    etcd_process.etcdctl("compact", str(revision))
    proxy.lose_answers = False
    proxy.sever()
    state = await feed.wait_for_revision(revision, 30)
    assert state.topics == {}
    assert set(state.deleted_topics) == {ids["seen"]}
    await feed.close()


@pytest.mark.slow
async def test_listeners_hear_of_a_revision_at_which_nothing_of_the_cluster_has_changed(tmp_path: Path) -> None:
    chatty = EtcdProcess(tmp_path / "chatty", arguments=["--experimental-watch-progress-notify-interval", "200ms"])
    chatty.start()
    try:
        async with client_of(chatty) as etcd:
            feed = ClusterStateFeed(etcd, CLUSTER)
            await feed.start()
            heard: list[tuple[ClusterState, ClusterState]] = []
            feed.subscribe(lambda former, new: heard.append((former, new)))
            elsewhere = (await etcd.transaction([], [op.put("/elsewhere", b"")])).revision
            await feed.wait_for_revision(elsewhere, 30)
            (step,) = heard
            assert step[1] is feed.state
            assert step[1] == replace(step[0], revision=elsewhere)
            await feed.close()
    finally:
        chatty.stop()


@pytest.mark.slow
async def test_an_etcd_that_is_not_there_is_reported_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_connection, "READ_TIMEOUT_S", 1.0)
    client = EtcdClient([f"http://127.0.0.1:{free_port()}"])
    with pytest.raises(EtcdUnavailable, match="Connection refused"):
        await client.read("x")
    await client.close()


@pytest.mark.slow
async def test_reads_move_on_to_an_endpoint_that_answers(etcd_process: EtcdProcess) -> None:
    dead = [f"http://127.0.0.1:{free_port()}", f"http://localhost:{free_port()}"]
    client = EtcdClient([*dead, etcd_process.endpoint])
    assert (await client.list_prefix("x")).entries == ()
    await client.close()


class KeptCopy:
    """A copier that notes what it was told, by key."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.revision = 0

    async def listed(self, entries: Sequence[KeyValue], revision: int) -> None:
        await asyncio.sleep(0.01)  # as long as a disk takes
        self.values, self.revision = {entry.key: entry.value for entry in entries}, revision

    def changed(self, changes: Sequence[KeyChange], revision: int) -> None:
        self.revision = revision
        for change in changes:
            if isinstance(change, KeyValue):
                self.values[change.key] = change.value
            else:
                del self.values[change.key]


async def test_what_listeners_see_was_copied_before(etcd: EtcdClient, etcd_process: EtcdProcess) -> None:
    """A leader must not acknowledge records under an in-sync set that is in nobody's copy."""
    await ensure_cluster_id(etcd, CLUSTER)
    await write_setting(etcd, 1, "a")
    copy = KeptCopy()
    feed = ClusterStateFeed(etcd, CLUSTER, copier=copy)
    seen: list[str] = []

    def look(_former: ClusterState, new: ClusterState) -> None:
        assert codec.decode_config(copy.values[SPACE.broker_config(1)]) == new.broker_configs[1]
        assert copy.revision >= new.revision
        seen.append(new.broker_configs[1]["v"])

    feed.subscribe(look)
    await feed.start()
    for value in "bcd":
        await feed.wait_for_revision(await write_setting(etcd, 1, value), 10)
    assert seen == ["a", "b", "c", "d"]

    empty(etcd_process)
    async with client_of(etcd_process) as another:
        for _ in range(20):  # so that its revision is not the earlier one
            await write_setting(another, 1, "of another cluster")
    assert isinstance(await feed.wait_failed(), ClusterReplaced)
    assert codec.decode_config(copy.values[SPACE.broker_config(1)]) == {"v": "d"}, "the copy is still ours"
    await feed.close()
