"""The producers whose transactions have reached a shard: their epochs, and who may write to it. Pure.

A transaction that its coordinator does not know to reach the shard would never be ended there: its offsets would be
pending for ever, and the last stable offset of the log would stand still. So before the first record of a
transaction the broker has the coordinator asked (KIP-890), and the shard gives it a *guard* that shows afterwards
that the transaction has not ended meanwhile. A guard is void when a marker of its producer or a later epoch comes.
It is not kept in the log, and no other owner of the shard knows it.

A producer's epoch is the highest that records or markers have had. Less is refused, be it a zombie's offsets or the
late marker of a transaction that another has followed. From version 2 of transactions on each end raises the epoch,
so a marker that does not raise it ends nothing: it comes for the second time, or for an earlier transaction.

Source: `VerificationStateEntry`, `ProducerAppendInfo` and `UnifiedLog` in Kafka, whose logs keep this.
"""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from ottla_core.errors import InvalidProducerEpoch, InvalidRecord, TransactionCoordinatorFenced
from ottla_core.wire.control_records import PROMOTION_MARKER, TransactionMarker
from ottla_group_coordinator.runtime.turn import TransactionProducer

NO_EPOCH = -1
GUARD_MASK = 2**63 - 1
"""Guards travel as signed 64-bit integers."""

FIRST_VERSION_THAT_RAISES_EPOCHS = 2
"""Of the feature transaction.version."""

PRODUCER_KEPT_MS = 24 * 60 * 60 * 1000
"""How long a producer is remembered without a transaction; logs forget them after that time (by default), too."""

GUARDS_MAX = 10_000
"""Guards that may stand; the oldest is void when there are more, so that its request costs one question more."""


@dataclass(slots=True)
class ProducerState:
    """What is known of one producer.

    Attributes:
        epoch: the highest that was seen.
        coordinator_epoch: of its last marker.
        is_open: whether it has written since its last transaction ended.
        seen_ms: when it or its coordinator has last written, in milliseconds since the epoch.
    """

    epoch: int
    coordinator_epoch: int = NO_EPOCH
    is_open: bool = False
    seen_ms: int = 0


class TransactionProducers:
    """All producers of a shard.

    Args:
        draw_uuid: gives what no owner of the shard has drawn before, for guards.
    """

    def __init__(self, draw_uuid: Callable[[], UUID]) -> None:
        self._states: dict[int, ProducerState] = {}
        # By epoch too: a request with an epoch that its producer never had must not stand in the producer's way.
        self._guards: dict[int, dict[int, int]] = {}
        self._guard_count = 0
        self._draw_uuid = draw_uuid

    def get(self, producer_id: int) -> ProducerState | None:
        """Return what is known of a producer, or None."""
        return self._states.get(producer_id)

    # Before something is written

    def is_open(self, producer: TransactionProducer) -> bool:
        """Return whether a transaction of the producer has reached the shard under this epoch, and not ended."""
        state = self._states.get(producer.id)
        return state is not None and state.is_open and state.epoch == producer.epoch

    def begin_verification(self, producer: TransactionProducer) -> int:
        """Return the guard under which the first records of a transaction may be written."""
        by_epoch = self._guards.setdefault(producer.id, {})
        guard = by_epoch.get(producer.epoch)
        if guard is None:
            guard = by_epoch[producer.epoch] = self._draw_uuid().int & GUARD_MASK
            self._guard_count += 1
            while self._guard_count > GUARDS_MAX:
                self._void_guards(next(iter(self._guards)))
        return guard

    def is_verified(self, producer: TransactionProducer, guard: int | None) -> bool:
        """Return whether a guard stands."""
        return guard is not None and self._guards.get(producer.id, {}).get(producer.epoch) == guard

    def _void_guards(self, producer_id: int) -> None:
        self._guard_count -= len(self._guards.pop(producer_id, ()))

    def check_records(self, producer: TransactionProducer) -> None:
        """See that no later instance of the producer has written.

        Raises:
            InvalidProducerEpoch: one has.
        """
        state = self._states.get(producer.id)
        if state is not None and producer.epoch < state.epoch:
            raise InvalidProducerEpoch(f"producer {producer.id} is at epoch {state.epoch}, not {producer.epoch}")

    def check_marker(self, marker: TransactionMarker, transaction_version: int) -> bool:
        """Return whether a marker is to be written; False if it is there already.

        Args:
            marker: the end of a transaction.
            transaction_version: of the transaction; 2 means that its end has raised the producer's epoch.

        Raises:
            InvalidRecord: it is of no producer.
            InvalidProducerEpoch: it ends an earlier transaction than the one that is open, if any is.
            TransactionCoordinatorFenced: a later coordinator has ended a transaction of the producer, or it is of
                none.
        """
        # The log takes neither. It would refuse the whole round, and the shard would have to be loaded again.
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise InvalidRecord(f"a marker of producer {marker.producer_id} with epoch {marker.producer_epoch}")
        if marker.coordinator_epoch <= PROMOTION_MARKER:
            raise TransactionCoordinatorFenced(f"no coordinator has the epoch {marker.coordinator_epoch}")
        state = self._states.get(marker.producer_id)
        if state is None:
            return True
        if marker.producer_epoch < state.epoch:
            raise InvalidProducerEpoch(
                f"producer {marker.producer_id} is at epoch {state.epoch}; a marker has {marker.producer_epoch}"
            )
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"a coordinator with epoch {state.coordinator_epoch} has ended a transaction of producer"
                f" {marker.producer_id}; a marker has {marker.coordinator_epoch}"
            )
        if marker.producer_epoch > state.epoch or transaction_version < FIRST_VERSION_THAT_RAISES_EPOCHS:
            return True
        if state.is_open:
            raise InvalidProducerEpoch(
                f"producer {marker.producer_id} has begun a transaction with epoch {state.epoch}, which a marker of"
                " the same epoch does not end"
            )
        return False

    # What records and markers change

    def on_producer(self, producer: TransactionProducer, timestamp_ms: int) -> bool:
        """Take note of a batch of a producer; return whether it is of a later epoch than what is open."""
        state = self._state(producer.id, producer.epoch, timestamp_ms)
        is_later = producer.epoch > state.epoch
        was_open = state.is_open
        if is_later:
            state.epoch, state.is_open = producer.epoch, False
        return is_later and was_open

    def on_records(self, producer: TransactionProducer) -> None:
        """Take note that a producer has written records since its last transaction ended."""
        self._states[producer.id].is_open = True
        self._void_guards(producer.id)

    def on_marker(self, marker: TransactionMarker, timestamp_ms: int) -> None:
        """Take note of the end of a transaction."""
        state = self._state(marker.producer_id, marker.producer_epoch, timestamp_ms)
        state.epoch = max(state.epoch, marker.producer_epoch)
        state.coordinator_epoch = max(state.coordinator_epoch, marker.coordinator_epoch)
        state.is_open = False
        self._void_guards(marker.producer_id)

    def _state(self, producer_id: int, epoch: int, timestamp_ms: int) -> ProducerState:
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(epoch)
        state.seen_ms = max(state.seen_ms, timestamp_ms)
        return state

    def forget_silent(self, timestamp_ms: int) -> None:
        """Forget producers that have been silent for long and have no open transaction."""
        silent_since_ms = timestamp_ms - PRODUCER_KEPT_MS
        silent = [
            id_ for id_, state in self._states.items() if not state.is_open and state.seen_ms <= silent_since_ms
        ]
        for producer_id in silent:
            del self._states[producer_id]
