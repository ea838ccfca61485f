"""A lease that is kept alive, and replaced by a new one when it is lost.

Everything a process holds in the cluster (its member key, the election key) hangs on a lease that etcd drops when
it hears nothing for the TTL. The process must stop acting before that, and cannot ask etcd when etcd is what it
has lost sight of. So each lease has a deadline on the monotonic clock: the moment at which the last answered
renewal was *sent*, plus the TTL. etcd starts counting later than that, hence the deadline always comes first.

An `EtcdLease` whose deadline has passed is lost for good: somebody may have looked at `is_valid` in the meantime and
stepped down. What etcd still keeps of it is revoked, or, if the session's owner wants to resume, taken up again as a
new `EtcdLease` with the same id: its keys are still there then, and nobody has taken the owner's place. That is how
brokers go on after etcd was away, since its own clock for leases starts anew when it comes back.
"""

import asyncio
import contextlib
import math

import structlog

from ottla_core.background import start_vital
from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.connection import READ_TIMEOUT_S, RETRY_DELAY_S
from ottla_core.cluster.etcd.errors import EtcdError, EtcdUnavailable, LeaseNotFound, WriteOutcomeUnknown

RENEWALS_PER_TTL = 3

log = structlog.get_logger("lease")


class EtcdLease:
    """One lease of etcd.

    Attributes:
        id: etcd's id, for attaching keys.
        ttl_s: seconds after which etcd drops it unless it is renewed.
        ended: set once it is lost or given up.
    """

    def __init__(self, lease_id: int, ttl_s: float, deadline: float, clock: Clock) -> None:
        self.id = lease_id
        self.ttl_s = ttl_s
        self.ended = asyncio.Event()
        self._deadline = deadline
        self._clock = clock

    def is_valid(self) -> bool:
        """Return whether etcd cannot have dropped the lease yet; a comparison with the clock."""
        return not self.ended.is_set() and self._clock.monotonic() < self._deadline

    def remaining_s(self) -> float:
        """Return the seconds until the deadline; not above zero when it has passed."""
        return self._deadline - self._clock.monotonic()

    def renew(self, deadline: float) -> None:
        """Move the deadline; has no effect on a lease that is lost."""
        if self.is_valid():
            self._deadline = max(self._deadline, deadline)

    def end(self) -> None:
        """Give the lease up: it is not valid any more."""
        self.ended.set()


class LeaseSession:
    """Keeps one lease after another for the life of a process.

    With `resume`, a lease that has lapsed by this process's clock and that etcd still has becomes the next one.
    """

    def __init__(self, etcd: EtcdClient, *, ttl_ms: int, resume: bool = False, clock: Clock | None = None) -> None:
        self._etcd = etcd
        self._ttl_s = math.ceil(ttl_ms / 1000)
        self._resume = resume
        self._clock = clock or SystemClock()
        self._lease: EtcdLease | None = None
        self._granted = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Get the first lease.

        Raises:
            EtcdUnavailable: etcd granted none within `READ_TIMEOUT_S`.
            EtcdError: etcd refuses.
        """
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                self._lease = await self._grant()
        except TimeoutError:
            raise EtcdUnavailable(f"etcd granted no lease within {READ_TIMEOUT_S:.0f} s") from None
        self._task = start_vital("lease", self._run())

    @property
    def ttl_s(self) -> float:
        """The TTL that is asked for."""
        return self._ttl_s

    @property
    def lease(self) -> EtcdLease:
        """The newest lease; it may have been lost."""
        assert self._lease is not None, "the session was not started"
        return self._lease

    def is_valid(self) -> bool:
        """Return whether the newest lease is still ours."""
        return self.lease.is_valid()

    async def valid_lease(self) -> EtcdLease:
        """Return the newest lease, waiting for a new one if it has been lost."""
        async with self._granted:
            await self._granted.wait_for(self.is_valid)
            return self.lease

    async def close(self) -> None:
        """Stop renewing and revoke the lease, so that its keys go at once."""
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._task = None
        self.lease.end()
        await self._revoke(self.lease)

    async def _run(self) -> None:
        while True:
            lease = self.lease
            await self._keep_alive(lease)
            lease.end()
            log.warning("lease lost", lease=f"{lease.id:x}")
            renewed = (await self._resumed(lease) if self._resume else None) or await self._replaced(lease)
            async with self._granted:
                self._lease = renewed
                self._granted.notify_all()
            log.info("lease granted", lease=f"{renewed.id:x}", ttl_s=renewed.ttl_s, resumed=renewed.id == lease.id)

    async def _resumed(self, lapsed: EtcdLease) -> EtcdLease | None:
        """Take a lapsed lease up again, as soon as etcd answers; return None if it has dropped the lease."""
        while True:
            sent = self._clock.monotonic()
            try:
                ttl_s = await self._etcd.keep_lease_alive(lapsed.id)
            except LeaseNotFound:
                return None
            except EtcdError as error:
                log.debug("lease not resumed yet", lease=f"{lapsed.id:x}", error=str(error))
                await asyncio.sleep(RETRY_DELAY_S)
            else:
                return EtcdLease(lapsed.id, ttl_s, sent + ttl_s, self._clock)

    async def _replaced(self, lost: EtcdLease) -> EtcdLease:
        await self._revoke(lost)
        return await self._grant_patiently()

    async def _keep_alive(self, lease: EtcdLease) -> None:
        """Renew the lease until it is lost."""
        pause_s = lease.ttl_s / RENEWALS_PER_TTL
        while lease.is_valid():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(pause_s, lease.remaining_s())):
                    await lease.ended.wait()
            if not lease.is_valid():
                return
            sent = self._clock.monotonic()
            try:
                async with asyncio.timeout(lease.remaining_s()):
                    ttl_s = await self._etcd.keep_lease_alive(lease.id)
            except LeaseNotFound:
                return
            except (EtcdError, TimeoutError) as error:
                log.debug("renewal failed", lease=f"{lease.id:x}", error=str(error))
                pause_s = RETRY_DELAY_S
            else:
                lease.renew(sent + ttl_s)
                pause_s = lease.ttl_s / RENEWALS_PER_TTL

    async def _grant(self) -> EtcdLease:
        while True:
            sent = self._clock.monotonic()
            try:
                lease_id, ttl_s = await self._etcd.grant_lease(self._ttl_s)
            except WriteOutcomeUnknown:
                await asyncio.sleep(RETRY_DELAY_S)
            else:
                return EtcdLease(lease_id, ttl_s, sent + ttl_s, self._clock)

    async def _grant_patiently(self) -> EtcdLease:
        while True:
            try:
                return await self._grant()
            except EtcdError as error:  # a refusal, for example while passwords are being changed
                log.error("etcd grants no lease", error=str(error))
                await asyncio.sleep(self._ttl_s)

    async def _revoke(self, lease: EtcdLease) -> None:
        """Revoke a lease if etcd can be reached; otherwise it expires by itself."""
        try:
            await self._etcd.revoke_lease(lease.id)
        except EtcdError as error:
            log.debug("lease not revoked", lease=f"{lease.id:x}", error=str(error))
