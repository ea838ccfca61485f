"""What transactions ask of the target: its coordinators, and its leaders over connections of their own.

A broker serves the requests of a connection one after the other, so partitions are spread over several connections,
to the leaders as to the coordinators; each partition stays with one, as its batches have to come in order.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple
from zlib import crc32

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest

from ottla_core.background import start_detached
from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.errors import AuthenticationFailed, Refused, Unreachable, UnsupportedByBroker
from ottla_core.client.pipelined_connection import Lost, PipelinedConnection
from ottla_core.errors import InvalidResponse
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.messages import message_codec
from ottla_core.wire.produce_request import FIRST_FLEXIBLE_VERSION
from ottla_core.wire.raw_produce import (
    OLDEST_VERSION,
    PRODUCE_KEY,
    produce_request_body,
    read_produce_response,
)
from ottla_core.wire.record_batch import Buffer
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.transactions.transaction_requests import OnOutcome, TopicPartition
from ottla_mirror.copy.transactions.transaction_rules import Answer, Producer, meaning_of_answer

CONNECTIONS_PER_LEADER: Final = 4
UNANSWERED_MAX: Final = 20
"""Requests under way on a connection to a leader; what comes in beyond waits here."""
LAST_VERSION_1_PRODUCE: Final = 11
VERSION_2_PRODUCE: Final = 12
"""With it a broker adds the partition of a batch to the transaction by itself (KIP-890)."""
TRANSACTION_VERSION: Final = "transaction.version"
_ADD_PARTITIONS_KEY: Final = 24
_ADD_PARTITIONS_NEWEST: Final = 3
"""Later versions are for brokers, which add partitions of many producers at a time."""
_END_KEY: Final = 26
_END_NEWEST: Final = {False: 4, True: 5}
"""By whether the cluster has version 2 of transactions: whoever asks in the newer one wants another epoch."""
AGAIN_PAUSE_S: Final = 0.05
CLIENT_SOFTWARE: Final = "ottla-mirror"


class _Batch(NamedTuple):
    """A batch that is to be sent."""

    transactional_id: str
    to: TopicPartition
    data: Buffer
    on_outcome: OnOutcome


async def producer_of(cluster: AsyncCluster, transactional_id: str, *, timeout_ms: int, within_s: float) -> Producer:
    """Return the producer of a transactional id, by which all former ones are fenced, and what they left is ended.

    Args:
        cluster: the target.
        transactional_id: the id.
        timeout_ms: after which the target aborts a transaction of this producer.
        within_s: how long to wait for the end of what was left open.

    Raises:
        Refused: the target does not want it.
        Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
    """
    request = message_of(
        InitProducerIdRequest,
        transactional_id=transactional_id,
        transaction_timeout=timedelta(milliseconds=timeout_ms),
    )
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while True:
        response = await cluster.ask_transaction_coordinator(transactional_id, request, timeout_s=within_s)
        code = ErrorCode(response.error_code)
        if code is ErrorCode.none:
            return Producer(int(response.producer_id), int(response.producer_epoch))
        if meaning_of_answer(code) is Answer.REFUSED:
            raise Refused(f"the target gives no producer for {transactional_id}: {code.name}{_advice(code)}")
        if loop.time() >= deadline_s:
            raise Unreachable(f"the target gives no producer for {transactional_id}: {code.name}")
        await asyncio.sleep(AGAIN_PAUSE_S)


class TargetTransactions:
    """Asks one cluster.

    Args:
        clusters: connections to the target for questions to coordinators, as many as may be asked at a time.
        settings: see there.

    Attributes:
        is_version_2: whether the target has version 2 of transactions, as `look` has found it.
    """

    def __init__(self, clusters: Sequence[AsyncCluster], settings: CopySettings) -> None:
        assert settings.transactions is not None
        self.is_version_2 = False
        self._add_version = self._end_version = 0
        self._clusters = clusters
        self._settings = settings
        self._leaders: dict[tuple[int, int], _Leader] = {}

    async def look(self) -> None:
        """See what version of transactions the cluster has; it may have been raised.

        Raises:
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        request = message_of(
            ApiVersionsRequest, client_software_name=CLIENT_SOFTWARE, client_software_version=CLIENT_SOFTWARE
        )
        found = await self._clusters[0].ask_any(request, timeout_s=self._settings.answer_timeout_s)
        levels = {each.name: each.max_version_level for each in found.finalized_features}
        self.is_version_2 = levels.get(TRANSACTION_VERSION, 0) >= 2
        served = {each.api_key: each.max_version for each in found.api_keys}
        self._add_version = min(_ADD_PARTITIONS_NEWEST, served.get(_ADD_PARTITIONS_KEY, 0))
        self._end_version = min(_END_NEWEST[self.is_version_2], served.get(_END_KEY, 0))

    async def init(self, transactional_id: str) -> Producer:
        """Fence whoever has the id, and return the producer to write as; see `TransactionRequests`.

        Raises:
            Refused: the target does not want it.
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        assert self._settings.transactions is not None
        return await producer_of(
            self._cluster(transactional_id),
            transactional_id,
            timeout_ms=self._settings.transactions.timeout_ms,
            within_s=self._settings.answer_timeout_s,
        )

    async def add(self, transactional_id: str, producer: Producer, partitions: list[TopicPartition]) -> ErrorCode:
        """Add partitions to a transaction; see `TransactionRequests`.

        Raises:
            Refused, Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        by_topic: dict[str, list[int]] = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(number)
        request_type = message_codec(_ADD_PARTITIONS_KEY, self._add_version).request_type
        request = message_of(
            request_type,
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=tuple(
                message_of(item_type(request_type, "v3_and_below_topics"), name=topic, partitions=tuple(numbers))
                for topic, numbers in by_topic.items()
            ),
        )
        response = await self._ask(transactional_id, request, is_exact=True)
        codes = [
            ErrorCode(each.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]
        failed = [each for each in codes if each not in (ErrorCode.none, ErrorCode.operation_not_attempted)]
        code = failed[0] if failed else ErrorCode.none
        if code in (ErrorCode.not_coordinator, ErrorCode.coordinator_not_available):
            self._cluster(transactional_id).forget_transaction_coordinator(transactional_id)
        return code

    async def end(
        self, transactional_id: str, producer: Producer, *, commits: bool
    ) -> tuple[ErrorCode, Producer | None]:
        """End a transaction; see `TransactionRequests`.

        Raises:
            Refused, Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        raises_epoch = self.is_version_2  # `look` may find another version while this one waits
        request = message_of(
            message_codec(_END_KEY, self._end_version).request_type,
            transactional_id=transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=commits,
        )
        response = await self._ask(transactional_id, request, is_exact=True)
        code = ErrorCode(response.error_code)
        if not raises_epoch or code is not ErrorCode.none:
            return code, None
        return code, Producer(int(response.producer_id), int(response.producer_epoch))

    def produce(
        self, leader: int, transactional_id: str, to: TopicPartition, batch: Buffer, on_outcome: OnOutcome
    ) -> None:
        """Send a batch; see `TransactionRequests`."""
        place = leader, _spread(transactional_id, CONNECTIONS_PER_LEADER)
        found = self._leaders.get(place)
        if found is None:
            found = self._leaders[place] = _Leader(self._clusters[0], leader, self._settings)
        newest = VERSION_2_PRODUCE if self.is_version_2 else LAST_VERSION_1_PRODUCE
        found.send(_Batch(transactional_id, to, batch, on_outcome), newest)

    def close(self) -> None:
        """Close the connections to leaders; what is under way counts as unanswered."""
        for leader in self._leaders.values():
            leader.close()

    def _cluster(self, transactional_id: str) -> AsyncCluster:
        return self._clusters[_spread(transactional_id, len(self._clusters))]

    async def _ask(self, transactional_id: str, request: Any, *, is_exact: bool) -> Any:
        return await self._cluster(transactional_id).ask_transaction_coordinator(
            transactional_id, request, timeout_s=self._settings.answer_timeout_s, is_exact=is_exact
        )


class _Leader:
    """A connection to one broker, opened when there is something to send."""

    def __init__(self, cluster: AsyncCluster, broker_id: int, settings: CopySettings) -> None:
        self._cluster = cluster
        self._broker_id = broker_id
        self._settings = settings
        self._waiting: deque[tuple[_Batch, int]] = deque()
        self._connection: PipelinedConnection | None = None
        self._is_opening = False
        self._is_closed = False

    def send(self, batch: _Batch, newest_version: int) -> None:
        """Send a batch behind those that wait."""
        self._waiting.append((batch, newest_version))
        self._send_waiting()

    def close(self) -> None:
        """Close it for good."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()
        self._fail_waiting("the connection is closed")

    def _send_waiting(self) -> None:
        connection = self._connection
        if connection is None or not connection.is_usable:
            if self._waiting and not self._is_opening and not (connection is not None and connection.unanswered):
                self._is_opening = True
                start_detached(
                    "opening a connection for transactions",
                    self._open(),
                    on_failure=lambda: self._fail_waiting("it failed unexpectedly; the worker's log says why"),
                    broker=self._broker_id,
                )
            return
        while self._waiting and connection.unanswered < UNANSWERED_MAX:
            batch, newest_version = self._waiting.popleft()
            try:
                version = connection.version_among(PRODUCE_KEY, OLDEST_VERSION, newest_version)
            except UnsupportedByBroker as error:
                batch.on_outcome(str(error))
                continue
            topic, partition = batch.to
            connection.send(
                PRODUCE_KEY,
                version,
                produce_request_body(
                    version,
                    self._settings.produce_timeout_ms,
                    {topic: [(partition, batch.data)]},
                    transactional_id=batch.transactional_id,
                ),
                _Answer(batch, version),
                is_flexible=version >= FIRST_FLEXIBLE_VERSION,
                timeout_s=self._settings.answer_timeout_s,
            )

    async def _open(self) -> None:
        problem = "the connection is closed"
        try:
            if self._connection is not None:
                self._connection.close()
            self._connection = await self._cluster.open_pipelined(self._broker_id)
            self._connection.after_answers = self._send_waiting
            if not self._is_closed:
                return
            self._connection.close()
        except (Unreachable, AuthenticationFailed, UnsupportedByBroker) as error:
            problem = str(error)
        finally:
            self._is_opening = False
            if not self._is_closed and self._connection is not None and self._connection.is_usable:
                self._send_waiting()
        self._fail_waiting(problem)

    def _fail_waiting(self, problem: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        for batch, _ in waiting:
            batch.on_outcome(problem)


class _Answer:
    """Receives the answer to the request of one batch."""

    __slots__ = ("_batch", "_version")

    def __init__(self, batch: _Batch, version: int) -> None:
        self._batch = batch
        self._version = version

    def __call__(self, answer: memoryview | Lost) -> None:
        if isinstance(answer, Exception):
            self._batch.on_outcome(str(answer))
            return
        try:
            outcomes = read_produce_response(answer, self._version)
        except InvalidResponse as error:
            self._batch.on_outcome(str(error))
            return
        self._batch.on_outcome(outcomes[0] if len(outcomes) == 1 else "a broker answers for other partitions")


def _spread(transactional_id: str, count: int) -> int:
    return crc32(transactional_id.encode()) % count


def _advice(code: ErrorCode) -> str:
    if code is ErrorCode.invalid_transaction_timeout:
        return " (transaction.timeout.ms is more than its transaction.max.timeout.ms)"
    if code is ErrorCode.transactional_id_authorization_failed:
        return " (ACL: WRITE and DESCRIBE on transactional ids that begin with ottla-mirror/)"
    return ""
