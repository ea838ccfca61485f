"""What a shard of transactions keeps, as all rules see it: they change it by records.

`write` puts a record into the turn and applies it at once, as `replay` applies it when the partition is loaded; what
an event decides next sees it.
"""

from abc import ABC, abstractmethod
from typing import Protocol

from ottla_core.cluster.state.model import ClusterState
from ottla_group_coordinator.runtime.timers import Timers
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, Token, Turn
from ottla_group_coordinator.transactions.records import (
    OwnershipKey,
    OwnershipValue,
    TransactionKey,
    TransactionValue,
    transaction_of,
    value_of,
)
from ottla_group_coordinator.transactions.requests import TransactionRequest
from ottla_group_coordinator.transactions.settings import TransactionSettings
from ottla_group_coordinator.transactions.transaction import EPOCH_BUMP_VERSION, NO_PRODUCER_ID, Transaction
from ottla_group_coordinator.transactions.transaction_state import TransactionState

NUMBER_MAX = 2**31 - 1


class Timer(Protocol):
    """A deadline of the shard: a frozen dataclass."""

    def __hash__(self) -> int: ...

    def expire(self, shard: "TransactionShardState", turn: Turn) -> None:
        """Do what is due."""


class TransactionShardState(ABC):
    """The transactional ids of one shard.

    Args:
        settings: of all transactions.
        cluster_state: the topics and features, to begin with.

    Attributes:
        transactions: by transactional id.
        ownership_number: what markers bear as their coordinator epoch.
        timeouts: when which open transaction's time is up; `CheckTimeouts` looks at them.
        expiring_ids: ids that the present search for expired ones has still to look at.
        timers: what is due when.
        timestamps_ahead_ms: what is to be added to the time of deadlines for the time of records.
        sent_ends: the serial of the end of which markers are on their way, by transactional id.
        held: requests that wait until the id's transaction is complete, by id and token; see `holding.py`.
        spare_producer_id: one that came with a request that did not need it, for time-outs, which no broker has asked
            for; or None.
    """

    def __init__(self, *, settings: TransactionSettings, cluster_state: ClusterState) -> None:
        self.settings = settings
        self.cluster_state = cluster_state
        self.transactions: dict[str, Transaction] = {}
        self.ownership_number = 0
        self.timeouts: Timers[str] = Timers()
        self.expiring_ids: list[str] = []
        self.timers: Timers[Timer] = Timers()
        self.timestamps_ahead_ms = 0
        self.sent_ends: dict[str, tuple[int, int]] = {}
        self.held: dict[str, dict[Token, TransactionRequest]] = {}
        self.spare_producer_id: int | None = None
        self._ends = 0

    @property
    def transaction_version(self) -> int:
        """The cluster's."""
        return self.cluster_state.features.transaction_version

    @property
    def own_ending_version(self) -> int:
        """By which version the coordinator ends transactions of its own accord."""
        return EPOCH_BUMP_VERSION if self.transaction_version >= EPOCH_BUMP_VERSION else 0

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record that is stored."""
        key, value = record
        if isinstance(key, OwnershipKey):
            assert isinstance(value, OwnershipValue)
            self.ownership_number = value.number
        elif value is None:
            self.transactions.pop(key.transactional_id, None)
        else:
            assert isinstance(value, TransactionValue)
            self.transactions[key.transactional_id] = transaction_of(value)

    @abstractmethod
    def answer(self, request: TransactionRequest, turn: Turn) -> None:
        """Handle a client's request: answer it in this turn, or hold it for a later one."""

    def write(self, turn: Turn, transactional_id: str, transaction: Transaction) -> None:
        """Store and apply what becomes of a transactional id."""
        key = TransactionKey(transactional_id=transactional_id)
        turn.records.append(CoordinatorRecord(key, value_of(transaction, self.transaction_version)))
        self.transactions[transactional_id] = transaction
        self._follow(turn, transactional_id, transaction)

    def forget(self, turn: Turn, transactional_id: str) -> None:
        """Store and apply that a transactional id is not known any more."""
        record = CoordinatorRecord(TransactionKey(transactional_id=transactional_id), None)
        turn.records.append(record)
        self.replay(record)
        self.timeouts.cancel(transactional_id)

    def raise_number(self, turn: Turn, number: int) -> None:
        """Store and apply a later ownership number."""
        assert self.ownership_number < number <= NUMBER_MAX, "an ownership number is an int32 that grows"
        record = CoordinatorRecord(OwnershipKey(), OwnershipValue(number=number))
        turn.records.append(record)
        self.replay(record)

    def next_serial(self, transactional_id: str) -> tuple[int, int]:
        """Return the serial of an end of which markers are to be sent now; any other one of the id is void."""
        self._ends += 1
        serial = self.sent_ends[transactional_id] = (self.ownership_number, self._ends)
        return serial

    def take_spare_id(self) -> int:
        """Return a producer id that nobody has, which is then taken, or `NO_PRODUCER_ID`."""
        spare, self.spare_producer_id = self.spare_producer_id, None
        return NO_PRODUCER_ID if spare is None else spare

    def _follow(self, turn: Turn, transactional_id: str, transaction: Transaction) -> None:
        """Let the time of an open transaction run from its beginning."""
        if transaction.state is not TransactionState.ONGOING or transaction.is_two_phase:
            self.timeouts.cancel(transactional_id)
        elif transactional_id not in self.timeouts:
            self.timeouts.set(transactional_id, turn.now_ms + transaction.timeout_ms)
