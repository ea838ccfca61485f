"""What transactions do to offsets: their records are applied as pending ones, which their ends commit or drop.

What is written is applied at once by the same functions that apply it when the shard is loaded.

Source: `OffsetMetadataManager.replay` and `replayEndTransactionMarker` in Kafka.
"""

from ottla_core.wire.control_records import TransactionMarker
from ottla_group_coordinator.offsets.offset_replay import replay_pending_offset
from ottla_group_coordinator.records import OffsetCommitKey, OffsetCommitValue
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, TransactionProducer, Turn
from ottla_group_coordinator.shard_state import ShardState


def write_in_transaction(
    shard: ShardState, turn: Turn, producer: TransactionProducer, key: OffsetCommitKey, value: OffsetCommitValue
) -> None:
    """Store and apply an offset that counts once the producer's transaction is committed.

    All records of the turn must belong to this transaction.
    """
    if turn.transaction is None:
        assert not turn.records, "a turn's records count at once, or belong to one transaction"
        turn.transaction = producer
        replay_producer(shard, producer, turn.timestamp_ms)
    assert turn.transaction == producer, "a turn's records belong to one transaction"
    record = CoordinatorRecord(key, value)
    turn.records.append(record)
    replay_in_transaction(shard, record, producer)


def write_marker(shard: ShardState, turn: Turn, marker: TransactionMarker) -> None:
    """Store and apply the end of a transaction."""
    turn.markers.append(marker)
    replay_marker(shard, marker, turn.timestamp_ms)


def replay_producer(shard: ShardState, producer: TransactionProducer, timestamp_ms: int) -> None:
    """Apply that a producer has written.

    What it has pending under an earlier epoch is dropped: no coordinator knows of that transaction here, or it would
    have ended it before a later one could begin. To commit it with the later one would be wrong.
    """
    if shard.transaction_producers.on_producer(producer, timestamp_ms):
        shard.pending_offsets.abort(producer.id)


def replay_in_transaction(shard: ShardState, record: CoordinatorRecord, producer: TransactionProducer) -> None:
    """Apply a record of a transaction; only offsets are written in transactions."""
    shard.transaction_producers.on_records(producer)
    if isinstance(record.key, OffsetCommitKey) and record.value is not None:
        replay_pending_offset(shard, producer.id, record.key, record.value)


def replay_marker(shard: ShardState, marker: TransactionMarker, timestamp_ms: int) -> None:
    """Apply the end of a transaction: what is pending becomes the groups' offsets, or is dropped."""
    shard.transaction_producers.on_marker(marker, timestamp_ms)
    if not marker.is_commit:
        shard.pending_offsets.abort(marker.producer_id)
        return
    for key, value in shard.pending_offsets.commit(marker.producer_id):
        shard.offsets.replay(key, value)
