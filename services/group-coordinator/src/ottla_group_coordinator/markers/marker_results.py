"""What an error of a partition means for its marker. Pure.

Source: `TransactionMarkerRequestCompletionHandler` in Kafka.
"""

from enum import Enum

from kio.schema.errors import ErrorCode


class MarkerResult(Enum):
    """What follows from a partition's answer."""

    DONE = "done"
    """The partition has the marker, or cannot have any record of the transaction."""

    AGAIN = "again"
    """The marker is sent again, to whoever leads the partition then."""

    NUMBER_REFUSED = "number refused"
    """The log has seen a later ownership number. If that is another owner's, we cannot store a later one any more;
    otherwise the shard has forgotten its own, and has to go on above it."""

    PRODUCER_REFUSED = "producer refused"
    """The log has seen a later epoch of the producer, which only another owner can have given away."""

    UNEXPECTED = "unexpected"
    """Sent again, as it must not get lost; there is a line in the log."""


_DONE = frozenset(
    {
        ErrorCode.none,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.unsupported_version,
        # The partition follows one of another cluster by now, or is of `__transaction_state`, and takes no markers.
        ErrorCode.policy_violation,
    }
)
_AGAIN = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.kafka_storage_error,
        # What brokers say of shards of groups, for which other processes answer.
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)


def result_of(code: int) -> MarkerResult:
    """Return what follows from an error code, also from one that is not known."""
    if code in _DONE:
        return MarkerResult.DONE
    if code in _AGAIN:
        return MarkerResult.AGAIN
    if code == ErrorCode.transaction_coordinator_fenced:
        return MarkerResult.NUMBER_REFUSED
    if code in {ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced}:
        return MarkerResult.PRODUCER_REFUSED
    return MarkerResult.UNEXPECTED
