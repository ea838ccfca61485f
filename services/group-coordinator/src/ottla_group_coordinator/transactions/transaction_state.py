"""The states of a transactional id, and which may follow which.

Source: `TransactionState` in Kafka's transaction coordinator.
"""

from collections.abc import Mapping
from enum import Enum


class TransactionState(Enum):
    """A state, as Kafka spells it; `STATE_IDS` has the numbers that stand in records."""

    EMPTY = "Empty"
    """No transaction since the producer began. Left by a partition that is added; since transaction version 2 also by
    an abort, as a client need not know whether anything was added."""

    ONGOING = "Ongoing"
    """Partitions are added. Left by EndTxn, by a later producer of the same id, and when the time is up."""

    PREPARE_COMMIT = "PrepareCommit"
    """It is decided and stored that the transaction is committed. Left when every partition has the marker."""

    PREPARE_ABORT = "PrepareAbort"
    """The same, aborted."""

    COMPLETE_COMMIT = "CompleteCommit"
    """Every partition has its marker. Left by the next transaction or producer, or by the id's expiry."""

    COMPLETE_ABORT = "CompleteAbort"
    """The same, aborted."""

    DEAD = "Dead"
    """The id has expired. No record has this state: an id that expires leaves a tombstone, and is forgotten."""

    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """The producer is being fenced. No record has this state: the turn that fences stores PREPARE_ABORT."""


S = TransactionState

STATE_IDS: Mapping[TransactionState, int] = {state: number for number, state in enumerate(TransactionState)}
STATES_BY_ID: Mapping[int, TransactionState] = {number: state for state, number in STATE_IDS.items()}
STATES_BY_NAME: Mapping[str, TransactionState] = {state.value: state for state in TransactionState}

PREPARED = frozenset({S.PREPARE_COMMIT, S.PREPARE_ABORT})
"""Decided, and under way to the partitions: nothing of the id may change but to complete."""

COMPLETE = frozenset({S.COMPLETE_COMMIT, S.COMPLETE_ABORT})
AT_REST = frozenset({S.EMPTY, *COMPLETE})
"""No transaction is open; only such ids expire."""

NEVER_STORED = frozenset({S.DEAD, S.PREPARE_EPOCH_FENCE})

PREDECESSORS: Mapping[TransactionState, frozenset[TransactionState]] = {
    S.EMPTY: AT_REST,
    S.ONGOING: frozenset({S.ONGOING, *AT_REST}),
    S.PREPARE_COMMIT: frozenset({S.ONGOING}),
    S.PREPARE_ABORT: frozenset({S.ONGOING, S.PREPARE_EPOCH_FENCE, *AT_REST}),
    S.COMPLETE_COMMIT: frozenset({S.PREPARE_COMMIT}),
    S.COMPLETE_ABORT: frozenset({S.PREPARE_ABORT}),
    S.DEAD: AT_REST,
    S.PREPARE_EPOCH_FENCE: frozenset({S.ONGOING}),
}
"""The states that each state may follow."""
