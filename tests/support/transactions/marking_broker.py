"""A broker that writes markers: what it has been asked for, and what it says, are attributes.

Its partitions keep, as logs do, the last ownership number of each producer, and refuse a lower one.
"""

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest as AddRequestV3
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic as AddTopicV3
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32, i32Timedelta

from ottla_core.shards import TRANSACTION_TOPIC
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.records import iterate_records
from ottla_group_coordinator.transactions.records import TransactionKey, decode_key, decode_value
from ottla_group_coordinator.transactions.transaction import Identity
from ottla_group_coordinator.transactions.transaction_state import STATES_BY_ID
from ottla_proto.gen.ottla import group_relay_pb2 as pb
from tests.support.groups.fake_relay_broker import FakeRelayBroker


@dataclass(frozen=True)
class Marker:
    """A marker that a partition has."""

    producer_id: int
    epoch: int
    is_commit: bool
    number: int
    version: int


class MarkedPartitions:
    """The partitions of a cluster; brokers may share them.

    Attributes:
        markers: by partition, in order.
    """

    def __init__(self) -> None:
        self.markers: defaultdict[TopicPartition, list[Marker]] = defaultdict(list)

    def write(self, partition: TopicPartition, marker: Marker) -> ErrorCode:
        """Write a marker, unless a later owner has written one of the producer."""
        seen = max(
            (each.number for each in self.markers[partition] if each.producer_id == marker.producer_id), default=0
        )
        if marker.number < seen:
            return ErrorCode.transaction_coordinator_fenced
        self.markers[partition].append(marker)
        return ErrorCode.none


class MarkingBroker(FakeRelayBroker):
    """A broker with a stream to one coordinator, which is asked for markers as well.

    Attributes:
        partitions: what it writes to.
        marker_errors: what the next partitions are refused with, in order.
        refused_once: partitions that are refused the next time.
        writes: whether markers are written; those that come meanwhile are when it is set again.
        slow: partitions of which markers that are not refused are written when `slow_writes` is set.
        answers_markers: whether what was written is told.
        marker_messages: how many markers came in each message.
        topic_ids: of their topics, in order.
    """

    def __init__(self, broker_id: int, epoch: int, partitions: MarkedPartitions | None = None, **more: Any) -> None:
        super().__init__(broker_id, epoch, **more)
        self.partitions = partitions or MarkedPartitions()
        self.marker_errors: deque[ErrorCode] = deque()
        self.refused_once: set[TopicPartition] = set()
        self.writes = asyncio.Event()
        self.writes.set()
        self.slow: set[TopicPartition] = set()
        self.slow_writes = asyncio.Event()
        self.answers_markers = True
        self.marker_messages: list[int] = []
        self.topic_ids: list[UUID] = []

    async def _serve(self, frame: pb.Frame) -> None:
        if frame.WhichOneof("content") != "markers_write":
            await super()._serve(frame)
            return
        outgoing = self._outgoing
        self.marker_messages.append(len(frame.markers_write.markers))
        self.topic_ids += [
            UUID(bytes=topic.topic_id) for marker in frame.markers_write.markers for topic in marker.topics
        ]
        await self.writes.wait()
        if not self.marker_errors and any(
            TopicPartition(topic.name, index) in self.slow
            for marker in frame.markers_write.markers
            for topic in marker.topics
            for index in topic.partitions
        ):
            await self.slow_writes.wait()
        results = [
            pb.MarkersWritten.Result(
                error_codes=[
                    self._write(marker, TopicPartition(topic.name, index))
                    for topic in marker.topics
                    for index in topic.partitions
                ]
            )
            for marker in frame.markers_write.markers
        ]
        if self.answers_markers:
            outgoing.put(pb.Frame(id=frame.id, markers_written=pb.MarkersWritten(results=results)))

    def _write(self, marker: pb.MarkersWrite.Marker, partition: TopicPartition) -> int:
        if partition in self.refused_once:
            self.refused_once.discard(partition)
            return ErrorCode.not_leader_or_follower.value
        if self.marker_errors:
            code = self.marker_errors.popleft()
            if code is not ErrorCode.none:
                return code.value
        written = Marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.is_commit,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        return self.partitions.write(partition, written).value

    async def init(self, transactional_id: str, producer_id: int, *, shard: int = 0) -> Identity:
        """Begin a producer."""
        request = InitProducerIdRequest(
            transactional_id=TransactionalId(transactional_id),
            transaction_timeout=i32Timedelta.parse(timedelta(seconds=60)),
        )
        response = await self.ask(shard, 4, request, topic=TRANSACTION_TOPIC, fresh_producer_id=producer_id)
        assert response.error_code is ErrorCode.none, response.error_code
        return Identity(response.producer_id, response.producer_epoch)

    async def add(
        self, transactional_id: str, identity: Identity, *partitions: TopicPartition, shard: int = 0
    ) -> str:
        """Add partitions as an old client does, and return the error of the first."""
        request = AddRequestV3(
            v3_and_below_transactional_id=TransactionalId(transactional_id),
            v3_and_below_producer_id=ProducerId(identity.producer_id),
            v3_and_below_producer_epoch=i16(identity.epoch),
            v3_and_below_topics=tuple(
                AddTopicV3(name=TopicName(topic), partitions=(i32(index),)) for topic, index in partitions
            ),
        )
        response = await self.ask(shard, 3, request, topic=TRANSACTION_TOPIC)
        name: str = response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code.name
        return name

    def end_later(
        self, transactional_id: str, identity: Identity, *, committed: bool = True, version: int = 5, shard: int = 0
    ) -> Any:
        """End a transaction."""
        request = EndTxnRequest(
            transactional_id=TransactionalId(transactional_id),
            producer_id=ProducerId(identity.producer_id),
            producer_epoch=i16(identity.epoch),
            committed=committed,
        )
        return self.ask_later(shard, version, request, topic=TRANSACTION_TOPIC)

    async def end(
        self, transactional_id: str, identity: Identity, *, committed: bool = True, version: int = 5, shard: int = 0
    ) -> str:
        """End a transaction, and return the error."""
        asked = self.end_later(transactional_id, identity, committed=committed, version=version, shard=shard)
        name: str = (await asked.response()).error_code.name
        return name

    def states(self, transactional_id: str, shard: int = 0) -> list[str]:
        """The states of an id that are stored, in order."""
        found = []
        for header, batch in self.other_logs[TRANSACTION_TOPIC][shard].batches:
            for record in iterate_records(batch, header) if header.record_count else ():
                key = decode_key(record.key or b"")
                if key == TransactionKey(transactional_id=transactional_id) and record.value is not None:
                    found.append(STATES_BY_ID[decode_value(key, record.value).state].value)  # type: ignore[union-attr]
        return found
