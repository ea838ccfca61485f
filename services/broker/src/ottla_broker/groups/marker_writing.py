"""The markers by which coordinators end transactions in the partitions that this broker leads.

A marker counts when every in-sync replica has it. All markers of a message are appended before any is waited for;
each partition is answered on its own, and the coordinator asks again for those that fail. A partition of
`__consumer_offsets` is written by the owner of its shard alone, so its marker goes on to that one as a
WriteTxnMarkers request, whatever broker leads the partition. Into `__transaction_state` nobody but the owners of its
shards writes, so there are no markers in it.

Source: `KafkaApis.handleWriteTxnMarkersRequest`.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from ottla_broker.groups.errors import NotCoordinator
from ottla_broker.log.appends.append_validation import AppendOrigin
from ottla_broker.partition import Partition
from ottla_broker.partition_table import PartitionTable
from ottla_core.background import start_awaited
from ottla_core.callback_answer import CallbackAnswer
from ottla_core.clock import Clock
from ottla_core.errors import CodedError, KafkaError, MessageTooLarge, RequestTimedOut
from ottla_core.shards import GROUP_TOPIC, TRANSACTION_TOPIC, shard_named
from ottla_core.slices import Pace
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.control_records import TransactionMarker, marker_batch
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.messages import RequestHeader, message_codec
from ottla_core.wire.transaction_responses import WRITE_TXN_MARKERS
from ottla_proto.gen.ottla import group_relay_pb2 as pb

REPLICATION_TIMEOUT_SECONDS: Final = 10.0
"""How long markers may wait for the other replicas and the disk; the coordinator asks again then.

A message is answered when all its markers are, and coordinators wait for it somewhat longer than this.
"""

SHARD_TIMEOUT_SECONDS: Final = 10.0
"""How long groups' shards may take for the markers of a message."""

SHARDS_AT_ONCE_MAX: Final = 64
"""Groups' shards that one message of a coordinator has asked and that have not answered yet."""

VERSION: Final = 2
"""Of WriteTxnMarkers; the first that says of which version the transaction is."""

FIRST_NUMBER: Final = 0
"""The ownership number of clients' markers for producers that have none in a partition, as of Kafka's tools."""

_NO_OWNER: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.unknown_server_error,
    }
)
"""What coordinators of transactions do not expect of a partition; they are told that it has no leader now."""

_REQUEST: Final = load_request_schema(WRITE_TXN_MARKERS, VERSION)
_MARKER: Final = item_type(_REQUEST, "markers")
_TOPIC: Final = item_type(_MARKER, "topics")
_CODEC: Final = message_codec(WRITE_TXN_MARKERS, VERSION)

AskShard = Callable[[TopicPartition, bytes], CallbackAnswer[bytes]]
"""Passes a frame on to the owner of a shard; raises NotCoordinator or MessageTooLarge, as may awaiting the answer."""

logger = structlog.get_logger("transactions")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerForPartitions:
    """A marker and where it belongs.

    Attributes:
        transaction_version: that of the transaction's end; from 2 on the epoch is one more than the records'.
        topic_ids: by topic, as far as they are known. A topic that was created anew takes no marker that is meant for
            its namesake: it may be late, and end a later transaction of the producer.
    """

    marker: TransactionMarker
    transaction_version: int
    partitions: Sequence[TopicPartition]
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)


class _ForShard(NamedTuple):
    """A marker for a partition of groups, and the place of its error."""

    marker: MarkerForPartitions
    place: TopicPartition
    codes: list[ErrorCode]
    position: int


def refused_markers(request: pb.MarkersWrite, code: ErrorCode) -> pb.MarkersWritten:
    """Return an answer with the same error for every partition."""
    return pb.MarkersWritten(
        results=[
            pb.MarkersWritten.Result(error_codes=[code] * sum(len(topic.partitions) for topic in marker.topics))
            for marker in request.markers
        ]
    )


class MarkerWriting:
    """Writes markers for coordinators.

    Args:
        partitions: this broker's.
        clock: for the timestamps of markers.
        client_id: by which coordinators know who passes markers on.

    Attributes:
        written_count: markers that were appended here.
    """

    def __init__(self, partitions: PartitionTable, clock: Clock, client_id: str) -> None:
        self._partitions = partitions
        self._clock = clock
        self._client_id = client_id
        self._correlation_ids = itertools.count()
        self.written_count = 0

    async def answer(self, request: pb.MarkersWrite, ask: AskShard) -> pb.MarkersWritten:
        """Write what a coordinator asks for; see `write`."""
        try:
            codes = await self.write([_marker_in(each) for each in request.markers], ask)
        except Exception:
            logger.exception("markers could not be written")
            return refused_markers(request, ErrorCode.unknown_server_error)
        return pb.MarkersWritten(results=[pb.MarkersWritten.Result(error_codes=each) for each in codes])

    async def write(
        self, markers: Sequence[MarkerForPartitions], ask: AskShard, *, are_clients: bool = False
    ) -> list[list[ErrorCode]]:
        """Write markers; return for each the errors of its partitions, none where every in-sync replica has it.

        Args:
            markers: what is to be written.
            ask: the way to the owners of groups' shards.
            are_clients: whether a client has made them. They may not have a higher ownership number than the
                producer's last marker in the partition: it would refuse those of coordinators until theirs are
                above, and numbers end at 2^31. Such ones are only taken where this broker leads.
        """
        pace = Pace()
        codes: list[list[ErrorCode]] = []
        waits: list[_Wait] = []
        for_shards: list[_ForShard] = []
        try:
            for each in markers:
                own = [ErrorCode.none] * len(each.partitions)
                codes.append(own)
                for position, place in enumerate(each.partitions):
                    if (code := self._refusal(each.marker, place, are_clients=are_clients)) is not ErrorCode.none:
                        own[position] = code
                    elif place.topic == GROUP_TOPIC:
                        for_shards.append(_ForShard(each, place, own, position))
                    else:
                        self._append(each, place, own, position, waits)
                    if pace.is_over:
                        await pace.rest()
            if for_shards:
                await asyncio.gather(_finish(waits), self._ask_shards(for_shards, ask))
            else:
                await _finish(waits)
        finally:
            for wait in waits:
                wait.stop()
        return codes

    def _refusal(self, marker: TransactionMarker, place: TopicPartition, *, are_clients: bool) -> ErrorCode:
        """Return why a marker is refused whatever the log says, or none."""
        if place.topic == TRANSACTION_TOPIC:
            return ErrorCode.policy_violation
        if not are_clients:
            return ErrorCode.none
        try:
            producer = self._partitions.leader_of(*place).log.producers.get(marker.producer_id)
        except KafkaError as error:
            return error.code
        number_max = FIRST_NUMBER if producer is None else max(producer.coordinator_epoch, FIRST_NUMBER)
        return ErrorCode.none if marker.coordinator_epoch <= number_max else ErrorCode.invalid_request

    def _append(
        self,
        each: MarkerForPartitions,
        place: TopicPartition,
        codes: list[ErrorCode],
        position: int,
        waits: list["_Wait"],
    ) -> None:
        """Append one marker here, and note what has to come true before it counts."""
        now_ms = self._clock.time_ms()
        try:
            partition = self._partitions.leader_of(*place)
            if each.topic_ids.get(place.topic, partition.topic_id) != partition.topic_id:
                raise CodedError(ErrorCode.inconsistent_topic_id, f"{place.topic} has been created anew")
            appended = partition.append(
                marker_batch(each.marker, now_ms),
                now_ms=now_ms,
                all_in_sync=True,
                origin=AppendOrigin.COORDINATOR,
                transaction_version=each.transaction_version,
            )
            self.written_count += 1
            # Begun right here: once others have had their turn, the offset may be that of another leader's record.
            waits.append(_Wait(partition, appended.last_offset + 1, codes, position))
        except KafkaError as error:
            logger.debug("marker refused", partition=str(place), code=error.code.name, error=error.message)
            codes[position] = error.code
        except Exception:
            logger.exception("a marker could not be appended", partition=str(place))
            codes[position] = ErrorCode.unknown_server_error

    async def _ask_shards(self, wanted: Sequence["_ForShard"], ask: AskShard) -> None:
        at_once = asyncio.Semaphore(SHARDS_AT_ONCE_MAX)
        deadline = asyncio.get_running_loop().time() + SHARD_TIMEOUT_SECONDS
        await asyncio.gather(*(self._ask_shard(each, ask, at_once, deadline) for each in wanted))

    async def _ask_shard(
        self, wanted: "_ForShard", ask: AskShard, at_once: asyncio.Semaphore, deadline: float
    ) -> None:
        """Have the owner of a group's shard write a marker, and put its error into its place."""
        place, marker = wanted.place, wanted.marker.marker
        message = message_of(
            _MARKER,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_result=marker.is_commit,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=wanted.marker.transaction_version,
            topics=(message_of(_TOPIC, name=place.topic, partition_indexes=(place.partition,)),),
        )
        correlation_id = next(self._correlation_ids) & 0x7FFFFFFF
        header = RequestHeader(WRITE_TXN_MARKERS, VERSION, correlation_id, self._client_id, 0)
        frame = _CODEC.encode_request(header, message_of(_REQUEST, markers=(message,)))
        try:
            async with asyncio.timeout_at(deadline), at_once:
                answer = await ask(shard_named(*place), frame)
            code = _code_in(answer)
        except (NotCoordinator, MessageTooLarge) as error:
            code = error.code
        except TimeoutError:
            code = ErrorCode.request_timed_out
        except KafkaError:
            logger.exception("a group's shard has not answered for a marker", partition=str(place))
            code = ErrorCode.unknown_server_error
        wanted.codes[wanted.position] = ErrorCode.not_leader_or_follower if code in _NO_OWNER else code


def _code_in(answer: bytes) -> ErrorCode:
    """Return the error in a shard's answer, which is about one partition."""
    response: Any = _CODEC.read_response(answer) if answer else None
    for marker in () if response is None else response.markers:
        for topic in marker.topics:
            for each in topic.partitions:
                return ErrorCode(each.error_code)
    return ErrorCode.unknown_server_error


def _marker_in(message: pb.MarkersWrite.Marker) -> MarkerForPartitions:
    return MarkerForPartitions(
        marker=TransactionMarker(
            producer_id=message.producer_id,
            producer_epoch=message.producer_epoch,
            is_commit=message.is_commit,
            coordinator_epoch=message.coordinator_epoch,
        ),
        transaction_version=message.transaction_version,
        partitions=list(_places_in(message.topics)),
        topic_ids={topic.name: UUID(bytes=topic.topic_id) for topic in message.topics if topic.topic_id},
    )


def _places_in(topics: Iterable[pb.MarkersWrite.Topic]) -> Iterator[TopicPartition]:
    for topic in topics:
        for index in topic.partitions:
            yield TopicPartition(topic.name, index)


class _Wait:
    """What has to come true before a marker counts: replicas, and the disk where a flush is due.

    Attributes:
        partition: whose log has it.
        end_offset: everything below has to be safe.
        codes: the list in which the marker's error stands.
        position: where in it.
        is_flush_due: whether the disk has still to take it.
        replicated: done when the replicas have it, with an error if they will not.
    """

    __slots__ = ("codes", "end_offset", "is_flush_due", "partition", "position", "replicated")

    def __init__(self, partition: Partition, end_offset: int, codes: list[ErrorCode], position: int) -> None:
        self.partition = partition
        self.end_offset = end_offset
        self.codes = codes
        self.position = position
        self.is_flush_due = partition.log.flush_is_due
        self.replicated: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
        partition.when_replicated(end_offset, self._notify, leader_epoch=partition.state.leader_epoch)

    def _notify(self, error: KafkaError | None) -> None:
        if not self.replicated.done():
            self.replicated.set_result(error)

    async def finish(self) -> None:
        """Wait for the disk; put the error of the flush into its place."""
        try:
            await self.partition.log.flushed(self.end_offset)
        except KafkaError as error:
            self.fail(error)
        self.is_flush_due = False

    def fail(self, error: KafkaError) -> None:
        """Put an error into its place."""
        logger.debug("marker not safe", partition=str(self.partition.topic_partition), code=error.code.name)
        self.codes[self.position] = error.code

    def stop(self) -> None:
        """Wait no longer."""
        if not self.replicated.done():
            self.replicated.cancel()
            self.partition.no_longer_wait(self._notify)


async def _finish(waits: Sequence[_Wait]) -> None:
    """Return when all that is waited for has come true, has failed, or takes too long; at once where it has."""
    flushes = [start_awaited("flush of a marker", wait.finish()) for wait in waits if wait.is_flush_due]
    pending: list[asyncio.Future[Any]] = [
        *flushes,
        *(wait.replicated for wait in waits if not wait.replicated.done()),
    ]
    try:
        if pending:
            await asyncio.wait(pending, timeout=REPLICATION_TIMEOUT_SECONDS)
    finally:
        late = [flush for flush in flushes if flush.cancel()]
    for flush in flushes:
        if flush not in late:
            flush.result()
    for wait in waits:
        if wait.is_flush_due:
            wait.fail(RequestTimedOut("the disk did not take the marker in time"))
        elif not wait.replicated.done():
            wait.fail(RequestTimedOut("the other replicas did not fetch the marker in time"))
        elif (error := wait.replicated.result()) is not None:
            wait.fail(error)
