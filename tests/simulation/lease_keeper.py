"""A simulated process's lease: granted, renewed, lapsed by the process's own clock, taken up again or replaced.

It follows `ottla_core.cluster.lease`: the deadline is the time at which the last answered renewal was sent, plus the
TTL, by the process's own clock. A process that `resume`s takes up a lapsed lease that etcd still has.
"""

from collections.abc import Callable
from typing import Any

from tests.simulation.fake_etcd import FakeEtcd
from tests.simulation.network import Network
from tests.simulation.process import Process

LEASE_TTL_MS = 2_000
RENEWALS_PER_TTL = 3
ATTEMPT_TIMEOUT_MS = 1_000
RETRY_DELAY_MS = 200


class LeaseKeeper:
    """The lease of one life of a process.

    Args:
        process: whose it is.
        network: the way to etcd.
        etcd: where it is kept.
        on_granted: called whenever a lease is valid (again), at first and after it had lapsed.
        on_lapsed: called when the process notices that it is over.
        resume: whether a lapsed lease that etcd still has is taken up again.
    """

    def __init__(
        self,
        process: Process,
        network: Network,
        etcd: FakeEtcd,
        *,
        on_granted: Callable[[], None],
        on_lapsed: Callable[[], None],
        resume: bool,
    ) -> None:
        self._process = process
        self._network = network
        self._etcd = etcd
        self._on_granted = on_granted
        self._on_lapsed = on_lapsed
        self._resume = resume
        self._deadline_ms = -1
        self._renewal = 0
        self.id = 0
        self._grant()

    def is_valid(self) -> bool:
        """Return whether etcd cannot have dropped the lease yet; a comparison with the clock."""
        return self._process.now_ms() < self._deadline_ms

    def discard(self) -> None:
        """Have done with a lease that etcd does not know."""
        self._deadline_ms = -1

    def revoke(self) -> None:
        """Give the lease back, so that its keys go at once."""
        self.discard()
        self._ask(self._etcd.revoke, self.id, lambda _answer: None)

    def _ask(self, handler: Any, request: Any, when_over: Callable[[Any], None]) -> None:
        self._network.call(self._process, self._etcd, handler, request, when_over, ATTEMPT_TIMEOUT_MS)

    def _grant(self) -> None:
        sent_ms = self._process.now_ms()

        def granted(lease: int | None) -> None:
            if lease is None:
                self._process.after(RETRY_DELAY_MS, self._grant)
                return
            self.id = lease
            self._taken(sent_ms)

        self._ask(self._etcd.grant, LEASE_TTL_MS, granted)

    def _taken(self, sent_ms: int) -> None:
        self._deadline_ms = sent_ms + LEASE_TTL_MS
        if not self.is_valid():
            self._lapsed()
            return
        self._renewal += 1
        self._process.after(LEASE_TTL_MS / RENEWALS_PER_TTL, self._renew, self._renewal)
        self._on_granted()

    def _renew(self, renewal: int) -> None:
        if renewal != self._renewal:
            return
        if not self.is_valid():
            self._lapsed()
            return
        sent_ms = self._process.now_ms()

        def renewed(is_kept: bool | None) -> None:
            if not self.is_valid():
                self._lapsed()
            elif is_kept is None:
                self._process.after(RETRY_DELAY_MS, self._renew, renewal)
            elif is_kept:
                self._deadline_ms = max(self._deadline_ms, sent_ms + LEASE_TTL_MS)
                self._process.after(LEASE_TTL_MS / RENEWALS_PER_TTL, self._renew, renewal)
            else:
                self._lapsed()

        left_ms = self._deadline_ms - sent_ms
        timeout_ms = min(ATTEMPT_TIMEOUT_MS, left_ms)
        self._network.call(self._process, self._etcd, self._etcd.keep_alive, self.id, renewed, timeout_ms)

    def _lapsed(self) -> None:
        self._renewal += 1
        self._deadline_ms = -1
        self._process.note("has lost its lease")
        self._on_lapsed()
        if self._resume:
            self._take_up()
        else:
            self._ask(self._etcd.revoke, self.id, lambda _answer: None)
            self._grant()

    def _take_up(self) -> None:
        sent_ms = self._process.now_ms()

        def answered(is_kept: bool | None) -> None:
            if is_kept is None:
                self._process.after(RETRY_DELAY_MS, self._take_up)
            elif is_kept:
                self._process.note("takes up its lease again")
                self._taken(sent_ms)
            else:
                self._grant()

        self._ask(self._etcd.keep_alive, self.id, answered)
