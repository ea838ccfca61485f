"""Brokers in this process that speak Kafka's protocol around the logs of `mirror_model.py`, and fail at will.

They serve what a copier asks: two brokers for each cluster, whose leaders move. Requests get errors, connections
break before a batch is written and after, and fetch sessions are forgotten.
"""

import asyncio
import random
import struct
from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.security import ClientSecurity
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.messages import MessageCodec, RequestHeader, message_codec, read_request_header
from ottla_core.wire.produce_request import read_produce_request
from ottla_core.wire.produce_response import PartitionProduced, TopicProduced, encode_produce_response
from tests.support.mirror.mirror_model import SourceModel, TargetModel

TOPIC = "t"
PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT_PRODUCER_ID, API_VERSIONS = 0, 1, 2, 3, 22, 18
SERVED = ((PRODUCE, 3, 13), (FETCH, 4, 17), (LIST_OFFSETS, 1, 9), (METADATA, 0, 12), (INIT_PRODUCER_ID, 0, 5))
EARLIEST = -2
FETCH_WAIT_S = 0.02
Log = SourceModel | TargetModel


class BrokersModel:
    """A cluster of two brokers with one topic.

    Attributes:
        is_calm: whether nothing fails any more.
    """

    def __init__(self, logs: Mapping[int, Log], topic_id: UUID, chosen: random.Random):
        self.logs, self.topic_id, self.chosen = logs, topic_id, chosen
        self.leaders = {number: chosen.choice((1, 2)) for number in logs}
        self.ports: dict[int, int] = {}
        self.connections: dict[int, set[BrokerConnection]] = {1: set(), 2: set()}
        self.is_calm = False
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for broker in (1, 2):
            server = await loop.create_server(partial(BrokerConnection, self, broker), "127.0.0.1", 0)
            self.ports[broker] = server.sockets[0].getsockname()[1]
            self._servers.append(server)

    def stop(self) -> None:
        for broker in (1, 2):
            self.end_broker(broker)

    def end_broker(self, broker: int) -> None:
        """Ends one of both for good."""
        self._servers[broker - 1].close()
        self.break_connections(broker)

    def client(self) -> AsyncCluster:
        addresses = [("127.0.0.1", port) for port in self.ports.values()]
        return AsyncCluster(addresses, security=ClientSecurity(), client_id="copier")

    def fails(self, share: float) -> bool:
        return not self.is_calm and self.chosen.random() < share

    def move_a_leader(self) -> None:
        self.leaders[self.chosen.choice(list(self.leaders))] = self.chosen.choice((1, 2))

    def break_connections(self, broker: int) -> None:
        for connection in list(self.connections[broker]):
            connection.transport.abort()


class BrokerConnection(asyncio.Protocol):
    """One client's connection to one broker."""

    def __init__(self, cluster: BrokersModel, broker: int):
        self.cluster, self.broker = cluster, broker
        self._received = bytearray()
        self._fetched: dict[int, int] = {}
        self._told: dict[int, tuple[int, int]] = {}

    def connection_made(self, transport: Any) -> None:
        self.transport: asyncio.Transport = transport
        self.cluster.connections[self.broker].add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.cluster.connections[self.broker].discard(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4 and not self.transport.is_closing():
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                return
            frame = memoryview(bytes(self._received[4 : 4 + size]))
            del self._received[: 4 + size]
            header = read_request_header(frame)
            self._serve(frame, header, message_codec(header.api_key, header.api_version))

    def _serve(self, frame: memoryview, header: RequestHeader, codec: MessageCodec) -> None:
        if header.api_key == PRODUCE:
            self._produce(frame, header, codec)
            return
        request: Any = codec.read_request(frame, header)
        response_type = load_response_schema(header.api_key, header.api_version)
        if header.api_key == FETCH:
            self._fetch(request, response_type, header, codec)
            return
        made = {
            API_VERSIONS: self._versions,
            METADATA: self._metadata,
            LIST_OFFSETS: self._offsets,
            INIT_PRODUCER_ID: self._producer_id,
        }[header.api_key](request, response_type)
        self.transport.write(codec.encode_response(header.correlation_id, made))

    def _produce(self, frame: memoryview, header: RequestHeader, codec: MessageCodec) -> None:
        if self.cluster.fails(0.01):
            self.transport.abort()
            return
        version = header.api_version
        request = read_produce_request(frame, codec.body_offset(frame, header), version)
        topics: list[TopicProduced] = []
        for topic in request.topics:
            produced = [self._append(each.partition, bytes(each.records or b"")) for each in topic.partitions]
            topics.append((topic.topic, produced))
        if self.cluster.fails(0.02):  # the batches are written, and nobody hears of it
            self.transport.abort()
            return
        self.transport.write(encode_produce_response(version, codec.response_header(header.correlation_id), topics))

    def _append(self, partition: int, batch: bytes) -> PartitionProduced:
        if self.cluster.leaders[partition] != self.broker:
            return PartitionProduced(partition, ErrorCode.not_leader_or_follower)
        if self.cluster.fails(0.01):
            return PartitionProduced(partition, ErrorCode.not_enough_replicas)
        log = self.cluster.logs[partition]
        assert isinstance(log, TargetModel)
        return PartitionProduced(partition, *log.append(batch))

    def _fetch(self, request: Any, response_type: Any, header: RequestHeader, codec: MessageCodec) -> None:
        if self.cluster.fails(0.02):
            self.transport.abort()
            return
        is_full = request.session_epoch in (0, -1)
        if self.cluster.fails(0.02):
            lost = message_of(response_type, error_code=ErrorCode.fetch_session_id_not_found)
            self.transport.write(codec.encode_response(header.correlation_id, lost))
            return
        if is_full:
            self._fetched, self._told = {}, {}
        for topic in request.topics:
            self._fetched.update({each.partition: each.fetch_offset for each in topic.partitions})
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                self._fetched.pop(number, None)
                self._told.pop(number, None)
        topic_type = item_type(response_type, "responses")
        read = [self._read(number, offset, topic_type) for number, offset in self._fetched.items()]
        found = tuple(each for each in read if self._is_news(each))
        topics = (message_of(topic_type, topic_id=self.cluster.topic_id, partitions=found),) if found else ()
        session_id = 0 if request.session_epoch == -1 else 5
        made = message_of(response_type, responses=topics, session_id=session_id, error_code=ErrorCode.none)
        answer = codec.encode_response(header.correlation_id, made)
        asyncio.get_running_loop().call_later(0 if found else FETCH_WAIT_S, self.transport.write, answer)

    def _is_news(self, read: Any) -> bool:
        """Whether an answer in a fetch session has to have a partition: FetchSession.maybeUpdateResponseData."""
        offsets = (read.high_watermark, read.log_start_offset)
        has_moved = self._told.get(read.partition_index) != offsets
        self._told[read.partition_index] = offsets
        return bool(has_moved or read.records or read.error_code is not ErrorCode.none)

    def _read(self, number: int, offset: int, topic_type: Any) -> Any:
        log, partition_type = self.cluster.logs[number], item_type(topic_type, "partitions")
        error, records = ErrorCode.none, b""
        aborted: tuple[Any, ...] = ()
        if self.cluster.leaders[number] != self.broker:
            error = ErrorCode.not_leader_or_follower
        elif not log.start <= offset <= log.end:
            error = ErrorCode.offset_out_of_range
        elif isinstance(log, TargetModel):
            records = bytes(log.read(offset))
        else:
            view, transactions = log.fetch(offset, self.cluster.chosen.randrange(1, 8))
            aborted_type = item_type(partition_type, "aborted_transactions")
            records = bytes(view)
            aborted = tuple(message_of(aborted_type, **each._asdict()) for each in transactions)
        is_known = error is ErrorCode.none
        return message_of(
            partition_type,
            partition_index=number,
            error_code=error,
            high_watermark=log.end if is_known else -1,
            last_stable_offset=getattr(log, "stable_end", log.end) if is_known else -1,
            log_start_offset=log.start if is_known else -1,
            records=records,
            aborted_transactions=aborted,
        )

    def _versions(self, _: Any, response_type: Any) -> Any:
        version_type = item_type(response_type, "api_keys")
        served = (*SERVED, (API_VERSIONS, 0, 3))
        keys = tuple(message_of(version_type, api_key=k, min_version=a, max_version=b) for k, a, b in served)
        return message_of(response_type, api_keys=keys, error_code=ErrorCode.none)

    def _metadata(self, _: Any, response_type: Any) -> Any:
        cluster, topic_type = self.cluster, item_type(response_type, "topics")
        broker_type, partition_type = item_type(response_type, "brokers"), item_type(topic_type, "partitions")
        brokers = tuple(
            message_of(broker_type, node_id=each, host="127.0.0.1", port=port) for each, port in cluster.ports.items()
        )
        partitions = tuple(
            message_of(partition_type, partition_index=number, leader_id=leader, error_code=ErrorCode.none)
            for number, leader in cluster.leaders.items()
        )
        topic = message_of(
            topic_type, name=TOPIC, topic_id=cluster.topic_id, error_code=ErrorCode.none, partitions=partitions
        )
        return message_of(response_type, brokers=brokers, controller_id=1, topics=(topic,))

    def _offsets(self, request: Any, response_type: Any) -> Any:
        topic_type = item_type(response_type, "topics")
        partition_type = item_type(topic_type, "partitions")
        found = []
        for topic in request.topics:
            for each in topic.partitions:
                log = self.cluster.logs[each.partition_index]
                offset = log.start if each.timestamp == EARLIEST else log.end
                number = each.partition_index
                found.append(
                    message_of(partition_type, partition_index=number, error_code=ErrorCode.none, offset=offset)
                )
        return message_of(response_type, topics=(message_of(topic_type, name=TOPIC, partitions=tuple(found)),))

    def _producer_id(self, _: Any, response_type: Any) -> Any:
        producer_id = self.cluster.chosen.randrange(1000, 2**40)
        return message_of(response_type, producer_id=producer_id, producer_epoch=0, error_code=ErrorCode.none)
