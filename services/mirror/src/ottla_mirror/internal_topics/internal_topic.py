"""A topic with one partition in which a mirror keeps records of its own: made, appended to and read.

Appending is idempotent over all that can happen to a request: a batch whose answer is lost is sent again, with the
same sequence, before anything else is, so that no earlier state of a key can come late over a newer one.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.errors import Unreachable
from ottla_core.errors import KafkaError, OttlaError
from ottla_core.wire.conversion import message_of
from ottla_core.wire.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, increment_sequence
from ottla_mirror.internal_topics.errors import InternalTopicError, OffsetGone
from ottla_mirror.internal_topics.topic_requests import (
    EARLIEST,
    LATEST,
    PARTITION,
    Entry,
    Fetched,
    batches,
    create_request,
    encoded_batch,
    fetch_request,
    fetched,
    offset_request,
    produce_request,
)

OPERATION_TIMEOUT_S: Final = 30.0
RETRY_PAUSE_S: Final = 0.2
REPLICAS_DEFAULT: Final = 3
"""MirrorMaker's for its own topics."""

# After these the same request may succeed, at this leader or at another.
PASSING: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.kafka_storage_error,
        ErrorCode.leader_not_available,
        ErrorCode.network_exception,
        ErrorCode.not_controller,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.not_leader_or_follower,
        ErrorCode.offset_not_available,
        ErrorCode.replica_not_available,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_or_partition,
    }
)
# The log does not know this producer any more.
_PRODUCER_LOST: Final = frozenset(
    {
        ErrorCode.invalid_producer_epoch,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.producer_fenced,
        ErrorCode.unknown_producer_id,
    }
)

Attempt = Callable[[float], Awaitable[ErrorCode]]
"""Asks for something once, within so many seconds."""

log = structlog.get_logger("internal topics")


@dataclass(slots=True)
class _Waiting:
    """Records that somebody wants to have appended, and the outcome."""

    entries: Sequence[Entry]
    is_done: bool = False
    last_offset: int = -1
    failure: Exception | None = None


class _Refused(InternalTopicError):
    """What was asked for is not going to succeed later either."""


class InternalTopic:
    """One such topic of a cluster.

    Args:
        cluster: where it is.
        name: of the topic.
        replication_factor: for the case that it has to be made; None for `REPLICAS_DEFAULT`, or as many as there are
            brokers.
        settings: likewise, beside cleanup.policy.
        is_compacted: whether it keeps the last record of each key, and is made so.
        now_ms: the clock of timestamps.
    """

    def __init__(
        self,
        cluster: AsyncCluster,
        name: str,
        *,
        replication_factor: int | None,
        settings: Mapping[str, str] | None = None,
        is_compacted: bool = True,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.name = name
        self._cluster = cluster
        self._replication_factor = replication_factor
        self._settings = {**({"cleanup.policy": "compact"} if is_compacted else {}), **(settings or {})}
        self._now_ms = now_ms
        self._leader: int | None = None
        self._appending = asyncio.Lock()
        self._producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self._sequence = 0
        self._unanswered: list[Entry] = []
        self._waiting: list[_Waiting] = []

    def __str__(self) -> str:
        return f"topic {self.name} of {self._cluster}"

    async def ensure(self, timeout_s: float = OPERATION_TIMEOUT_S) -> None:
        """Make the topic if it is not there.

        Raises:
            InternalTopicError: it cannot be made.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """

        async def create(remaining_s: float) -> ErrorCode:
            if await self.topic_id(remaining_s) is not None and self._leader is not None:
                return ErrorCode.none
            brokers = len((await self._cluster.metadata((), timeout_s=remaining_s)).brokers)
            request = create_request(
                self.name,
                replication_factor=self._replication_factor or max(1, min(REPLICAS_DEFAULT, brokers)),
                settings=self._settings,
                timeout_s=remaining_s,
            )
            response = await self._cluster.ask_controller(request, timeout_s=remaining_s)
            result = _only(response.topics)
            code = ErrorCode(result.error_code)
            if code is ErrorCode.not_controller:
                self._cluster.forget_controller()
            if code in {ErrorCode.none, ErrorCode.topic_already_exists}:
                return ErrorCode.leader_not_available  # it is there once a broker says so
            if code not in PASSING:
                raise _Refused(f"{self} cannot be made: {result.error_message or code.name}")
            return code

        await self._until_done("made", create, timeout_s)

    async def topic_id(self, timeout_s: float = OPERATION_TIMEOUT_S) -> UUID | None:
        """Return the topic's id (zeros where the cluster has none); None if there is no such topic.

        Raises:
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        found = (await self._cluster.metadata((self.name,), timeout_s=timeout_s)).topics.get(self.name)
        if found is None or found.error is ErrorCode.unknown_topic_or_partition:
            return None
        if PARTITION in found.partitions and found.partitions[PARTITION].leader >= 0:
            self._leader = found.partitions[PARTITION].leader
        return found.id

    async def find_leader(self, timeout_s: float = OPERATION_TIMEOUT_S) -> int:
        """Return the broker that leads the partition, as the cluster says now.

        Raises:
            Unreachable: there is none at present.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        self._forget_leader()
        await self.topic_id(timeout_s)
        if self._leader is None:
            raise Unreachable(f"{self} has no leader")
        return self._leader

    def _forget_leader(self) -> None:
        self._leader = None

    async def append(self, entries: Sequence[Entry], timeout_s: float = OPERATION_TIMEOUT_S) -> int:
        """Append records, and return when all in-sync replicas have them.

        Records of all who append at the same time go together, in the order of the calls.

        Returns:
            An offset not below that of the last of them; -1 if a log that has the records already does not say it.

        Raises:
            InternalTopicError: they were not stored, as far as we hear. What may have been stored is sent again
                before anything else is.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        own = _Waiting(entries)
        self._waiting.append(own)
        async with self._appending:
            if not own.is_done:
                await self._append_waiting(timeout_s)
        if own.failure is not None:
            raise own.failure
        return own.last_offset

    async def end_offset(self, timeout_s: float = OPERATION_TIMEOUT_S) -> int:
        """Return the offset behind the last record that consumers may see.

        Raises:
            InternalTopicError: nobody says it in time.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        return await self._offset(LATEST, timeout_s)

    async def start_offset(self, timeout_s: float = OPERATION_TIMEOUT_S) -> int:
        """Return the offset of the first record; errors as with `end_offset`."""
        return await self._offset(EARLIEST, timeout_s)

    async def fetch(self, offset: int, timeout_s: float = OPERATION_TIMEOUT_S) -> Fetched:
        """Return batches from an offset on, as many as one answer has.

        Raises:
            OffsetGone: the log does not have this offset.
            InternalTopicError: nobody answers in time, or a batch is damaged.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        found: list[Any] = []

        async def ask(remaining_s: float) -> ErrorCode:
            response = await self._ask_leader(fetch_request(self.name, offset), remaining_s)
            found[:] = [each for topic in response.responses for each in topic.partitions]
            return ErrorCode(_only(found).error_code)

        code = await self._until_done("read", ask, timeout_s, also_fine=ErrorCode.offset_out_of_range)
        if code is ErrorCode.offset_out_of_range:
            raise OffsetGone(f"{self} does not have the offset {offset}")
        try:
            return fetched(found[0], offset)
        except KafkaError as error:
            raise InternalTopicError(f"{self} cannot be read at offset {offset}: {error.message}") from error

    async def _append_waiting(self, timeout_s: float) -> None:
        """Append what all who wait want to have appended, together."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        waiting, self._waiting = self._waiting, []
        last_offset = -1
        failure: Exception | None = InternalTopicError(f"{self}: whoever wrote to it has given up")
        try:
            for batch in [self._unanswered, *batches(entry for each in waiting for entry in each.entries)]:
                if batch:
                    last_offset = await self._append_batch(batch, deadline_s - loop.time())
            failure = None
        except OttlaError as error:
            failure = error
        finally:
            for each in waiting:
                each.is_done, each.last_offset, each.failure = True, last_offset, failure

    async def _append_batch(self, batch: Sequence[Entry], timeout_s: float) -> int:
        """Append records as one batch; they stay `_unanswered` until the outcome is known."""
        was_sent = bool(self._unanswered)
        self._unanswered = list(batch)
        offsets = [-1]

        async def send(remaining_s: float) -> ErrorCode:
            nonlocal was_sent
            if self._producer[0] == NO_PRODUCER_ID:
                self._producer, self._sequence = await self._new_producer(remaining_s), 0
            producer_id, producer_epoch = self._producer
            encoded = encoded_batch(
                batch,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                sequence=self._sequence,
                now_ms=self._now_ms(),
            )
            is_first, was_sent = not was_sent, True
            response = await self._ask_leader(produce_request(self.name, encoded, remaining_s), remaining_s)
            answer = _only([each for topic in response.responses for each in topic.partition_responses])
            offsets[0] = answer.base_offset
            code = ErrorCode(answer.error_code)
            if code in _PRODUCER_LOST:
                self._producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
                if not is_first:
                    raise _Refused(
                        f"{self}: it is unknown whether records were stored, the log has lost the producer"
                    )
                was_sent = False
                return ErrorCode.network_exception
            return code

        try:
            code = await self._until_done("written", send, timeout_s, also_fine=ErrorCode.duplicate_sequence_number)
        except _Refused:
            self._unanswered = []
            raise
        self._unanswered = []
        self._sequence = increment_sequence(self._sequence, len(batch))
        is_told = code is ErrorCode.none and offsets[0] >= 0
        return offsets[0] + len(batch) - 1 if is_told else -1

    async def _new_producer(self, timeout_s: float) -> tuple[int, int]:
        request = message_of(
            InitProducerIdRequest,
            transactional_id=None,
            transaction_timeout=timedelta(minutes=1),
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
        )
        response = await self._cluster.ask_any(request, timeout_s=timeout_s)
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.none:
            kind = Unreachable if code in PASSING else _Refused
            raise kind(f"{self._cluster} gives no producer id: {code.name}")
        return response.producer_id, response.producer_epoch

    async def _offset(self, timestamp: int, timeout_s: float) -> int:
        found: list[Any] = []

        async def ask(remaining_s: float) -> ErrorCode:
            response = await self._ask_leader(offset_request(self.name, timestamp), remaining_s)
            found[:] = [each for topic in response.topics for each in topic.partitions]
            return ErrorCode(_only(found).error_code)

        await self._until_done("read", ask, timeout_s)
        return int(found[0].offset)

    async def _ask_leader(self, request: Any, timeout_s: float) -> Any:
        """Ask the partition's leader, in the version of the request's class."""
        if self._leader is None:
            await self.topic_id(timeout_s)
        if self._leader is None:
            raise Unreachable(f"{self} has no leader")
        return await self._cluster.ask_broker_exactly(self._leader, request, timeout_s=timeout_s)

    async def _until_done(
        self, what: str, attempt: Attempt, timeout_s: float, *, also_fine: ErrorCode = ErrorCode.none
    ) -> ErrorCode:
        """Try until it succeeds, and return its code: `none`, or the one that is fine too.

        Raises:
            InternalTopicError: it cannot succeed, or did not in time.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while True:
            try:
                code = await attempt(max(deadline_s - loop.time(), 0.001))
                why = code.name
            except Unreachable as error:
                code, why = ErrorCode.network_exception, str(error)
            if code is ErrorCode.none or code is also_fine:
                return code
            if code not in PASSING:
                raise _Refused(f"{self} cannot be {what}: {why}")
            self._leader = None
            if loop.time() + RETRY_PAUSE_S >= deadline_s:
                raise InternalTopicError(f"{self} could not be {what} within {timeout_s:.0f} s: {why}")
            await asyncio.sleep(RETRY_PAUSE_S)


def _only(answers: Sequence[Any]) -> Any:
    """Return the answer about the one partition."""
    if len(answers) != 1:
        raise Unreachable(f"a broker answers for {len(answers)} partitions where it was asked for one")
    return answers[0]
