"""Attempts to write that etcd carries out long after their answer was given up, against a real etcd.

What such an attempt compares with may hold again by then: a key that was deleted is as absent as it was before.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest

from ottla_controller.change_encoder import ChangeEncoder
from ottla_controller.change_sequence import ChangeSequence
from ottla_controller.fenced_writer import COMPARES_PER_TRANSACTION, FencedWriter, Write, WriteConflict
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient, TransactionResult
from ottla_core.cluster.etcd.errors import EtcdError, WriteOutcomeUnknown
from ottla_core.cluster.etcd.lease import LeaseSession
from ottla_core.cluster.membership.election import Election, Leadership
from ottla_core.cluster.state.codec import encode_controller
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import PartitionState, Role, Topic
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import KafkaError
from ottla_proto.gen.etcd.rpc_pb2 import Compare, RequestOp
from tests.scenarios.conftest import CLUSTER, LONG_TTL_MS
from tests.support.clusters.etcd_process import EtcdProcess

SPACE = KeySpace(CLUSTER)
Attempt = tuple[Sequence[Compare], Sequence[RequestOp], Sequence[RequestOp]]


class LateEtcd(EtcdClient):
    """Loses the next transactions: their callers hear nothing, and etcd has not got them yet. Refuses some then."""

    def __init__(self, endpoint: str) -> None:
        super().__init__([endpoint])
        self.pass_on = 0
        self.lose = 0
        self.refuse = 0
        self.lost: list[Attempt] = []

    async def transaction(
        self, compares: Sequence[Compare], success: Sequence[RequestOp], failure: Sequence[RequestOp] = ()
    ) -> TransactionResult:
        if self.pass_on:
            self.pass_on -= 1
        elif self.lose:
            self.lose -= 1
            self.lost.append((compares, success, failure))
            raise WriteOutcomeUnknown("lost by the test")
        elif self.refuse:
            self.refuse -= 1
            raise EtcdError("refused by the test, as by a full database")
        return await super().transaction(compares, success, failure)

    async def carry_out_lost(self) -> list[TransactionResult]:
        """The network delivers what it had held back."""
        return [await super(LateEtcd, self).transaction(*attempt) for attempt in self.lost]


@pytest.fixture
async def late_etcd(etcd_process: EtcdProcess) -> AsyncIterator[LateEtcd]:
    client = LateEtcd(etcd_process.endpoint)
    yield client
    await client.close()


@asynccontextmanager
async def leading(etcd: EtcdClient) -> AsyncIterator[Leadership]:
    session = LeaseSession(etcd, ttl_ms=LONG_TTL_MS)
    await session.start()
    try:
        election = Election(etcd, session, key=SPACE.controller, value=encode_controller(1, "h:1"))
        yield await election.campaign()
    finally:
        await session.close()


async def test_a_late_creation_does_not_bring_a_deleted_key_back(late_etcd: LateEtcd) -> None:
    async with leading(late_etcd) as leadership:
        writer = FencedWriter(late_etcd, SPACE, leadership)
        await writer.write([Write(key=SPACE.topic("before"), value=b"", replaces=op.ABSENT)])
        key = SPACE.topic("x")
        late_etcd.lose = 1
        created = await writer.write([Write(key=key, value=b"1", replaces=op.ABSENT)])
        await writer.write([Write(key=key, value=None, replaces=created)])

        (late,) = await late_etcd.carry_out_lost()
        assert not late.succeeded
        assert await late_etcd.read(key) is None


async def test_a_creation_of_a_term_that_failed_does_not_happen_in_the_next_one_under_the_same_key(
    late_etcd: LateEtcd,
) -> None:
    async with leading(late_etcd) as leadership:
        key = SPACE.topic("x")
        former = FencedWriter(late_etcd, SPACE, leadership)
        await former.write([Write(key=SPACE.topic("before"), value=b"", replaces=op.ABSENT)])
        late_etcd.lose = 2  # the attempt, and what would have stopped it
        leadership_ends = Leadership(leadership.epoch, leadership._lease)
        former._leadership = leadership_ends
        original = late_etcd.transaction

        async def losing(*args: Sequence[Compare]) -> TransactionResult:
            try:
                return await original(*args)  # type: ignore[arg-type]
            finally:
                leadership_ends.give_up()

        late_etcd.transaction = losing  # type: ignore[method-assign, assignment]
        with pytest.raises(Exception, match="does not lead"):
            await former.write([Write(key=key, value=b"1", replaces=op.ABSENT)])
        late_etcd.transaction = original  # type: ignore[method-assign]
        late_etcd.lose = 0

        writer = FencedWriter(late_etcd, SPACE, leadership)
        created = await writer.write([Write(key=key, value=b"2", replaces=op.ABSENT)])
        await writer.write([Write(key=key, value=None, replaces=created)])
        await late_etcd.carry_out_lost()
        assert await late_etcd.read(key) is None


async def test_a_change_that_failed_does_not_happen_after_the_next_one(late_etcd: LateEtcd) -> None:
    """Its answer was lost, and etcd refused the touch that would have told, as it does while it is overloaded."""
    async with leading(late_etcd) as leadership:
        writer = FencedWriter(late_etcd, SPACE, leadership)
        key = SPACE.delegation_token("x")
        await writer.write([Write(key=key, value=b"first", replaces=None)])
        late_etcd.lose = late_etcd.refuse = 1
        with pytest.raises(EtcdError, match="refused by the test"):
            await writer.write([Write(key=key, value=b"refused", replaces=None)])
        await writer.write([Write(key=key, value=b"second", replaces=None)])

        (late,) = await late_etcd.carry_out_lost()
        assert not late.succeeded
        found = await late_etcd.read(key)
        assert found is not None
        assert found.value == b"second"


async def test_after_a_refusal_nothing_has_to_be_put_before_a_deletion(late_etcd: LateEtcd) -> None:
    """An etcd whose database is full takes deletions alone."""
    async with leading(late_etcd) as leadership:
        writer = FencedWriter(late_etcd, SPACE, leadership)
        key = SPACE.topic("x")
        created = await writer.write([Write(key=key, value=b"1", replaces=op.ABSENT)])
        late_etcd.refuse = 1
        with pytest.raises(EtcdError, match="refused by the test"):
            await writer.write([Write(key=SPACE.topic("y"), value=b"1", replaces=op.ABSENT)])

        late_etcd.pass_on, late_etcd.refuse = 1, 1
        await writer.write([Write(key=key, value=None, replaces=created)])
        assert await late_etcd.read(key) is None


async def test_a_topic_is_not_created_after_its_partitions_were_removed(
    late_etcd: LateEtcd, feed: ClusterStateFeed
) -> None:
    """Of a creation in two transactions the second one comes when what the first has left is tidied up."""
    topic_id = UUID(int=7)
    partition = PartitionState(
        topic_id=topic_id, index=0, replicas=(1,), isr=(1,), leader=1, leader_epoch=0, leader_broker_epoch=1
    )
    partitions = tuple(replace(partition, index=index) for index in range(COMPARES_PER_TRANSACTION))
    topic = Topic(name="x", id=topic_id, partitions=partitions)
    async with leading(late_etcd) as leadership:
        writes = ChangeEncoder(SPACE)
        changes = ChangeSequence(feed, FencedWriter(late_etcd, SPACE, leadership), writes)
        await feed.wait_for_revision(leadership.epoch, 10)

        async def nothing() -> None:
            pass

        async def create() -> None:
            late_etcd.pass_on = late_etcd.lose = late_etcd.refuse = 1
            await changes.write([*map(writes.partition, partitions), writes.topic(topic)])

        other = Write(key=SPACE.broker_config(7), value=b'{"version":1,"configs":{}}', replaces=None)
        await changes.make(nothing)
        await changes.write([other])
        with pytest.raises(KafkaError, match="refused by the test"):
            await changes.make(create)
        await changes.make(nothing)
        await late_etcd.carry_out_lost()

        await changes.write([other])
        assert not feed.orphans()
        assert "x" not in feed.state.incomplete_topics


async def test_a_touch_that_comes_late_ends_nothing(late_etcd: LateEtcd) -> None:
    """The fence stands elsewhere than the writer thinks: it goes by what it finds."""
    async with leading(late_etcd) as leadership:
        writer = FencedWriter(late_etcd, SPACE, leadership)
        await writer.write([Write(key=SPACE.topic("before"), value=b"", replaces=op.ABSENT)])
        late_etcd.lose = 2
        await writer.write([Write(key=SPACE.topic("x"), value=b"1", replaces=op.ABSENT)])
        late = await late_etcd.carry_out_lost()
        assert [result.succeeded for result in late] == [False, True]
        await writer.write([Write(key=SPACE.topic("y"), value=b"1", replaces=op.ABSENT)])
        assert leadership.is_current()


async def test_a_conflict_over_a_key_that_went_tells_a_revision_at_which_that_shows(
    late_etcd: LateEtcd, feed: ClusterStateFeed
) -> None:
    async with leading(late_etcd) as leadership:
        writer = FencedWriter(late_etcd, SPACE, leadership)
        member = SPACE.member(Role.BROKER, 7)
        put = await late_etcd.transaction([], [op.put(member, b"1")])
        gone = await late_etcd.transaction([], [op.delete(member)])
        write = Write(key=SPACE.topic("x"), value=b"1", replaces=op.ABSENT, depends_on=((member, put.revision),))
        with pytest.raises(WriteConflict) as caught:
            await writer.write([write])
        assert caught.value.revision > gone.revision
        assert caught.value.keys == {SPACE.topic("x")}
        assert (await feed.wait_for_revision(caught.value.revision, 10)).revision >= gone.revision


async def test_one_conflict_keeps_no_independent_write_from_happening(late_etcd: LateEtcd) -> None:
    async with leading(late_etcd) as leadership:
        writer = FencedWriter(late_etcd, SPACE, leadership)
        member = SPACE.member(Role.BROKER, 7)
        keys = [SPACE.topic(f"t{number}") for number in range(300)]
        taken = {keys[0], keys[150], keys[299]}
        for key in taken:
            await late_etcd.transaction([], [op.put(key, b"other")])
        depending = {keys[20]}
        writes = [
            Write(
                key=key,
                value=b"own",
                replaces=op.ABSENT,
                depends_on=((member, 77),) if key in depending else (),
            )
            for key in keys
        ]
        _, conflict = await writer.write_each(writes)
        assert conflict is not None
        assert conflict.keys == taken | depending
        listing = await late_etcd.list_prefix(f"{SPACE.prefix}topics/")
        own = {entry.key for entry in listing.entries if entry.value == b"own"}
        assert own == set(keys) - taken - depending


async def test_a_change_is_decided_again_on_a_state_that_shows_the_conflict(
    late_etcd: LateEtcd, feed: ClusterStateFeed
) -> None:
    async with leading(late_etcd) as leadership:
        changes = ChangeSequence(feed, FencedWriter(late_etcd, SPACE, leadership), ChangeEncoder(SPACE))
        await late_etcd.transaction([], [op.put(SPACE.broker_config(7), b'{"version":1,"configs":{}}')])
        member = SPACE.member(Role.BROKER, 7)
        put = await late_etcd.transaction([], [op.put(member, b"no member")])
        seen: list[int] = []

        async def change() -> None:
            seen.append(changes.state.revision)
            depends_on: tuple[tuple[str, int], ...] = ()
            if len(seen) == 1:
                await late_etcd.transaction([], [op.delete(member)])
                depends_on = ((member, put.revision),)
            await changes.write(
                [Write(key=SPACE.topic("x"), value=b"bad", replaces=op.ABSENT, depends_on=depends_on)]
            )

        await changes.make(change)
        assert len(seen) == 2
        assert seen[1] > put.revision
