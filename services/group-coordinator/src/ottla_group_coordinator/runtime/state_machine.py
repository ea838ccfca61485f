"""What a kind of coordinator brings along: the state machine of a shard, and the format of its records. Pure.

The runtime makes one state machine for each ownership of a shard. It replays every record of the shard's partition,
then takes turns: each event gives a `Turn`, of which the runtime stores the records before it gives the answers.
Nothing is ever rolled back. When a shard gets another owner, or a rule fails, the whole state machine is thrown away.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ottla_core.cluster.state.model import ClusterState
from ottla_core.wire.control_records import TransactionMarker
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, TransactionProducer, Turn


class Deadlines(Protocol):
    """The timers of a shard: `Timers`, whatever its timers do."""

    @property
    def next_deadline_ms(self) -> int | None:
        """When the next timer is due, or None if there is none."""


class StateMachine(Protocol):
    """One shard as its rules see it. Nothing here awaits, and `now_ms` is the only time.

    Attributes:
        timestamps_ahead_ms: what is to be added to the time of deadlines for the time of records.
    """

    timestamps_ahead_ms: int

    @property
    def timers(self) -> Deadlines:
        """What is due when."""

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record that is stored."""

    def loaded(self, now_ms: int) -> Turn:
        """Begin to serve after the last `replay`."""

    def handle(self, request: Any, now_ms: int) -> Turn:
        """Take a client's request, a `CoordinatorRequest` of this kind; it is answered now or in a later turn."""

    def advance(self, now_ms: int) -> Turn:
        """Do what is due, up to the first timer that writes: what is stored together stays small."""

    def on_cluster_state(self, state: ClusterState, now_ms: int) -> Turn:
        """Take over a newer cluster state."""


@runtime_checkable
class TransactionalStateMachine(Protocol):
    """What a `StateMachine` has besides if some of its turns belong to transactions."""

    def replay_producer(self, producer: TransactionProducer, timestamp_ms: int) -> None:
        """Apply that a transaction's producer has written; its records follow, unless compaction has removed them."""

    def replay_in_transaction(self, record: CoordinatorRecord, producer: TransactionProducer) -> None:
        """Apply a record of a transaction, which counts once the transaction is committed."""

    def replay_marker(self, marker: TransactionMarker, timestamp_ms: int) -> None:
        """Apply the end of a producer's transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFormat:
    """How the records of a kind of state machine are read and written.

    Attributes:
        encode_key: returns a key's bytes.
        encode_value: returns a value's bytes.
        decode_key: returns a key, or None if the record is of a type to be skipped; raises InvalidRecord.
        decode_value: returns the value that belongs to a key; raises InvalidRecord.
    """

    encode_key: Callable[[Any], bytes]
    encode_value: Callable[[Any], bytes]
    decode_key: Callable[[bytes], Hashable | None]
    decode_value: Callable[[Any, bytes], object]
