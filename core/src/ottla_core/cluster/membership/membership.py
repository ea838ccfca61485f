"""A process's place in the cluster: its key under ``members/<role>/<id>``, bound to its lease.

The key is created, never overwritten, so that its create revision is a fresh epoch for every registration. If the
key is there already, its holder may be

- ourselves, from an attempt whose answer was lost or under a lease that was lost: replaced;
- our predecessor, known by a log directory that we hold the lock of now: replaced;
- our successor, known by the same sign when we have been registered before: we have lost our place;
- a process that has just died and whose lease has not run out: waited for;
- a live process with the same id: refused, naming who it is.

A registration also compares the levels of features that were checked, so that no process comes in below a level that
is finalised meanwhile. The controller, in turn, finalises one only if nobody has registered since it looked.

After a lost lease the process registers again, with a new epoch. A process that asks for it (`resume`) keeps its
epoch if etcd still has lease and key when it can be reached again: nobody can have been told that it was gone. A
change of epoch is told by a callback: the cluster state may show the new registration before this process knows that
it succeeded.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace

import structlog

from ottla_core.background import note_failure, start_awaited, start_vital
from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.connection import RETRY_DELAY_S
from ottla_core.cluster.etcd.errors import EtcdError, LeaseNotFound, WatchHistoryLost, WriteOutcomeUnknown
from ottla_core.cluster.etcd.key_value import KeyValue
from ottla_core.cluster.etcd.lease import EtcdLease, LeaseSession
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.feature_check import LevelUnsupported, check_supported
from ottla_core.cluster.state.features import FinalizedFeatures
from ottla_core.cluster.state.json_fields import BadValue
from ottla_core.cluster.state.keys import KeySpace, MemberKey
from ottla_core.cluster.state.model import NO_EPOCH, Member
from ottla_core.errors import OttlaError

EXPIRY_GRACE_S = 2.0
"""How long after its TTL etcd may take to drop a dead process's key (it looks twice a second)."""

log = structlog.get_logger("membership")


class MemberIdInUse(OttlaError):
    """A live process is registered under this role and id."""


class Membership:
    """The registration of this process.

    Args:
        etcd: where to register.
        cluster_name: in which cluster.
        member: as what; its epoch is ignored.
        lease_ttl_ms: after what time without contact the place is lost.
        on_change: called after every registration, the one in `start` included, and when the lease is lost; `epoch`
            is up to date then. It must not block.
        resume: whether a registration that has lapsed by this process's clock, and that etcd still has, is taken up
            again under its epoch.
        view_is_fresh: whether this process sees what becomes of the cluster; while it does not, it may have been
            replaced although its lease is valid, and acts as if that had lapsed.
        clock: for tests.

    Attributes:
        session: the lease it hangs on; an election may use it too.
    """

    def __init__(
        self,
        etcd: EtcdClient,
        cluster_name: str,
        member: Member,
        *,
        lease_ttl_ms: int,
        on_change: Callable[[], None] | None = None,
        resume: bool = False,
        view_is_fresh: Callable[[], bool] = lambda: True,
        clock: Clock | None = None,
    ) -> None:
        self._resume = resume
        self._view_is_fresh = view_is_fresh
        self.session = LeaseSession(etcd, ttl_ms=lease_ttl_ms, resume=resume, clock=clock)
        self._etcd = etcd
        self._member = member
        self._key = KeySpace(cluster_name).member(member.role, member.id)
        self._features_key = KeySpace(cluster_name).features
        self._features = FinalizedFeatures()
        self._on_change = on_change
        self._clock = clock or SystemClock()
        self._lease: EtcdLease | None = None
        self._epoch = NO_EPOCH
        self._task: asyncio.Task[None] | None = None
        self._failure: asyncio.Future[OttlaError] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        """Register.

        Raises:
            MemberIdInUse: a live process has this role and id.
            LevelUnsupported: the cluster is at a level of a feature that this process does not have.
            EtcdError: etcd cannot be reached or refuses.
        """
        await self.session.start()
        try:
            await self._register()
        except OttlaError:
            await self.session.close()
            raise
        self._task = start_vital("membership", self._stay_registered())

    @property
    def member(self) -> Member:
        """What this process registers as; its epoch says nothing."""
        return self._member

    @property
    def epoch(self) -> int:
        """The epoch of the present registration (a broker's broker epoch), or `NO_EPOCH` while there is none."""
        lease = self._lease
        if lease is None or not lease.is_valid():
            return NO_EPOCH
        if not self._view_is_fresh():
            if not self._resume:
                lease.end()  # for good, since who is told so may step down
            return NO_EPOCH
        return self._epoch

    @property
    def registered_epoch(self) -> int:
        """The epoch of the last registration, which may have lapsed; `NO_EPOCH` before the first."""
        return self._epoch

    def is_current(self) -> bool:
        """Return whether nobody can have taken our place; a comparison with the clock."""
        return self.epoch != NO_EPOCH

    async def wait_failed(self) -> OttlaError:
        """Return when the place is lost to another process, with what happened; this process must end then."""
        return await asyncio.shield(self._failure)

    async def announce_shutdown(self) -> None:
        """Write into this process's own key that it is about to leave; a registration to come says so as well.

        Raises:
            EtcdError: etcd cannot be reached or refuses; nobody may know yet.
        """
        self._member = replace(self._member, shutting_down=True)
        lease = self._lease
        if lease is None or not lease.is_valid():
            return
        value = codec.encode_member(self._member)
        await self._etcd.transaction([op.created_at(self._key, self._epoch)], [op.put(self._key, value, lease.id)])

    def register_anew(self, *, producer_epoch_floor: int | None = None) -> None:
        """Give up the registration; the next one says what is given here."""
        if producer_epoch_floor is not None:
            self._member = replace(self._member, producer_epoch_floor=producer_epoch_floor)
        self.session.lease.end()

    async def close(self) -> None:
        """Leave the cluster: delete the key and revoke the lease."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        was_current = self.is_current()
        self._lease = None  # the key may be gone long before the answer says so
        if was_current:
            try:
                await self._etcd.transaction([op.created_at(self._key, self._epoch)], [op.delete(self._key)])
            except EtcdError as error:
                log.warning("member key not deleted; it goes with the lease", error=str(error))
        await self.session.close()

    async def _stay_registered(self) -> None:
        while True:
            assert self._lease is not None
            await self._wait_until_unregistered(self._lease)
            if not self._lease.is_valid():
                self._tell_change()
            try:
                if self._lease.is_valid():
                    await self._check_not_replaced()
                await self._register()
            except (MemberIdInUse, LevelUnsupported) as error:
                log.error("place in the cluster lost", error=str(error))
                self._failure.set_result(error)
                return
            except EtcdError as error:
                log.warning("registration failed; trying again", error=str(error))
                await asyncio.sleep(RETRY_DELAY_S)

    async def _wait_until_unregistered(self, lease: EtcdLease) -> None:
        """Return when the lease is lost or somebody has deleted the key."""
        waits = [
            start_awaited("lease end", lease.ended.wait()),
            start_awaited("deletion of the member key", self._wait_for_deletion()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _wait_for_deletion(self) -> None:
        revision = self._epoch
        while True:
            try:
                await self._etcd.wait_for_deletion(self._key, revision)
            except WatchHistoryLost:
                listing = await self._etcd.list_prefix(self._key)  # which also says as of when the key is there
                if any(entry.key == self._key and entry.create_revision == self._epoch for entry in listing.entries):
                    revision = listing.revision
                    continue
            return

    async def _check_not_replaced(self) -> None:
        """See who has our key now that it was deleted while our lease is valid."""
        found = await self._etcd.read(self._key)
        if found is not None and found.create_revision != self._epoch:
            raise MemberIdInUse(self._describe_holder(found, self._decode(found)))

    @property
    def _was_registered(self) -> bool:
        return self._epoch != NO_EPOCH

    async def _register(self) -> None:
        deadline = self._clock.monotonic() + self.session.ttl_s + EXPIRY_GRACE_S
        while True:
            lease = await self.session.valid_lease()
            try:
                found = await self._create(lease)
            except WriteOutcomeUnknown:
                await asyncio.sleep(RETRY_DELAY_S)
                continue
            except LeaseNotFound:
                lease.end()
                continue
            if found is None:
                continue
            if isinstance(found, int):
                self._lease, self._epoch = lease, found
                if self._member.intact_since == NO_EPOCH:  # the next registration of this process has lost nothing
                    self._member = replace(self._member, intact_since=found)
                log.info("registered", role=self._member.role, id=self._member.id, epoch=found)
                self._tell_change()
                return
            await self._make_way(found, deadline)

    def _tell_change(self) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change()
        except Exception as error:  # noqa: BLE001 - the listener's bug must not cost the registration
            note_failure("listener of the registration", error, epoch=self.epoch)

    async def _create(self, lease: EtcdLease) -> int | KeyValue | None:
        """Return the new epoch, or who holds the key, or None where only the levels of features were others.

        Raises:
            LevelUnsupported: this process lacks one of them.
        """
        value = codec.encode_member(self._member)
        result = await self._etcd.transaction(
            [op.created_at(self._key, op.ABSENT), op.modified_at(self._features_key, self._features.epoch)],
            [op.put(self._key, value, lease.id)],
            [op.read(self._key), op.read(self._features_key)],
        )
        if result.succeeded:
            return result.revision
        holder, features = result.reads
        finalized = (
            FinalizedFeatures() if features is None else codec.decode_features(features.value, features.mod_revision)
        )
        check_supported(finalized, self._member.features)
        self._features = finalized
        if holder is None:
            return None
        return holder.create_revision if holder.lease_id == lease.id else holder

    async def _make_way(self, found: KeyValue, deadline: float) -> None:
        """Remove what an earlier registration of ours left, or wait for another's to go.

        Raises:
            MemberIdInUse: another's is there to stay.
        """
        holder = self._decode(found)
        if holder is not None and is_predecessor(holder, self._member):
            if holder.incarnation != self._member.incarnation and self._was_registered:
                raise MemberIdInUse(self._describe_holder(found, holder))
            log.info("replacing an earlier registration", key=self._key, former_epoch=holder.epoch)
            with contextlib.suppress(WriteOutcomeUnknown):  # the next attempt to create the key will tell
                await self._etcd.transaction([op.modified_at(self._key, found.mod_revision)], [op.delete(self._key)])
            return
        if self._clock.monotonic() >= deadline:
            raise MemberIdInUse(self._describe_holder(found, holder))
        await asyncio.sleep(RETRY_DELAY_S)

    def _decode(self, found: KeyValue) -> Member | None:
        try:
            key = MemberKey(self._member.role, self._member.id)
            return codec.decode_member(key, found.value, found.create_revision)
        except BadValue:
            return None

    def _describe_holder(self, found: KeyValue, holder: Member | None) -> str:
        who = f"the process at {holder.rpc_address}" if holder else f"an unreadable entry {found.value!r}"
        return (
            f"{self._member.role} id {self._member.id} is in use by {who} (etcd key {self._key}, epoch "
            f"{found.create_revision}); give this process another id or stop the other one"
        )


def is_predecessor(holder: Member, member: Member) -> bool:
    """Return whether `holder` is an earlier life of `member`, hence dead.

    It is when it is the same process, or when it had a log directory that the new process has locked since.
    """
    return holder.incarnation == member.incarnation or not set(holder.directory_ids).isdisjoint(member.directory_ids)
