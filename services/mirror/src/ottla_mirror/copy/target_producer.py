"""Produces to one broker of the target, for all partitions that it leads, with several requests under way.

A request has one batch of each partition at most, as Kafka's brokers want it. Answers come in the order of the
requests, and are handed to the state machines right where they are received.

Where few partitions have much to send, requests are small, and a turn of the event loop for each would cost more than
the batches. So whatever follows from answers is done once for all that were read together, as soon as these are
noted, and what waits is sent by several requests at a time, once no more than `REQUESTS_LOW` are under way: each
partition's first batch goes into the first of them, its second batch into the second.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final, Protocol
from uuid import UUID

import structlog

from ottla_core.background import start_detached
from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.cluster_metadata import NO_TOPIC_ID
from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.client.pipelined_connection import Lost, PipelinedConnection
from ottla_core.errors import InvalidResponse
from ottla_core.wire.produce_request import FIRST_FLEXIBLE_VERSION, FIRST_VERSION_BY_TOPIC_ID
from ottla_core.wire.raw_produce import (
    NEWEST_VERSION,
    NO_ERROR,
    OLDEST_VERSION,
    PRODUCE_KEY,
    ProduceOutcome,
    TopicKey,
    produce_request_body,
    read_accepted_in_order,
    read_produce_response,
)
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_work import PartitionWork

REQUESTS_MAX: Final = 5
REQUESTS_LOW: Final = 2
"""The target has so many left to work on while the next ones are made. What was just fetched is not held back."""
BATCHES_MAX: Final = 500
log = structlog.get_logger("mirror")

Sender = tuple[PartitionWork, PartitionCopy]
"""A partition of which a batch was sent, and its state machine then."""
Sent = list[Sender]
"""The partitions of a request in the order of their batches."""


class _Request:
    """A request that is made, and then under way.

    Attributes:
        sent: whose batches it has.
        size_bytes: of these batches.
        batches: number and batch of each partition, by topic.
        topic: that of the last batch.
        of_topic: the batches of that topic.
    """

    __slots__ = ("batches", "of_topic", "sent", "size_bytes", "topic")

    def __init__(self) -> None:
        self.sent: Sent = []
        self.size_bytes = 0
        self.batches: dict[TopicKey, list[tuple[int, memoryview]]] = {}
        self.topic: TopicKey | None = None
        self.of_topic: list[tuple[int, memoryview]] = []

    def turn_to(self, topic: TopicKey) -> None:
        """Have the next batches be of another topic."""
        self.topic, self.of_topic = topic, self.batches.setdefault(topic, [])


class ProduceOwner(Protocol):
    """Whom a producer tells."""

    def on_room(self, work: PartitionWork) -> None:
        """Take note that so little of a partition is waiting to be sent that more may be fetched."""

    def on_produced(self, work: PartitionWork) -> None:
        """Look at a partition whose batch was answered."""

    def on_target_failed(self, reason: str) -> None:
        """Take note that a broker does not answer."""

    def on_unreachable(self, works: Collection[PartitionWork], reason: str, for_s: float) -> None:
        """Take note of partitions that have batches for a broker to which no connection can be opened for so long."""


class TargetProducer:
    """The producer of one broker.

    Args:
        cluster: the target.
        broker_id: the broker.
        settings: how much to send.
        owner: whom to tell.
    """

    def __init__(self, cluster: AsyncCluster, broker_id: int, settings: CopySettings, owner: ProduceOwner) -> None:
        self._cluster = cluster
        self._broker_id = broker_id
        self._settings = settings
        self._owner = owner
        self._ready: dict[PartitionWork, None] = {}
        self._requests = 0
        self._connection: PipelinedConnection | None = None
        self._version = 0
        self._is_opening = False
        self._is_closed = False
        self._failures = 0
        self._failing_since_s: float | None = None
        self._has_new = False
        # Of the answers that are read together: where the target has batches, and whose were answered.
        self._acknowledged: defaultdict[Sender, list[int]] = defaultdict(list)
        self._answered: dict[PartitionWork, None] = {}

    def add(self, work: PartitionWork) -> None:
        """Send what a partition has to send, as soon as that is possible."""
        if work.has_to_send:
            self._ready[work] = None
            self._has_new = True

    def kick(self) -> None:
        """Send what there is."""
        if self._requests > REQUESTS_LOW and not self._has_new:
            return  # every answer leads here again
        self._has_new = False
        if not self._ready or self._requests >= REQUESTS_MAX:
            return
        connection = self._connection
        if connection is not None and connection.is_usable:
            for request in self._make_requests(REQUESTS_MAX - self._requests):
                self._send(connection, request)
            return
        self._ready = {work: None for work in self._ready if work.has_to_send}
        if self._ready and (connection is None or not connection.unanswered):
            self._open()

    def close(self) -> None:
        """Close; what is under way counts as unanswered."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()

    def _make_requests(self, count_max: int) -> list[_Request]:
        """Return requests with what there is to send, which counts as sent."""
        requests = [_Request() for _ in range(count_max)]
        with_room = requests
        by_id = self._version >= FIRST_VERSION_BY_TOPIC_ID
        size_max, full = self._settings.request_bytes_max, self._settings.partition_bytes_max
        ready, broker_id = self._ready, self._broker_id
        for work in tuple(ready):
            if not with_room:
                break
            del ready[work]
            copy = work.copy
            if copy is None or work.target_leader != broker_id or not work.may_send:
                continue
            before_bytes = copy.unsent_bytes
            batches = copy.next_to_send(len(with_room))
            if not batches:
                continue
            sender, partition = (work, copy), work.partition.partition
            topic: TopicKey = work.target_topic_id if by_id else work.target_topic
            for request, (_, _, _, data, _, _) in zip(with_room, batches, strict=False):
                if topic is not request.topic:  # most are of the topic of the one before; to look up an id is slow
                    request.turn_to(topic)
                request.of_topic.append((partition, data))
                request.sent.append(sender)
                request.size_bytes += len(data)
                if request.size_bytes >= size_max or len(request.sent) >= BATCHES_MAX:
                    with_room = [each for each in with_room if each is not request]
            ready[work] = None  # behind the others; whether it has more is seen when it is its turn
            if copy.unsent_bytes < full <= before_bytes:
                self._owner.on_room(work)
        return [each for each in requests if each.sent]

    def _send(self, connection: PipelinedConnection, request: _Request) -> None:
        self._requests += 1
        connection.send(
            PRODUCE_KEY,
            self._version,
            produce_request_body(self._version, self._settings.produce_timeout_ms, request.batches),
            partial(self._on_answer, request, self._version),
            is_flexible=self._version >= FIRST_FLEXIBLE_VERSION,
            timeout_s=self._settings.answer_timeout_s,
        )

    def _on_answer(self, request: _Request, version: int, answer: memoryview | Lost) -> None:
        self._requests -= 1
        accepted = None
        if version == FIRST_VERSION_BY_TOPIC_ID and len(request.batches) == 1 and isinstance(answer, memoryview):
            ((topic, batches),) = request.batches.items()
            assert isinstance(topic, UUID)
            accepted = read_accepted_in_order(answer, topic, batches)
        if accepted is None:
            self._note_acknowledged()
            self._take_outcomes(request.sent, version, answer)
            return
        base_offsets, log_append_time_ms = accepted
        target_stamps = log_append_time_ms >= 0
        acknowledged = self._acknowledged
        for sender, base_offset in zip(request.sent, base_offsets, strict=True):
            acknowledged[sender].append(base_offset)
            sender[1].target_stamps = target_stamps

    def _note_acknowledged(self) -> None:
        """Hand in what was acknowledged so far by the answers that were read together."""
        acknowledged, self._acknowledged = self._acknowledged, defaultdict(list)
        for (work, copy), base_offsets in acknowledged.items():
            copy.on_acknowledged(base_offsets)
            self._answered[work] = None

    def _take_outcomes(self, sent: Sent, version: int, answer: memoryview | Lost) -> None:
        """Take an answer that is not what most of them are, or none at all."""
        reason = "no answer"
        outcomes: list[ProduceOutcome] = []
        if isinstance(answer, memoryview):
            try:
                outcomes = read_produce_response(answer, version)
            except InvalidResponse as error:
                reason = str(error)
        else:
            reason = str(answer)
            self._owner.on_target_failed(reason)
        by_id = version >= FIRST_VERSION_BY_TOPIC_ID
        for (work, copy), outcome in zip(sent, outcomes_in_order(sent, outcomes, by_id=by_id), strict=True):
            if outcome is None:
                copy.on_failed(NO_ERROR, reason)
            elif outcome.error_code is NO_ERROR:
                copy.target_stamps = outcome.log_append_time_ms >= 0
                copy.on_acknowledged((outcome.base_offset,))
            else:
                copy.on_failed(outcome.error_code, outcome.error_message or "")
            self._answered[work] = None

    def _look_after_answered(self) -> None:
        """Do what follows from answers, once for all that were read together."""
        if self._acknowledged:
            self._note_acknowledged()
        if not self._answered:
            return
        answered, self._answered = self._answered, {}
        for work in answered:
            self._owner.on_produced(work)
        self._ready |= answered
        self.kick()

    def _open(self) -> None:
        if not self._is_opening and not self._is_closed:
            self._is_opening = True
            start_detached(
                "opening a connection to the target",
                self._connect(),
                on_failure=self._open_again,
                broker=self._broker_id,
            )

    def _open_again(self) -> None:
        """Try again, after a pause, what has failed unexpectedly: what is to be sent would wait for ever."""
        self._failures += 1
        self.kick()

    async def _connect(self) -> None:
        reason = ""
        try:
            if self._failures:
                pause_s = self._settings.backoff_s_min * 2 ** min(self._failures - 1, 16)
                await asyncio.sleep(min(pause_s, self._settings.backoff_s_max))
            if self._connection is not None:
                self._connection.close()
            connection = await self._cluster.open_pipelined(self._broker_id)
            if self._is_closed:
                connection.close()
                return
            has_ids = all(work.target_topic_id != NO_TOPIC_ID for work in self._ready)
            newest = NEWEST_VERSION if has_ids else FIRST_VERSION_BY_TOPIC_ID - 1
            self._version = connection.version_among(PRODUCE_KEY, OLDEST_VERSION, newest)
            connection.after_answers = self._look_after_answered
            self._connection = connection
            self._failures = 0
            self._failing_since_s = None
        except (Unreachable, AuthenticationFailed, UnsupportedByBroker) as error:
            self._failures += 1
            self._owner.on_target_failed(str(error))
            reason = str(error)
        finally:
            self._is_opening = False
        if self._is_closed:
            return
        for work in list(self._ready):  # leaders may have moved meanwhile
            if work.target_leader != self._broker_id:
                del self._ready[work]
        if reason:
            now_s = asyncio.get_running_loop().time()
            self._failing_since_s = now_s if self._failing_since_s is None else self._failing_since_s
            self._owner.on_unreachable(list(self._ready), reason, now_s - self._failing_since_s)
        self.kick()


def outcomes_in_order(sent: Sent, outcomes: list[ProduceOutcome], *, by_id: bool) -> Sequence[ProduceOutcome | None]:
    """Return the outcome of each batch that was sent; None for what the answer leaves out."""
    if len(outcomes) == len(sent):  # most brokers answer in the order of the request
        known: tuple[TopicKey, TopicKey] | None = None
        for (work, _), outcome in zip(sent, outcomes, strict=True):
            key: TopicKey = work.target_topic_id if by_id else work.target_topic
            if outcome.partition != work.partition.partition:
                break
            if known is None or known[0] is not key or known[1] is not outcome.topic:
                if key != outcome.topic:
                    break
                known = key, outcome.topic
        else:
            return outcomes
    found = {(each.topic, each.partition): each for each in outcomes}
    return [
        found.get((work.target_topic_id if by_id else work.target_topic, work.partition.partition))
        for work, _ in sent
    ]
