"""A candidate whose watch never tells, a member whose watch has lost its history, and one that leaves unconfirmed."""

import asyncio
from typing import Any, cast
from uuid import UUID

from ottla_core.cluster.etcd.client import EtcdClient, Listing, TransactionResult
from ottla_core.cluster.etcd.errors import WatchHistoryLost
from ottla_core.cluster.etcd.key_value import KeyValue
from ottla_core.cluster.etcd.lease import LeaseSession
from ottla_core.cluster.membership.election import Election
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import NO_EPOCH, Member, Role

HOLDER = KeyValue(key="/k", value=b"", create_revision=3, mod_revision=3, lease_id=99)


class StalledEtcd:
    """Grants leases; transactions end as they are listed, and a watch brings nothing."""

    def __init__(self, results: list[TransactionResult]) -> None:
        self.results = results
        self.when_asked = lambda: None

    async def grant_lease(self, ttl_s: int) -> tuple[int, int]:
        return 1, ttl_s

    async def keep_lease_alive(self, _lease_id: int) -> int:
        return 1

    async def revoke_lease(self, _lease_id: int) -> None:
        pass

    async def wait_for_deletion(self, _key: str, _after_revision: int) -> None:
        await asyncio.Event().wait()

    async def transaction(self, *_: Any) -> TransactionResult:
        self.when_asked()
        return self.results.pop(0)


async def test_a_candidate_whose_watch_brings_nothing_finds_out_that_the_key_is_free() -> None:
    etcd = StalledEtcd([TransactionResult(False, 5, (HOLDER,)), TransactionResult(True, 8)])
    session = LeaseSession(cast(EtcdClient, etcd), ttl_ms=1000)
    await session.start()

    async with asyncio.timeout(30):
        leadership = await Election(cast(EtcdClient, etcd), session, key="/k", value=b"").campaign()

    assert leadership.epoch == 8
    await session.close()


class ForgetfulEtcd(StalledEtcd):
    """Has compacted away what the first watch asks for; the member's key goes as soon as somebody has looked."""

    def __init__(self, holder: KeyValue, results: list[TransactionResult]) -> None:
        super().__init__(results)
        self._listing = Listing((holder,), 20)
        self._was_asked_to_watch = False

    async def wait_for_deletion(self, key: str, after_revision: int) -> None:
        if not self._was_asked_to_watch:
            self._was_asked_to_watch = True
            raise WatchHistoryLost("compacted")
        if self._listing.entries or after_revision >= self._listing.revision:
            await super().wait_for_deletion(key, after_revision)

    async def read(self, _key: str) -> KeyValue | None:
        return next(iter(self._look().entries), None)

    async def list_prefix(self, _prefix: str) -> Listing:
        return self._look()

    def _look(self) -> Listing:
        found, self._listing = self._listing, Listing((), 21)
        return found


async def test_a_member_whose_key_goes_while_it_looks_again_is_registered_anew() -> None:
    member = Member(
        role=Role.BROKER, id=1, epoch=NO_EPOCH, incarnation=UUID(int=1), rpc_address="", version="", intact_since=0
    )
    key = KeySpace("c").member(Role.BROKER, 1)
    holder = KeyValue(key=key, value=b"", create_revision=7, mod_revision=7, lease_id=1)
    etcd = ForgetfulEtcd(
        holder, [TransactionResult(True, 7), TransactionResult(True, 22), TransactionResult(True, 23)]
    )
    registered = asyncio.Event()
    membership = Membership(cast(EtcdClient, etcd), "c", member, lease_ttl_ms=60_000, on_change=registered.set)
    await membership.start()
    registered.clear()

    async with asyncio.timeout(30):
        await registered.wait()

    assert membership.epoch == 22
    await membership.close()


async def test_who_leaves_is_not_registered_while_the_deletion_of_its_key_is_under_way() -> None:
    etcd = StalledEtcd([TransactionResult(True, 7), TransactionResult(True, 9)])
    member = Member(
        role=Role.BROKER, id=1, epoch=NO_EPOCH, incarnation=UUID(int=1), rpc_address="", version="", intact_since=0
    )
    membership = Membership(cast(EtcdClient, etcd), "c", member, lease_ttl_ms=10_000)
    await membership.start()
    assert membership.is_current()
    seen: list[bool] = []
    etcd.when_asked = lambda: seen.append(membership.is_current())

    await membership.close()

    assert seen == [False]
