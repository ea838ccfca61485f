"""Limits on the copying of replicas (KIP-73), so that moving partitions leaves room for clients. Pure.

A broker has one rate for what its leaders send to throttled followers and one for what its own throttled followers
fetch; topics name the replicas that they hold for. A replica in the in-sync set is never held back, because that
would hold back the high watermark.

Each rate is a token bucket that may go into debt: a fetch is let through or not, but never cut, and what it brought
is paid off before the next one.

Source: Kafka's ReplicationQuotaManager.
"""

from collections.abc import Mapping
from typing import Final

from ottla_broker.partition import Partition
from ottla_core.config_definition import EVERYTHING
from ottla_core.throttle_config import FOLLOWER_THROTTLED_RATE, LEADER_THROTTLED_RATE, UNLIMITED, throttle_rate

SAVED_UP_MS_MAX: Final = 1000
"""For how long an unused rate can be saved up."""
WAIT_MS_MAX: Final = 1000
"""After this time it is looked again, as the rate may have been changed."""


class ReplicationThrottle:
    """One rate, and how much of it has been used.

    Attributes:
        rate: bytes per second, or `UNLIMITED`.
    """

    __slots__ = ("_balance_bytes", "_balance_ms", "rate")

    def __init__(self, rate: int = UNLIMITED) -> None:
        self.rate = rate
        self._balance_bytes = 0.0
        self._balance_ms = 0

    def set_rate(self, rate: int) -> None:
        """Change the rate; debts of the former one are forgotten."""
        if rate != self.rate:
            self.rate = rate
            self._balance_bytes = 0.0

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Note that throttled replicas have copied so much."""
        if self.rate != UNLIMITED:
            self._update_balance(now_ms)
            self._balance_bytes -= size_bytes

    def wait_ms(self, now_ms: int) -> int:
        """Return after how many milliseconds it may go on, or be asked again; 0 if at once."""
        if self.rate == UNLIMITED:
            return 0
        if self.rate == 0:
            return WAIT_MS_MAX
        self._update_balance(now_ms)
        if self._balance_bytes >= 0:
            return 0
        return min(WAIT_MS_MAX, 1 + int(-self._balance_bytes * 1000 / self.rate))

    def _update_balance(self, now_ms: int) -> None:
        gained_bytes = (now_ms - self._balance_ms) * self.rate / 1000
        self._balance_ms = now_ms
        self._balance_bytes = min(self._balance_bytes + gained_bytes, SAVED_UP_MS_MAX * self.rate / 1000)


class ReplicationThrottles:
    """A broker's two rates.

    Attributes:
        leader: of what its leaders send to throttled followers that are not in sync.
        follower: of what its throttled followers fetch.
    """

    __slots__ = ("follower", "leader")

    def __init__(self) -> None:
        self.leader = ReplicationThrottle()
        self.follower = ReplicationThrottle()

    def update(self, broker_id: int, broker_configs: Mapping[int | None, Mapping[str, str]]) -> None:
        """Take over the rates from `ClusterState.broker_configs`."""
        self.leader.set_rate(throttle_rate(LEADER_THROTTLED_RATE, broker_id, broker_configs))
        self.follower.set_rate(throttle_rate(FOLLOWER_THROTTLED_RATE, broker_id, broker_configs))


def is_throttled_leader(partition: Partition) -> bool:
    """Return whether the followers of this broker's replica count towards the leaders' rate."""
    return _names(partition.log.config.leader_replication_throttled_replicas, partition)


def is_throttled_follower(partition: Partition) -> bool:
    """Return whether the fetching of this broker's replica counts towards the followers' rate."""
    return _names(partition.log.config.follower_replication_throttled_replicas, partition)


def _names(replicas: frozenset[str], partition: Partition) -> bool:
    if not replicas:
        return False
    return replicas == EVERYTHING or f"{partition.topic_partition.partition}:{partition.broker_id}" in replicas
