"""Who leads: the process that has created the election key under its lease.

The key's create revision is the leader's epoch. Every write of a leader compares it (see the controller's
`FencedWriter`), so a deposed leader that does not know yet cannot write; and one that has lost sight of etcd stops
by its own clock when its lease's deadline passes, before anybody else can create the key.
"""

import asyncio
import contextlib

import structlog

from ottla_core.background import start_awaited
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.connection import RETRY_DELAY_S
from ottla_core.cluster.etcd.errors import EtcdError, LeaseNotFound, WatchHistoryLost, WriteOutcomeUnknown
from ottla_core.cluster.etcd.lease import EtcdLease, LeaseSession

log = structlog.get_logger("election")


class Leadership:
    """One term of leading.

    Attributes:
        epoch: create revision of the election key.
    """

    def __init__(self, epoch: int, lease: EtcdLease) -> None:
        self.epoch = epoch
        self._lease = lease
        self._over = asyncio.Event()

    def is_current(self) -> bool:
        """Return whether nobody else can lead yet; a comparison with the clock."""
        return not self._over.is_set() and self._lease.is_valid()

    def give_up(self) -> None:
        """End the term, because it was resigned or somebody else turns out to lead."""
        self._over.set()

    async def wait_over(self) -> None:
        """Return when the term has ended."""
        waits = [start_awaited("end of the term", event.wait()) for event in (self._over, self._lease.ended)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


class Election:
    """A candidate for one election key."""

    def __init__(self, etcd: EtcdClient, session: LeaseSession, *, key: str, value: bytes) -> None:
        self._etcd = etcd
        self._session = session
        self._key = key
        self._value = value

    async def campaign(self) -> Leadership:
        """Return when this candidate has won."""
        while True:
            try:
                leadership = await self._attempt()
            except WriteOutcomeUnknown:
                await asyncio.sleep(RETRY_DELAY_S)  # the next attempt sees whether this one has won
            except WatchHistoryLost:
                pass
            except EtcdError as error:
                log.warning("campaign interrupted", error=str(error))
                await asyncio.sleep(RETRY_DELAY_S)
            else:
                if leadership is not None:
                    return leadership

    async def resign(self, leadership: Leadership) -> None:
        """End a term and let others campaign at once."""
        leadership.give_up()
        try:
            await self._etcd.transaction([op.created_at(self._key, leadership.epoch)], [op.delete(self._key)])
        except EtcdError as error:
            log.warning("election key not deleted; it goes with the lease", error=str(error))

    async def _attempt(self) -> Leadership | None:
        """Create the key, or wait until its holder is gone, or for the TTL of a lease, and return None."""
        lease = await self._session.valid_lease()
        try:
            result = await self._etcd.transaction(
                [op.created_at(self._key, op.ABSENT)],
                [op.put(self._key, self._value, lease.id)],
                [op.read(self._key)],
            )
        except LeaseNotFound:
            lease.end()
            return None
        if result.succeeded:
            return Leadership(result.revision, lease)
        holder = result.reads[0]
        if holder is not None and holder.lease_id == lease.id:
            return Leadership(holder.create_revision, lease)
        with contextlib.suppress(TimeoutError):  # the member that serves the watch may stall, and would never tell
            async with asyncio.timeout(self._session.ttl_s):
                await self._etcd.wait_for_deletion(self._key, result.revision)
        return None
