"""The requests by which this broker has coordinators confirm or add the partitions of transactions (KIP-890).

A batch may begin a transaction in a partition only if the transaction's coordinator knows the partition as a part of
it: nobody would ever end it there otherwise. Old clients add their partitions before they write, so that it is enough
to have the coordinator confirm that; for newer ones the broker adds the partitions.

What comes together in one turn of the event loop for one shard goes on in one AddPartitionsToTxn, each transactional
id once. Source: Kafka's AddPartitionsToTxnManager.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from ottla_broker.groups.errors import NotCoordinator, TransactionalIdRefused
from ottla_broker.groups.relay import OWN_HOST, GroupRelay
from ottla_broker.groups.routing import transaction_shard_for
from ottla_broker.transactions.recent_partitions import RecentPartitions
from ottla_core.background import start_detached
from ottla_core.callback_answer import CallbackAnswer
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import InvalidRequest, MessageTooLarge
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.messages import RequestHeader, message_codec
from ottla_core.wire.transaction_responses import ADD_PARTITIONS_TO_TXN

VERSION: Final = 5
"""Of AddPartitionsToTxn; the first that may be answered with TRANSACTION_ABORTABLE."""

TRANSACTIONS_PER_REQUEST_MAX: Final = 200
WAITING_MAX: Final = 10_000
"""Questions of which the coordinators owe the answer; more are refused, and their producers come again."""

Errors = Mapping[TopicPartition, ErrorCode]
"""Why partitions are no part of a transaction; those that are have no entry."""


@dataclass(slots=True, eq=False)
class _Question:
    """What is asked about one transaction.

    Attributes:
        answer: the errors.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    adds: bool
    answer: CallbackAnswer[Errors] = field(default_factory=CallbackAnswer)

    def refuse(self, code: ErrorCode) -> None:
        self.answer.settle(dict.fromkeys(self.partitions, code))

    def fields(self) -> dict[str, Any]:
        topics: dict[str, list[int]] = {}
        for partition in self.partitions:
            topics.setdefault(partition.topic, []).append(partition.partition)
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "verify_only": not self.adds,
            "topics": tuple(
                message_of(_TOPIC, name=name, partitions=tuple(indexes)) for name, indexes in topics.items()
            ),
        }


_REQUEST: Final[type[Entity]] = load_request_schema(ADD_PARTITIONS_TO_TXN, VERSION)
_TRANSACTION: Final = item_type(_REQUEST, "transactions")
_TOPIC: Final = item_type(_TRANSACTION, "topics")
_CODEC: Final = message_codec(ADD_PARTITIONS_TO_TXN, VERSION)


class CoordinatorRequests:
    """Asks coordinators about partitions of transactions.

    Args:
        relay: the way to the coordinators.
        state: returns the newest cluster state.
        client_id: by which coordinators know who asks.
        timeout_s: after how many seconds a question is given up.

    Attributes:
        recent: the partitions that producers have asked about lately.
        asked_count: questions.
        failed_count: those that were answered no for a partition, or not at all.
    """

    def __init__(
        self, relay: GroupRelay, state: Callable[[], ClusterState], client_id: str, timeout_s: float
    ) -> None:
        self._relay = relay
        self._state = state
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._correlation_ids = itertools.count()
        self._queued: dict[TopicPartition, deque[_Question]] = {}
        self._waiting_count = 0
        self.recent = RecentPartitions()
        self.asked_count = 0
        self.failed_count = 0

    async def errors_of(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Errors:
        """Have the coordinator of a transaction add partitions to it, or confirm that it has them.

        What the coordinator says is not changed: its errors, or NETWORK_EXCEPTION if it does not answer in time, or
        NOT_COORDINATOR if it cannot be reached.

        Args:
            transactional_id: the transaction's.
            producer_id: of the batches.
            producer_epoch: of the batches.
            partitions: which.
            adds: whether they are to be added.
        """
        self.asked_count += 1
        errors = await self._errors_of(_Question(transactional_id, producer_id, producer_epoch, partitions, adds))
        self.failed_count += bool(errors)
        return errors

    async def _errors_of(self, question: _Question) -> Errors:
        if self._waiting_count >= WAITING_MAX:
            return dict.fromkeys(question.partitions, ErrorCode.not_coordinator)
        self._waiting_count += 1
        timer = asyncio.get_running_loop().call_later(self._timeout_s, question.refuse, ErrorCode.network_exception)
        try:
            self._queue(question)
            return await question.answer
        finally:
            timer.cancel()
            self._waiting_count -= 1

    def _queue(self, question: _Question) -> None:
        try:
            shard = transaction_shard_for(self._state(), question.transactional_id)
        except (NotCoordinator, TransactionalIdRefused) as error:
            question.refuse(error.code)
            return
        queued = self._queued.get(shard)
        if queued is None:
            queued = self._queued[shard] = deque()
            asyncio.get_running_loop().call_soon(self._send, shard)
        queued.append(question)

    def _send(self, shard: TopicPartition) -> None:
        for questions in _batches(self._queued.pop(shard, ())):
            start_detached("asking about partitions of transactions", self._ask(shard, questions))

    async def _ask(self, shard: TopicPartition, questions: Mapping[str, _Question]) -> None:
        transactions = tuple(message_of(_TRANSACTION, **each.fields()) for each in questions.values())
        header = RequestHeader(
            ADD_PARTITIONS_TO_TXN, VERSION, next(self._correlation_ids) & 0x7FFFFFFF, self._client_id, 0
        )
        frame = _CODEC.encode_request(header, message_of(_REQUEST, transactions=transactions))
        code = ErrorCode.unknown_server_error
        try:
            answer = await self._relay.ask(shard, frame, OWN_HOST, _read)
            code = answer.error_code
            if code == ErrorCode.none:
                code = ErrorCode.network_exception  # for what is missing in the answer
                for result in answer.results_by_transaction:
                    if (question := questions.get(result.transactional_id)) is not None:
                        question.answer.settle(_errors(question, result))
        except (NotCoordinator, MessageTooLarge) as error:
            code = error.code
        finally:
            for question in questions.values():
                question.refuse(code)  # without effect where there is an answer


def _batches(questions: Iterable[_Question]) -> Iterable[Mapping[str, _Question]]:
    """Yield what goes on in one request each: every transactional id once, in the order in which they were asked."""
    batch: dict[str, _Question] = {}
    for question in questions:
        if question.transactional_id in batch or len(batch) >= TRANSACTIONS_PER_REQUEST_MAX:
            yield batch
            batch = {}
        batch[question.transactional_id] = question
    if batch:
        yield batch


def _read(answer: bytes | NotCoordinator) -> Any:
    if isinstance(answer, NotCoordinator):
        raise answer
    if not answer:
        raise InvalidRequest("a coordinator of transactions cannot read the broker's request")
    return _CODEC.read_response(answer)


def _errors(question: _Question, result: Any) -> Errors:
    """Return the errors in an answer; a partition that it leaves out counts as one that could not be asked for."""
    codes = {
        TopicPartition(topic.name, each.partition_index): each.partition_error_code
        for topic in result.topic_results
        for each in topic.results_by_partition
    }
    found = ((partition, codes.get(partition, ErrorCode.network_exception)) for partition in question.partitions)
    return {partition: code for partition, code in found if code != ErrorCode.none}
