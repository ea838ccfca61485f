"""What transactions of copies ask of the target, whoever asks it: see `TargetTransactions`."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from ottla_core.errors import OttlaError
from ottla_core.wire.raw_produce import ProduceOutcome
from ottla_core.wire.record_batch import Buffer
from ottla_core.wire.records import Record
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.copy.source_batch import SourceBatch
from ottla_mirror.copy.transactions.transaction_rules import Producer

TopicPartition = tuple[str, int]
OnOutcome = Callable[[ProduceOutcome | str], None]


class TransactionRequests(Protocol):
    """What the target is asked."""

    @property
    def is_version_2(self) -> bool:
        """Whether partitions are added by writing to them, and each transaction has an epoch of its own (KIP-890)."""
        ...

    async def init(self, transactional_id: str) -> Producer:
        """Fence whoever has the id, have its transaction ended, and return the producer to write as.

        Raises:
            OttlaError: it is not to be had now.
        """
        ...

    async def add(self, transactional_id: str, producer: Producer, partitions: list[TopicPartition]) -> ErrorCode:
        """Add partitions to a transaction, up to version 1.

        Raises:
            OttlaError: there is no answer.
        """
        ...

    async def end(
        self, transactional_id: str, producer: Producer, *, commits: bool
    ) -> tuple[ErrorCode, Producer | None]:
        """End a transaction; with version 2, return the producer of the next one.

        Raises:
            OttlaError: there is no answer; it may have ended.
        """
        ...

    def produce(
        self, leader: int, transactional_id: str, to: TopicPartition, batch: Buffer, on_outcome: OnOutcome
    ) -> None:
        """Send a batch, and tell later what has become of it, or why there is no answer."""
        ...


class TransactionFailed(OttlaError):
    """A transaction cannot be committed.

    Attributes:
        is_taken: whether another worker has the partition by now.
    """

    def __init__(self, reason: str, *, is_taken: bool = False) -> None:
        super().__init__(reason)
        self.is_taken = is_taken


class Letters(NamedTuple):
    """Records that the target has refused, for another topic of it.

    Attributes:
        to: the topic and its partition.
        leader: of that.
        records: with what is told about them.
    """

    to: TopicPartition
    leader: int
    records: list[Record]


LettersOf = Callable[[PartitionWork, SourceBatch, str], Awaitable[Letters]]
