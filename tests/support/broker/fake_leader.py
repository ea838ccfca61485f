"""A leader as a follower sees it: fetches from logs over a real socket, with a fetch session, and with faults.

It answers as Kafka's FetchRequest and ListOffsetsRequest want it, decoded and encoded by kio, and keeps every fetch
that came. Answers can be replaced: by an error of a partition, of the whole request, or by bytes.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.request import FetchPartition, FetchRequest
from kio.schema.fetch.v17.response import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from kio.schema.list_offsets.v9.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.static.primitive import Records, i32, i32Timedelta, i64

from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.wire.messages import message_codec, read_request_header
from tests.support.broker.partition_logs import read_batches

FETCH_KEY, LIST_OFFSETS_KEY = 1, 2
SESSION_ID = 4711
NO_THROTTLE = i32Timedelta.parse(timedelta())
LATEST = -1

Key = tuple[UUID, int]


@dataclass
class FakeLeader:
    """The logs it leads and what it is to do.

    Attributes:
        logs: by topic id and partition.
        fetches: every fetch that came, oldest first.
        errors: what partitions are answered with instead of records.
        request_error: what the next fetch as a whole is answered with.
        garbage: what the next fetch is answered with instead of a response.
        is_silent: whether fetches get no answer at all.
        is_silent_about_offsets: whether questions about offsets get no answer.
        has_sessions: whether it grants a session.
        connections: how many were made.
        hurried: how many fetches were answered early because another request came.
        on_fetch: called when a fetch has come.
        diverging: what partitions are answered with until they are asked for from that offset.
    """

    logs: dict[Key, PartitionLog] = field(default_factory=dict)
    fetches: list[FetchRequest] = field(default_factory=list)
    errors: dict[Key, ErrorCode] = field(default_factory=dict)
    diverging: dict[Key, tuple[int, int]] = field(default_factory=dict)
    request_error: ErrorCode = ErrorCode.none
    garbage: bytes = b""
    is_silent: bool = False
    is_silent_about_offsets: bool = False
    has_sessions: bool = True
    connections: int = 0
    port: int = 0
    hurried: int = 0
    on_fetch: Callable[[], object] = lambda: None
    _session: dict[Key, FetchPartition] = field(default_factory=dict)
    _told: dict[Key, int] = field(default_factory=dict)
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["FakeLeader"]:
        """Listens on a free port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.disconnect()

    def disconnect(self) -> None:
        """Closes every connection."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._session.clear()
        self._writers.append(writer)
        arrived: asyncio.Queue[bytes] = asyncio.Queue()
        receiving = asyncio.create_task(self._receive(reader, arrived))
        try:
            while True:
                writer.write(await self._answer(await arrived.get(), arrived))
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            receiving.cancel()
            writer.close()

    @staticmethod
    async def _receive(reader: asyncio.StreamReader, arrived: asyncio.Queue[bytes]) -> None:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            arrived.put_nowait(await reader.readexactly(size))

    async def _answer(self, frame: bytes, arrived: asyncio.Queue[bytes]) -> bytes:
        view = memoryview(frame)
        header = read_request_header(view)
        codec = message_codec(header.api_key, header.api_version)
        message: Any = codec.read_request(view, header)
        if header.api_key == FETCH_KEY:
            self.fetches.append(message)
            self.on_fetch()
            response: Any = await self._fetch(message, arrived)
            if self.garbage:
                garbage, self.garbage = self.garbage, b""
                return garbage
        elif header.api_key == LIST_OFFSETS_KEY:
            if self.is_silent_about_offsets:
                await asyncio.Event().wait()
            response = self._list_offsets(message)
        else:
            response_type: Any = codec.response_type
            response = response_type(error_code=ErrorCode.none, api_keys=())
        return codec.encode_response(header.correlation_id, response)

    async def _fetch(self, message: FetchRequest, arrived: asyncio.Queue[bytes]) -> FetchResponse:
        if self.is_silent:
            await asyncio.Event().wait()
        if self.request_error is not ErrorCode.none:
            error, self.request_error = self.request_error, ErrorCode.none
            return FetchResponse(throttle_time=NO_THROTTLE, error_code=error, session_id=i32(0), responses=())
        if message.session_epoch <= 0:
            self._session.clear()
            self._told.clear()
        for topic in message.topics:
            for wanted in topic.partitions:
                assert topic.topic_id is not None
                self._session[topic.topic_id, wanted.partition] = wanted
                self._told.pop((topic.topic_id, wanted.partition), None)
        for forgotten in message.forgotten_topics_data:
            for index in forgotten.partitions:
                assert forgotten.topic_id is not None
                self._session.pop((forgotten.topic_id, index), None)
        deadline = asyncio.get_running_loop().time() + message.max_wait.total_seconds()
        while not (news := self._news()) and asyncio.get_running_loop().time() < deadline:
            if not arrived.empty():
                self.hurried += 1
                break
            await asyncio.sleep(0.002)  # between two looks; the request's own wait ends them
        return FetchResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            session_id=i32(SESSION_ID if self.has_sessions else 0),
            responses=tuple(
                FetchableTopicResponse(topic_id=topic_id, partitions=(data,)) for (topic_id, _), data in news
            ),
        )

    def _news(self) -> list[tuple[Key, PartitionData]]:
        news = []
        for key, wanted in self._session.items():
            data = self._read(key, wanted)
            if data.records or data.error_code is not ErrorCode.none or self._told.get(key) != data.high_watermark:
                self._told[key] = data.high_watermark
                news.append((key, data))
            elif key in self.diverging:
                news.append((key, data))
        return news

    def _read(self, key: Key, wanted: FetchPartition) -> PartitionData:
        log = self.logs.get(key)
        error = self.errors.get(key, ErrorCode.none if log is not None else ErrorCode.unknown_topic_id)
        if log is not None and not log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset:
            error = ErrorCode.offset_out_of_range
        diverging = EpochEndOffset()
        records = None
        if error is ErrorCode.none and log is not None:
            if key in self.diverging and wanted.fetch_offset > self.diverging[key][1]:
                epoch, end_offset = self.diverging[key]
                diverging = EpochEndOffset(epoch=i32(epoch), end_offset=i64(end_offset))
            else:
                self.diverging.pop(key, None)
                batches = [batch for header, batch in read_batches(log) if header.last_offset >= wanted.fetch_offset]
                records = Records(b"".join(batches))
        found = log is not None and error is ErrorCode.none
        return PartitionData(
            partition_index=wanted.partition,
            error_code=error,
            high_watermark=i64(log.high_watermark if log is not None and found else -1),
            log_start_offset=i64(log.log_start_offset if log is not None and found else -1),
            aborted_transactions=None,
            records=records,
            diverging_epoch=diverging,
        )

    def _list_offsets(self, message: Any) -> ListOffsetsResponse:
        topics = []
        for topic in message.topics:
            answers = []
            for wanted in topic.partitions:
                (log,) = (log for (_, index), log in self.logs.items() if index == wanted.partition_index)
                offset = log.log_end_offset if wanted.timestamp == LATEST else log.log_start_offset
                answers.append(
                    ListOffsetsPartitionResponse(
                        partition_index=wanted.partition_index, error_code=ErrorCode.none, offset=i64(offset)
                    )
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(answers)))
        return ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))
