"""Transactions of version 2 by a client of our own: requests are sent again until the outcome is known.

A request whose answer was lost is sent again as it was: a batch with the same sequence, the end of a transaction
under the same epoch. A cluster must know both again.
"""

import time
from collections.abc import Callable
from itertools import groupby

from tests.faults.transactions.transaction_history import Partition
from tests.support.clients.routed_transactions import RoutedTransactions, Unanswered
from tests.support.clients.transaction_client import Producer

NONE = "none"
UNANSWERED = "unanswered"
PASSING = frozenset(
    {
        UNANSWERED,
        "coordinator_load_in_progress",
        "coordinator_not_available",
        "not_coordinator",
        "concurrent_transactions",
        "not_leader_or_follower",
        "leader_not_available",
        "unknown_topic_or_partition",
        "not_enough_replicas",
        "not_enough_replicas_after_append",
        "request_timed_out",
        "kafka_storage_error",
        "broker_not_available",
        "network_exception",
        "unstable_offset_commit",
        "offset_not_available",
        "fenced_leader_epoch",
        "unknown_leader_epoch",
    }
)
MOVED = frozenset({UNANSWERED, "not_leader_or_follower", "leader_not_available", "kafka_storage_error"})
PATIENCE_S = 30.0
REPEAT_PAUSE_S = 0.05


class RawTransactions:
    """A producer of one transactional id.

    Attributes:
        producer: its id and epoch, if it has begun.
    """

    def __init__(self, cluster: RoutedTransactions, transactional_id: str, *, timeout_ms: int):
        self._cluster = cluster
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._sequences: dict[Partition, int] = {}
        self.producer = Producer(-1, -1)

    def take_over(self) -> str:
        """Begins as the producer of the id; the error."""
        self._until_answered(lambda: self._cluster.any(lambda client: client.find(self._id)))

        def ask() -> str:
            error, producer = self._cluster.any(
                lambda client: client.init(self._id, timeout_ms=self._timeout_ms, settle=False)
            )
            if error == NONE:
                self._go_on_as(producer)
            return error

        return self._until_answered(ask)

    def produce(self, plan: tuple[Partition, ...], values: list[bytes]) -> str:
        """Sends values to where a plan says, neighbours of one partition as one batch; the first error."""
        numbered = list(zip(plan, values, strict=True))
        for (topic, partition), group in groupby(numbered, key=lambda each: each[0]):
            error = self.send(topic, partition, [value for _, value in group])
            if error != NONE:
                return error
        return NONE

    def send(self, topic: str, partition: int, values: list[bytes], *, patience_s: float = PATIENCE_S) -> str:
        """One batch; the error."""
        place = (topic, partition)
        sequence = self._sequences.get(place, 0)

        def ask() -> str:
            try:
                error = self._cluster.leader(
                    topic,
                    partition,
                    lambda client: client.produce(
                        self._id,
                        self.producer,
                        topic,
                        values,
                        sequence=sequence,
                        partition=partition,
                        settle=False,
                    ),
                )
            except Unanswered:
                error = UNANSWERED
            if error in MOVED:
                self._cluster.forget(topic, partition)
            return NONE if error == "duplicate_sequence_number" else error

        error = self._until_answered(ask, patience_s=patience_s)
        if error == NONE:
            self._sequences[place] = sequence + len(values)
        return error

    def end(self, *, commit: bool, patience_s: float = PATIENCE_S) -> str:
        """Ends the transaction; the error."""

        def ask() -> str:
            error, producer = self._cluster.any(
                lambda client: client.end(self._id, self.producer, commit=commit, settle=False)
            )
            if error == NONE:
                self._go_on_as(producer)
            return error

        return self._until_answered(ask, patience_s=patience_s)

    def commit_offset(self, group: str, topic: str, partition: int, offset: int) -> str:
        """Commits a group's offset in the transaction; the error."""

        def ask() -> str:
            return self._cluster.any(
                lambda client: client.commit_offset(
                    self._id, self.producer, group, topic, offset, partition=partition, settle=False
                )
            )

        return self._until_answered(ask)

    def _go_on_as(self, producer: Producer) -> None:
        """Every epoch has sequences of its own."""
        self.producer = producer
        self._sequences.clear()

    def _until_answered(self, ask: Callable[[], str], *, patience_s: float = PATIENCE_S) -> str:
        deadline_s = time.monotonic() + patience_s
        while True:
            try:
                error = ask()
            except Unanswered:
                error = UNANSWERED
            if error not in PASSING or time.monotonic() > deadline_s:
                return error
            time.sleep(REPEAT_PAUSE_S)  # between two requests; there is a deadline
