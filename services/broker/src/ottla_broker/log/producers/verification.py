"""Guards: proof that a transaction was still open when its coordinator was asked, for the time of asking. Pure.

A client's batch may begin a transaction in a partition only if the coordinator knows of it, for nobody would ever
end one that it does not know (KIP-890, KAFKA-14402). The broker takes a guard, asks the coordinator, and appends the
batch with the guard. Meanwhile the transaction may have been ended: whatever ends it here, or shows that the producer
has gone on, makes the guard void, and so does the first batch of the transaction. A guard is valid as long as it is
the one that stands for its producer; of two requests under the same epoch each gets the same one.

Unlike Kafka's, a guard belongs to one epoch. A batch that was verified under an epoch must not be appended with a
guard that a later one renewed. Source of the rest: Kafka's VerificationStateEntry.
"""

from dataclasses import dataclass
from typing import Final

from ottla_core.errors import InvalidProducerEpoch
from ottla_core.topic_partition import TopicPartition

GUARDS_MAX: Final = 10_000
"""Of so many producers a partition keeps guards; beyond that the oldest one gives way, and its batch is refused."""

_SWEEPS_MAX: Final = 2
"""A guard that was neither used nor made void for so many sweeps has been given up by its request."""


@dataclass(slots=True, eq=False)
class VerificationGuard:
    """Stands for a producer's transaction that is being verified.

    Attributes:
        producer_id: the producer.
        producer_epoch: its epoch.
        lowest_sequence: the lowest base sequence for which a guard was taken. A batch beyond it is refused, since the
            one with this sequence may have failed and come again (KAFKA-15653).
        supports_epoch_bump: whether the producer's epoch is raised at the end of each transaction, so that its
            sequence begins at 0.
        sweeps: how often it was found unused.
        is_confirmed: whether the coordinator has said, asked after the guard was taken, that the transaction has this
            partition. As long as the guard stands, a batch may be appended with it without another question.
    """

    producer_id: int
    producer_epoch: int
    lowest_sequence: int
    supports_epoch_bump: bool
    sweeps: int = 0
    is_confirmed: bool = False


class Verifications:
    """The guards of one partition."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def begin(
        self,
        topic_partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        *,
        supports_epoch_bump: bool,
    ) -> VerificationGuard:
        """Return the guard that stands for a producer under an epoch from now on.

        Raises:
            InvalidProducerEpoch: the producer is being verified under a later epoch.
        """
        guard = self._guards.get(producer_id)
        if guard is not None:
            if guard.producer_epoch == producer_epoch:
                guard.lowest_sequence = min(guard.lowest_sequence, base_sequence)
                guard.sweeps = 0
                return guard
            if guard.producer_epoch > producer_epoch:
                raise InvalidProducerEpoch(
                    f"Epoch of producer {producer_id} in {topic_partition} is {producer_epoch}, which is smaller than"
                    f" {guard.producer_epoch}, under which it is being verified"
                )
        elif len(self._guards) >= GUARDS_MAX:
            del self._guards[next(iter(self._guards))]
        guard = VerificationGuard(producer_id, producer_epoch, base_sequence, supports_epoch_bump)
        self._guards[producer_id] = guard
        return guard

    def is_valid(self, guard: VerificationGuard | None, producer_id: int, producer_epoch: int) -> bool:
        """Return whether a guard stands for this producer under this epoch."""
        return guard is not None and guard.producer_epoch == producer_epoch and self._guards.get(producer_id) is guard

    def void(self, producer_id: int) -> None:
        """Make the guard of a producer void, if there is one."""
        self._guards.pop(producer_id, None)

    def void_all(self) -> None:
        """Make all guards void."""
        self._guards.clear()

    def sweep(self) -> None:
        """Drop the guards that two sweeps have found unused."""
        for guard in tuple(self._guards.values()):
            guard.sweeps += 1
            if guard.sweeps >= _SWEEPS_MAX:
                del self._guards[guard.producer_id]
