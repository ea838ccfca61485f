"""What is to be done once a turn of a shard is stored."""

from dataclasses import dataclass

from ottla_group_coordinator.transactions.requests import EndOfTransaction
from ottla_group_coordinator.transactions.transaction import Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMarkers:
    """Have every partition of a transaction write its end.

    Attributes:
        end: which end it is.
        is_commit: how it ends.
        transaction_version: by which protocol; see `MarkersWrite` in group_relay.proto.
        partitions: those that need a marker.
        ownership_number: of the shard, when the turn was taken.
        start_ms: when the transaction began, in milliseconds since the epoch.
    """

    end: EndOfTransaction
    is_commit: bool
    transaction_version: int
    partitions: Partitions
    ownership_number: int
    start_ms: int
