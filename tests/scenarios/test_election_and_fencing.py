"""Who leads, and that nobody else can write; in one process, against a real etcd."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from ottla_controller.fenced_writer import COMPARES_PER_TRANSACTION, FencedWriter, Write, WriteConflict
from ottla_core.clock import Clock
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.lease import EtcdLease, LeaseSession
from ottla_core.cluster.membership.election import Election, Leadership
from ottla_core.cluster.state.codec import encode_controller
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import Role
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import NotController
from tests.scenarios.conftest import CLUSTER
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.eventually_async import eventually_async
from tests.support.servers.faulty_proxy import FaultyProxy

SPACE = KeySpace(CLUSTER)


class Candidates:
    """Makes candidates with a lease each, and closes them in the end."""

    def __init__(self, etcd: EtcdClient, closing: AsyncExitStack):
        self._etcd = etcd
        self._closing = closing

    async def make(self, candidate_id: int, *, ttl_ms: int = 1000) -> tuple[Election, LeaseSession]:
        session = LeaseSession(self._etcd, ttl_ms=ttl_ms)
        await session.start()
        self._closing.push_async_callback(session.close)
        value = encode_controller(candidate_id, f"127.0.0.1:{candidate_id}")
        return Election(self._etcd, session, key=SPACE.controller, value=value), session


@pytest.fixture
async def candidates(etcd: EtcdClient) -> AsyncIterator[Candidates]:
    async with AsyncExitStack() as closing:
        yield Candidates(etcd, closing)


class StoppedClock:
    """A clock that has stopped: a process that will not notice that its time is up."""

    def monotonic(self) -> float:
        return 0.0

    def time_ms(self) -> int:
        return 0


def oblivious(leadership: Leadership, clock: Clock) -> Leadership:
    """The same term, as seen by a process whose clock has stopped."""
    return Leadership(leadership.epoch, EtcdLease(0, 1.0, 1.0, clock))


async def test_one_candidate_wins_and_the_next_follows_when_it_resigns(
    candidates: Candidates, feed: ClusterStateFeed
) -> None:
    first, _ = await candidates.make(1, ttl_ms=60_000)
    second, _ = await candidates.make(2, ttl_ms=60_000)
    leading = await first.campaign()
    waiting = asyncio.create_task(second.campaign())
    state = await feed.wait_for_revision(leading.epoch, 10)
    assert state.controller is not None
    assert (state.controller.id, state.controller.epoch) == (1, leading.epoch)
    assert not waiting.done()

    await first.resign(leading)
    assert not leading.is_current()
    await asyncio.wait_for(leading.wait_over(), 10)
    following = await asyncio.wait_for(waiting, 10)
    assert following.epoch > leading.epoch
    assert following.is_current()


async def test_a_revoked_lease_ends_the_term(candidates: Candidates, etcd: EtcdClient) -> None:
    election, session = await candidates.make(1)
    leading = await election.campaign()
    await etcd.revoke_lease(session.lease.id)
    await asyncio.wait_for(leading.wait_over(), 10)
    assert not leading.is_current()
    again = await asyncio.wait_for(election.campaign(), 10)
    assert again.epoch > leading.epoch


@pytest.mark.slow
async def test_a_leader_that_lost_sight_of_etcd_stops_by_its_own_clock(
    candidates: Candidates, etcd_process: EtcdProcess
) -> None:
    election, _ = await candidates.make(1)
    leading = await election.campaign()
    etcd_process.pause()
    try:
        await eventually_async(lambda: not leading.is_current(), "its deadline has passed", within_s=10)
    finally:
        etcd_process.resume()


@pytest.mark.parametrize("lost", ["answers", "requests"])
async def test_a_candidate_whose_answer_was_lost_finds_out_that_it_leads(
    etcd: EtcdClient, proxied_etcd: EtcdClient, proxy: FaultyProxy, lost: str
) -> None:
    session = LeaseSession(proxied_etcd, ttl_ms=20_000)
    await session.start()
    election = Election(proxied_etcd, session, key=SPACE.controller, value=encode_controller(1, "h:1"))
    async with proxy.losing(lost):
        campaigning = asyncio.create_task(election.campaign())
    leadership = await asyncio.wait_for(campaigning, 30)
    found = await etcd.read(SPACE.controller)
    assert found is not None
    assert found.create_revision == leadership.epoch
    await session.close()


async def test_a_deposed_controller_cannot_write_whatever_it_believes(
    candidates: Candidates, etcd: EtcdClient
) -> None:
    first, session = await candidates.make(1)
    second, _ = await candidates.make(2)
    former = oblivious(await first.campaign(), StoppedClock())
    writer = FencedWriter(etcd, SPACE, former)
    key = SPACE.topic("x")
    revision = await writer.write([Write(key=key, value=b"1", replaces=op.ABSENT)])

    await etcd.revoke_lease(session.lease.id)
    assert former.is_current(), "it does not know"
    with pytest.raises(NotController):
        await writer.write([Write(key=key, value=b"2", replaces=revision)])
    assert not former.is_current(), "now it does"

    await second.campaign()
    late = FencedWriter(etcd, SPACE, oblivious(Leadership(former.epoch, session.lease), StoppedClock()))
    with pytest.raises(NotController):
        await late.write([Write(key=key, value=None, replaces=revision)])
    found = await etcd.read(key)
    assert found is not None
    assert found.value == b"1"


async def test_a_write_for_which_keys_must_be_complete_conflicts_with_a_key_created_since(
    candidates: Candidates, etcd: EtcdClient
) -> None:
    election, _ = await candidates.make(1)
    writer = FencedWriter(etcd, SPACE, await election.campaign())
    seen = (await etcd.list_prefix(SPACE.prefix)).revision
    write = Write(key=SPACE.features, value=b"1", replaces=op.ABSENT, complete_below=(SPACE.members, seen))
    registered = await etcd.transaction([], [op.put(f"{SPACE.members}broker/1", b"{}")])
    with pytest.raises(WriteConflict) as conflict:
        await writer.write([write])
    assert conflict.value.keys == {SPACE.features}
    assert conflict.value.revision > registered.revision
    assert await etcd.read(SPACE.features) is None
    await writer.write([replace(write, complete_below=(SPACE.members, conflict.value.revision))])
    assert await etcd.read(SPACE.features) is not None


async def test_a_writer_whose_term_is_over_by_the_clock_does_not_even_ask(etcd: EtcdClient) -> None:
    over = Leadership(1, EtcdLease(0, 1.0, -1.0, StoppedClock()))
    with pytest.raises(NotController):
        await FencedWriter(etcd, SPACE, over).write([Write(key="x", value=b"1", replaces=op.ABSENT)])


class Writing:
    """A leader that writes through the proxy, and a look at etcd past it."""

    def __init__(self, etcd: EtcdClient, writer: FencedWriter):
        self.etcd = etcd
        self.writer = writer

    async def value_of(self, key: str) -> bytes | None:
        found = await self.etcd.read(key)
        return None if found is None else found.value


@pytest.fixture
async def writing(candidates: Candidates, etcd: EtcdClient, proxied_etcd: EtcdClient) -> Writing:
    election, _ = await candidates.make(1, ttl_ms=30_000)
    await proxied_etcd.server_version()
    return Writing(etcd, FencedWriter(proxied_etcd, SPACE, await election.campaign()))


@pytest.mark.parametrize("lost", ["answers", "requests"])
async def test_a_put_whose_answer_was_lost_is_done_once(writing: Writing, proxy: FaultyProxy, lost: str) -> None:
    key = SPACE.topic("x")
    async with proxy.losing(lost):
        task = asyncio.create_task(writing.writer.write([Write(key=key, value=b"1", replaces=op.ABSENT)]))
    revision = await asyncio.wait_for(task, 30)
    found = await writing.etcd.read(key)
    assert found is not None
    assert (found.value, found.mod_revision, found.create_revision) == (b"1", revision, revision)


@pytest.mark.parametrize("lost", ["answers", "requests"])
async def test_a_deletion_whose_answer_was_lost_ends_at_a_revision_that_everybody_will_see(
    writing: Writing, proxy: FaultyProxy, feed: ClusterStateFeed, lost: str
) -> None:
    key = SPACE.topic("x")
    written = await writing.writer.write([Write(key=key, value=b"1", replaces=op.ABSENT)])
    async with proxy.losing(lost):
        task = asyncio.create_task(writing.writer.write([Write(key=key, value=None, replaces=written)]))
    revision = await asyncio.wait_for(task, 30)
    assert await writing.value_of(key) is None
    assert (await feed.wait_for_revision(revision, 10)).revision >= revision


async def test_a_lost_answer_does_not_hide_that_somebody_else_had_written(
    writing: Writing, proxy: FaultyProxy
) -> None:
    key = SPACE.topic("x")
    written = await writing.writer.write([Write(key=key, value=b"1", replaces=op.ABSENT)])
    await writing.etcd.transaction([], [op.put(key, b"other")])
    async with proxy.losing("answers"):
        task = asyncio.create_task(writing.writer.write([Write(key=key, value=b"2", replaces=written)]))
    with pytest.raises(WriteConflict, match="topics/x"):
        await asyncio.wait_for(task, 30)
    assert await writing.value_of(key) == b"other"


async def test_a_write_that_replaces_something_else_than_it_thinks_is_refused(writing: Writing) -> None:
    key = SPACE.topic("x")
    await writing.writer.write([Write(key=key, value=b"1", replaces=op.ABSENT)])
    with pytest.raises(WriteConflict):
        await writing.writer.write([Write(key=key, value=b"2", replaces=op.ABSENT)])
    with pytest.raises(WriteConflict):
        await writing.writer.write([Write(key=SPACE.topic("gone"), value=None, replaces=5)])
    assert await writing.value_of(key) == b"1"


async def test_a_write_that_depends_on_a_key_that_came_anew_is_refused(writing: Writing) -> None:
    other, key = SPACE.member(Role.BROKER, 7), SPACE.topic("x")
    created = (await writing.etcd.transaction([], [op.put(other, b"1")], [])).revision
    write = Write(key=key, value=b"1", replaces=op.ABSENT, depends_on=((other, created),))
    await writing.etcd.transaction([], [op.delete(other)], [])
    await writing.etcd.transaction([], [op.put(other, b"2")], [])
    with pytest.raises(WriteConflict):
        await writing.writer.write([write])
    again = (await writing.etcd.read(other)).create_revision  # type: ignore[union-attr]
    await writing.writer.write([replace(write, depends_on=((other, again),))])
    assert await writing.value_of(key) == b"1"


async def test_many_writes_that_depend_on_many_keys_fit_into_transactions(writing: Writing) -> None:
    writes = [
        Write(key=SPACE.topic(f"d{n}"), value=b"{}", replaces=op.ABSENT, depends_on=((SPACE.topic(f"no-{n}"), 0),))
        for n in range(COMPARES_PER_TRANSACTION)
    ]
    assert await writing.writer.write(writes) > 0


async def test_many_writes_are_split_in_order(writing: Writing, feed: ClusterStateFeed) -> None:
    count = 3 * COMPARES_PER_TRANSACTION + 1
    keys = [SPACE.topic(f"t{number}") for number in range(count)]
    revision = await writing.writer.write([Write(key=key, value=b"{}", replaces=op.ABSENT) for key in keys])
    last = await writing.etcd.read(keys[-1])
    first = await writing.etcd.read(keys[0])
    assert last is not None
    assert first is not None
    assert (last.mod_revision, last.mod_revision - first.mod_revision) == (revision, 3)
    await feed.wait_for_revision(revision, 10)


async def test_nothing_to_write_is_no_transaction(writing: Writing) -> None:
    assert await writing.writer.write([]) == 0
