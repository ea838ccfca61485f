"""Whether the batches of a produce request may begin a transaction in their partitions: the coordinator is asked.

For each partition in which the transaction is not open, a guard is taken before the coordinator is asked. It becomes
void by all that would make the coordinator's answer outdated: a marker, a later epoch, another leadership. The batch
is appended with the guard, and the log looks whether it is still valid.

Where the coordinator has only to confirm, it is asked about more than this request needs: the partitions in which the
producer's last transaction had begun (`recent_partitions.py`). Guards are taken for them as well, and those that it
confirms spare later requests of the transaction their question, as long as they stand.

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
from ottla_broker.transactions.early_guards import Guards, take_early_guards
from ottla_broker.transactions.recent_partitions import RecentPartitions
from ottla_core.errors import CodedError, KafkaError
from ottla_core.shards import INTERNAL_TOPICS
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.produce_request import ProduceRequest
from ottla_core.wire.record_batch import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE_BYTES,
    MAGIC_OFFSET,
    MAGIC_V2,
    TRANSACTIONAL_FLAG,
    Buffer,
    RecordBatchHeader,
    parse_header,
)
from ottla_core.wire.transaction_responses import FIRST_IMPLICIT_PRODUCE

FIRST_WITH_ABORTABLE: Final = 11
"""The first version of Produce whose clients know TRANSACTION_ABORTABLE."""

TRIES_MAX: Final = 3
"""So often a coordinator is asked whose answers are outdated when they come."""

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
    return (
        len(records) > _ATTRIBUTES_LOW_BYTE
        and bool(records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_FLAG)
        and records[MAGIC_OFFSET] == MAGIC_V2
    )


def has_transactional_batches(message: ProduceRequest) -> bool:
    """Return whether a request has a batch that is part of a transaction."""
    return any(
        data.records is not None and is_transactional(data.records)
        for _, partitions in message.topics
        for data in partitions
    )


@dataclass(frozen=True, slots=True)
class VerificationResult:
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """A partition of which the coordinator is asked; `leader_epoch` is that in which the guard was taken."""

    place: Place
    partition: Partition
    leader_epoch: int
    guard: VerificationGuard

    @property
    def is_led_alike(self) -> bool:
        """Whether no other leadership has begun since."""
        return self.partition.state.leader_epoch == self.leader_epoch

    @property
    def is_valid(self) -> bool:
        """Whether the guard is good for an append, or asking again would not make it so."""
        return not self.is_led_alike or self.partition.stands(self.guard)


class ProduceVerification:
    """The verification of one request.

    Args:
        message: the request.
        version: of the request.
        partitions: this broker's.
        may_write: whether the client may write to a topic, as the request names it. No other partition is added to
            a transaction.
        recent: the partitions in which producers' last transactions have begun.

    Raises:
        SeveralProducers: the request is refused as a whole.
    """

    def __init__(
        self,
        message: ProduceRequest,
        version: int,
        partitions: PartitionTable,
        may_write: Callable[[str | UUID], bool],
        recent: RecentPartitions,
    ) -> None:
        assert message.transactional_id is not None
        self._transactional_id = message.transactional_id
        self._version = version
        self._adds = version >= FIRST_IMPLICIT_PRODUCE
        self._partitions = partitions
        self._may_write = may_write
        self._recent = recent
        self._batches = list(_transactional_batches(message))
        self._asked: dict[TopicPartition, _Asked] = {}
        self._confirmed: dict[Place, VerificationGuard] = {}
        self._errors: dict[Place, KafkaError] = {}
        if len({(header.producer_id, header.producer_epoch) for _, _, header in self._batches}) > 1:
            raise SeveralProducers("Transactional records contained more than one producer ID")
        self._take_guards()

    def _take_guards(self) -> None:
        """Take a guard for every partition in which the transaction is not open now."""
        self._asked.clear()
        self._confirmed.clear()
        self._errors.clear()
        for place, head, header in self._batches:
            try:
                partition = self._partitions.leader_of(*place)
                topic = partition.topic_partition.topic
                is_due = topic not in INTERNAL_TOPICS and partition.needs_verification(head)
                if not is_due or not self._may_write(place[0]):
                    continue  # appending it says what is wrong with it
                partition.check_takes_writes()  # else it would be added, and its marker never be written
                guard = partition.begin_verification(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    supports_epoch_bump=self._adds,
                )
            except KafkaError as error:
                self._errors[place] = error
            else:
                if guard.is_confirmed and not self._adds:
                    self._confirmed[place] = guard
                    self._recent.go_on(header.producer_id, partition.topic_partition)
                    continue
                self._asked[partition.topic_partition] = _Asked(place, partition, partition.state.leader_epoch, guard)

    @property
    def is_needed(self) -> bool:
        """Whether a coordinator is to be asked."""
        return bool(self._asked)

    def known(self) -> VerificationResult:
        """Return what is known without asking."""
        return VerificationResult(dict(self._confirmed), self._errors)

    async def ask(self, coordinators: CoordinatorRequests, retrying: Retrying) -> VerificationResult:
        """Ask the transaction's coordinator; return what may be appended.

        It is asked again, with new guards, while the producer's last transaction still ends, and where that one's
        marker has come in between and made a guard void.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + retrying.backoff_max_s
        header = self._batches[0][2]
        tries = 0
        while self._asked:
            ahead = self._early_guards(header)
            told = await coordinators.errors_of(
                self._transactional_id,
                header.producer_id,
                header.producer_epoch,
                (*self._asked, *ahead),
                adds=self._adds,
            )
            for name, guard in ahead.items():
                guard.is_confirmed = name not in told  # it counts only as long as the guard stands
            if self._adds and ErrorCode.concurrent_transactions in told.values():
                if loop.time() + retrying.backoff_s > deadline:
                    return self._verified(told)
                await asyncio.sleep(retrying.backoff_s)
            else:
                tries += 1
                if tries == TRIES_MAX or all(name in told or each.is_valid for name, each in self._asked.items()):
                    return self._verified(told)
            self._take_guards()
        return self.known()

    def _early_guards(self, header: RecordBatchHeader) -> Guards:
        """Take guards for partitions that the transaction is likely to write to; none are added to it for that."""
        if self._adds:
            return {}
        names = self._recent.begin(header.producer_id, self._asked)
        return take_early_guards(self._partitions, header.producer_id, header.producer_epoch, names)

    def _verified(self, told: Errors) -> VerificationResult:
        errors, guards = dict(self._errors), dict(self._confirmed)
        for name, each in self._asked.items():
            if name in told:
                errors[each.place] = self._error(name, told[name])
            elif not self._partitions.leads_safely(each.partition) or not each.is_led_alike:
                errors[each.place] = each.partition.not_leader()  # its guard is void, and the producer comes again
            else:
                guards[each.place] = each.guard
        return VerificationResult(guards, errors)

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


def _transactional_batches(message: ProduceRequest) -> Iterable[tuple[Place, bytes, RecordBatchHeader]]:
    """Yield the places of batches that are part of a transaction, the bytes of their headers, and these."""
    for named, partitions in message.topics:
        for data in partitions:
            records = data.records
            if records is not None and len(records) >= HEADER_SIZE_BYTES and is_transactional(records):
                try:
                    header = parse_header(records)
                except KafkaError:
                    continue
                yield (named, data.partition), bytes(records[:HEADER_SIZE_BYTES]), header
