"""What surrounds the partitions of a broker: what they share, who watches them, and what they refuse appends with."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_broker.topic_traffic import TrafficByTopic
from ottla_core.clock import SystemClock
from ottla_core.cluster.state.model import PartitionState
from ottla_core.errors import KafkaError

if TYPE_CHECKING:
    from ottla_broker.partition import Partition

ReplicationNotice = Callable[[KafkaError | None], None]
"""Called when records are replicated, or with the reason why nobody can tell whether they will be."""


class NotEnoughReplicas(KafkaError):
    """Fewer replicas are in sync than `min.insync.replicas` asks for; nothing was appended."""

    code = ErrorCode.not_enough_replicas


class NotEnoughReplicasAfterAppend(KafkaError):
    """Fewer replicas are in sync than `min.insync.replicas` asks for, though the records are in the log."""

    code = ErrorCode.not_enough_replicas_after_append


class PartitionWatcher(Protocol):
    """Who wants to know what happens to a partition. The calls must not fail, nor change the partition."""

    def on_append(self, partition: "Partition", size_bytes: int) -> None:
        """The leader's log has grown."""

    def on_high_watermark(self, partition: "Partition") -> None:
        """The high watermark has moved."""

    def on_change(self, partition: "Partition") -> None:
        """Role, in-sync set or start offset have changed."""


@dataclass(slots=True)
class ReplicationContext:
    """What all partitions of a broker share.

    Attributes:
        broker_id: this broker.
        lag_max_ms: `replica.lag.time.max.ms`.
        monotonic_ms: the clock by which followers lag.
        live_brokers: who is registered and not about to stop; replaced when the cluster state changes.
        on_out_of_sync_fetch: told when a follower outside the in-sync set has fetched, for it may have caught up.
        on_lost_log: told when a replica has found out that it has lost its log, so that the controller learns of it.
        on_failed_log: told when a log has failed for good, or was found to lack records, and again whenever the
            controller has decided something else about its partition.
        on_link: told when the role or the state has changed of a partition that follows another cluster, or did until
            now, with its former state; it must not fail.
        name_of_link: what to call a link.
        traffic: counts what goes into and out of topics.
        time_ms: the clock for timestamps.
        on_search: told when a replica begins to search for the longest log, and when it has heard of one.
    """

    broker_id: int
    lag_max_ms: int
    monotonic_ms: Callable[[], int]
    live_brokers: Collection[int] = frozenset()
    on_out_of_sync_fetch: Callable[["Partition"], None] | None = None
    on_lost_log: Callable[["Partition"], None] | None = None
    on_failed_log: Callable[["Partition"], None] | None = None
    on_link: Callable[["Partition", PartitionState], None] | None = None
    name_of_link: Callable[[UUID], str] = str
    on_search: Callable[["Partition"], None] | None = None
    time_ms: Callable[[], int] = SystemClock().time_ms
    traffic: TrafficByTopic = field(default_factory=TrafficByTopic)
