"""Whether a local cluster's partitions can be used, which processes that are all ready do not tell.

A cluster that is started with fewer brokers than before lacks those that keep some partitions. Nobody leads these.
As a program, `python -m ottla.local.partition_health BOOTSTRAP`, it prints what is wrong after a start, or nothing,
and with a further argument what to do when brokers were added.
"""

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ottla.local.default_replicas import default_replicas
from ottla.local.start_check import GROWN
from ottla.profiles.profile_choice import client_settings
from ottla_operations.cluster.cluster_admin import ClusterAdmin
from ottla_operations.cluster.cluster_view import ClusterView
from ottla_operations.errors import OperationError
from ottla_operations.quantities import counted

NAMED_MAX = 5
SETTLED_WITHIN_S = 10.0
"""After a start, leaders of many partitions are elected one after the other."""
LOOK_INTERVAL_S = 0.2
LOOK_TIMEOUT_S = 5.0
"""A broker that stands still accepts connections all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHealth:
    """The partitions of a cluster.

    Attributes:
        count: how many there are; None if no broker has told.
        offline: those without a leader, which can be neither read nor written, as ``topic-partition``.
        under_replicated: how many others have a copy that is not in sync.
        absent_brokers: brokers that keep partitions and are not in service.
        brokers: how many are in service.
        fewer_replicas: how many partitions have fewer replicas than new topics get.
    """

    count: int | None = None
    offline: tuple[str, ...] = ()
    under_replicated: int = 0
    absent_brokers: tuple[int, ...] = ()
    brokers: int = 0
    fewer_replicas: int = 0

    @classmethod
    def of(cls, view: ClusterView) -> "PartitionHealth":
        """Return what a cluster's view shows."""
        partitions = view.partitions.values()
        keeping = {broker for each in partitions for broker in each.replicas}
        return cls(
            count=len(partitions),
            offline=tuple(f"{each.name.topic}-{each.name.partition}" for each in partitions if each.leader is None),
            under_replicated=sum(each.leader is not None and each.is_under_replicated for each in partitions),
            absent_brokers=tuple(sorted(keeping - view.brokers.keys())),
            brokers=len(view.brokers),
            fewer_replicas=sum(len(each.replicas) < default_replicas(len(view.brokers)) for each in partitions),
        )

    def to_document(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "count": self.count,
            "offline": list(self.offline),
            "under_replicated": self.under_replicated,
            "absent_brokers": list(self.absent_brokers),
        }

    def line(self) -> str:
        """Return it in one line."""
        if self.count is None:
            return "unknown, as no broker answers"
        found = [f"{len(self.offline):,} without a leader: {_named(self.offline)}"] if self.offline else []
        if self.under_replicated:
            found.append(f"{self.under_replicated:,} with replicas that are not in sync")
        return "; ".join([f"{self.count:,}", *found])

    def problem(self) -> str | None:
        """Return what cannot be used, and why; None if all can."""
        if not self.offline:
            return None
        reason = ""
        if self.absent_brokers:
            is_one = len(self.absent_brokers) == 1
            absent = ", ".join(str(each) for each in self.absent_brokers)
            keeps = f"broker {absent} keeps" if is_one else f"brokers {absent} keep"
            reason = f"; {keeps} partitions and {'is' if is_one else 'are'} not in service: start as many as before"
        return f"{counted(len(self.offline), 'partition')} without a leader ({_named(self.offline)}){reason}"

    def advice(self) -> str | None:
        """Return what to do after more brokers came; None if there is nothing."""
        if not self.fewer_replicas:
            return None
        replicas = default_replicas(self.brokers)
        have = "1 partition has" if self.fewer_replicas == 1 else f"{self.fewer_replicas:,} partitions have"
        return (
            f"{have} fewer than {replicas} replicas, as there were fewer brokers before. Give them more with "
            f"`ottla topic alter --all-topics --replication-factor {replicas}`, and even out what brokers have with "
            "`ottla cluster rebalance`"
        )


def partition_health(bootstrap: str) -> PartitionHealth:
    """Return what a broker tells about all partitions now."""
    try:
        with ClusterAdmin(bootstrap, client_settings(bootstrap), answer_timeout_s=LOOK_TIMEOUT_S) as admin:
            return PartitionHealth.of(admin.view())
    except OperationError:
        return PartitionHealth()


def settled_partition_health(bootstrap: str) -> PartitionHealth:
    """Return it once all partitions have leaders, or after a while."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    health = partition_health(bootstrap)
    while (health.count is None or health.offline) and time.monotonic() < deadline:
        time.sleep(LOOK_INTERVAL_S)
        health = partition_health(bootstrap)
    return health


def _named(partitions: Iterable[str]) -> str:
    names = list(partitions)
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


if __name__ == "__main__":
    found = settled_partition_health(sys.argv[1])
    said = [found.problem(), found.advice() if GROWN in sys.argv[2:] else None]
    print("\n".join(each for each in said if each is not None))
