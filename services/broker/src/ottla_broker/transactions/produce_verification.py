"""Whether the batches of a produce request may begin a transaction in their partitions: the coordinator is asked.

For each partition in which the transaction is not open, a guard is taken before the coordinator is asked. It becomes
void by all that would make the coordinator's answer outdated: a marker, a later epoch, another leadership. The batch
is appended with the guard, and the log looks whether it is still valid.

Which errors a producer is told depends on the version in which it asks (KIP-890). Source: Kafka's
ReplicaManager.handleProduceAppend and AddPartitionsToTxnManager.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_broker.log.producers.verification import VerificationGuard
from ottla_broker.partition import Partition
from ottla_broker.partition_table import PartitionTable
from ottla_broker.transactions.coordinator_requests import CoordinatorRequests, Errors
from ottla_core.errors import CodedError, KafkaError
from ottla_core.shards import INTERNAL_TOPICS
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.produce_request import ProduceRequest
from ottla_core.wire.record_batch import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE_BYTES,
    TRANSACTIONAL_FLAG,
    Buffer,
    RecordBatchHeader,
    parse_header,
)
from ottla_core.wire.transaction_responses import FIRST_IMPLICIT_PRODUCE

FIRST_WITH_ABORTABLE: Final = 11
"""The first version of Produce whose clients know TRANSACTION_ABORTABLE."""

Place = tuple[str | UUID, int]
"""A partition as a request names it."""

_ATTRIBUTES_LOW_BYTE: Final = ATTRIBUTES_OFFSET + 1

_NOT_VERIFIED: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.request_timed_out,
    }
)
"""Errors that pass, and that older producers do not take for such in answer to a produce."""


class SeveralProducers(KafkaError):
    """The batches of one transactional request are of several producers or epochs."""

    code = ErrorCode.invalid_producer_id_mapping


def is_transactional(records: Buffer) -> bool:
    """Return whether a batch is part of a transaction; garbage is refused elsewhere."""
    return len(records) > _ATTRIBUTES_LOW_BYTE and bool(records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_FLAG)


def has_transactional_batches(message: ProduceRequest) -> bool:
    """Return whether a request has a batch that is part of a transaction."""
    return any(
        data.records is not None and is_transactional(data.records)
        for _, partitions in message.topics
        for data in partitions
    )


@dataclass(frozen=True, slots=True)
class Verified:
    """What may be appended.

    Attributes:
        guards: of the batches that the coordinator knows of, by partition.
        errors: why batches must not be appended.
    """

    guards: Mapping[Place, VerificationGuard] = field(default_factory=dict)
    errors: Mapping[Place, KafkaError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retrying:
    """How a partition is added anew to a transaction whose predecessor still ends.

    Attributes:
        backoff_s: after how many seconds.
        backoff_max_s: after how many seconds in all the producer has to come again itself.
    """

    backoff_s: float
    backoff_max_s: float


class ProduceVerification:
    """The verification of one request.

    Args:
        message: the request.
        version: of the request.
        partitions: this broker's.
        may_write: whether the client may write to a topic, as the request names it. No other partition is added to
            a transaction.

    Raises:
        SeveralProducers: the request is refused as a whole.
    """

    def __init__(
        self,
        message: ProduceRequest,
        version: int,
        partitions: PartitionTable,
        may_write: Callable[[str | UUID], bool],
    ) -> None:
        assert message.transactional_id is not None
        self._transactional_id = message.transactional_id
        self._version = version
        self._adds = version >= FIRST_IMPLICIT_PRODUCE
        self._producer: tuple[int, int] | None = None
        self._guards: dict[Place, VerificationGuard] = {}
        self._partitions = partitions
        self._asked: dict[TopicPartition, tuple[Place, Partition, int]] = {}
        self._errors: dict[Place, KafkaError] = {}
        batches = list(_transactional_batches(message))
        producers = {(header.producer_id, header.producer_epoch) for _, _, header in batches}
        if len(producers) > 1:
            raise SeveralProducers("Transactional records contained more than one producer ID")
        for place, records, header in batches:
            self._producer = header.producer_id, header.producer_epoch
            try:
                partition = partitions.leader_of(*place)
                topic = partition.topic_partition.topic
                if topic in INTERNAL_TOPICS or not partition.needs_verification(records) or not may_write(place[0]):
                    continue  # appending it says what is wrong with it
                guard = partition.begin_verification(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    supports_epoch_bump=self._adds,
                )
            except KafkaError as error:
                self._errors[place] = error
            else:
                self._guards[place] = guard
                self._asked[partition.topic_partition] = place, partition, partition.state.leader_epoch

    @property
    def is_needed(self) -> bool:
        """Whether a coordinator is to be asked."""
        return bool(self._guards)

    def known(self) -> Verified:
        """Return what is known without asking."""
        return Verified(errors=self._errors)

    async def ask(self, coordinators: CoordinatorRequests, retrying: Retrying) -> Verified:
        """Ask the transaction's coordinator; return what may be appended."""
        assert self._producer is not None
        told = await self._told(coordinators, retrying, *self._producer)
        errors = dict(self._errors)
        for name, (place, partition, leader_epoch) in self._asked.items():
            if name in told:
                errors[place] = self._error(name, told[name])
            elif not self._partitions.leads_safely(partition) or partition.state.leader_epoch != leader_epoch:
                errors[place] = partition.not_leader()  # its guard is void, and the producer is to come again
        guards = {place: guard for place, guard in self._guards.items() if place not in errors}
        return Verified(guards, errors)

    async def _told(
        self, coordinators: CoordinatorRequests, retrying: Retrying, producer_id: int, producer_epoch: int
    ) -> Errors:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + retrying.backoff_max_s
        while True:
            errors = await coordinators.errors_of(
                self._transactional_id, producer_id, producer_epoch, tuple(self._asked), adds=self._adds
            )
            ends = self._adds and ErrorCode.concurrent_transactions in errors.values()
            if not ends or loop.time() + retrying.backoff_s > deadline:
                return errors
            await asyncio.sleep(retrying.backoff_s)

    def _error(self, partition: TopicPartition, code: ErrorCode) -> KafkaError:
        """Return what a producer is told for what its transaction's coordinator has said."""
        if code == ErrorCode.producer_fenced:
            code = ErrorCode.invalid_producer_epoch
        elif code == ErrorCode.transaction_abortable and self._version < FIRST_WITH_ABORTABLE:
            code = ErrorCode.invalid_txn_state
        if code == ErrorCode.invalid_txn_state:
            return CodedError(code, f"{partition} was not added to the transaction")
        if code in _NOT_VERIFIED or (code == ErrorCode.concurrent_transactions and not self._adds):
            return CodedError(
                ErrorCode.not_enough_replicas,
                f"Unable to verify that {partition} has been added to the transaction: {code.name.upper()}",
            )
        return CodedError(code, f"{partition} cannot be a part of the transaction: {code.name.upper()}")


def _transactional_batches(message: ProduceRequest) -> Iterable[tuple[Place, memoryview, RecordBatchHeader]]:
    """Yield the batches that are part of a transaction and have a whole header."""
    for named, partitions in message.topics:
        for data in partitions:
            records = data.records
            if records is not None and len(records) >= HEADER_SIZE_BYTES and is_transactional(records):
                try:
                    header = parse_header(records)
                except KafkaError:
                    continue
                yield (named, data.partition), records, header
