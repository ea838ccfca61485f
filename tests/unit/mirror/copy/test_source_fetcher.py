"""When a fetcher asks its broker, against a small server that answers as the tests say."""

import asyncio
import struct
from typing import cast

import pytest
from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.cluster_metadata import NO_TOPIC_ID
from ottla_core.client.pipelined_connection import PipelinedConnection
from ottla_core.client.security import ClientSecurity
from ottla_core.wire.consumer_fetch import PartitionAnswer
from ottla_core.wire.messages import message_codec
from ottla_mirror.copy import source_fetcher
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.copy.source_fetcher import SourceFetcher
from ottla_mirror.model import SourcePartition
from tests.support.eventually_async import eventually_async

API_VERSIONS, FETCH, VERSION = 18, 1, 7
NO_PARTITIONS = struct.pack(">ihii", 0, 0, 1, 0)
"""An answer of version 7 without news: throttle time, error, session, topics."""


class Broker:
    """Answers each fetch without news, and counts them."""

    def __init__(self) -> None:
        self.fetches: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                correlation_id = int.from_bytes(frame[4:8], "big")
                if int.from_bytes(frame[:2], "big") == API_VERSIONS:
                    served = (ApiVersion(api_key=i16(FETCH), min_version=i16(4), max_version=i16(VERSION)),)
                    told = ApiVersionsResponse(error_code=ErrorCode.none, api_keys=served)
                    writer.write(message_codec(API_VERSIONS, 0).encode_response(correlation_id, told))
                else:
                    self.fetches.append(frame)
                    writer.write(struct.pack(">ii", 4 + len(NO_PARTITIONS), correlation_id) + NO_PARTITIONS)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class Cluster:
    """Opens connections to one broker."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open_pipelined(self, broker_id: int) -> PipelinedConnection:
        return await PipelinedConnection.open("127.0.0.1", self._port, security=ClientSecurity(), client_id="test")


class Copy:
    """What a fetcher asks of a copy."""

    fetch_offset = 0
    last_leader_epoch = -1

    def __init__(self, unsent_bytes: int) -> None:
        self.unsent_bytes = unsent_bytes

    def takes(self) -> bool:
        return True


class Owner:
    """Has room for everything, and counts answers."""

    def __init__(self) -> None:
        self.answers = 0

    def reserve(self, broker_id: int) -> int:
        return 1_000_000

    def release(self, broker_id: int) -> None:
        self.answers += 1

    async def wait_for_room(self) -> None:
        pass

    def on_fetched(self, work: PartitionWork, answer: PartitionAnswer, records: memoryview) -> None:
        raise AssertionError("no partition has news")

    def on_source_failed(self, works: list[PartitionWork], reason: str) -> None:
        raise AssertionError(reason)


def work_on(topic: str, unsent_bytes: int) -> tuple[PartitionWork, Copy]:
    work, copy = (
        PartitionWork(SourcePartition(topic=topic, topic_id=NO_TOPIC_ID, partition=0), topic, 0.0),
        Copy(unsent_bytes),
    )
    work.copy = cast("PartitionCopy", copy)
    return work, copy


async def test_a_partition_with_room_again_is_asked_for_at_once_though_the_others_have_no_news(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(source_fetcher, "IDLE_PAUSE_S", 3600.0)  # so that only the partition can end the pause
    broker, settings = Broker(), CopySettings()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with server:
        cluster = cast("AsyncCluster", Cluster(server.sockets[0].getsockname()[1]))
        owner = Owner()
        fetcher = SourceFetcher(cluster, 0, settings, owner)
        full, copy = work_on("full", settings.partition_bytes_max)
        idle, _ = work_on("idle", 0)
        fetcher.add(full)
        fetcher.add(idle)
        running = asyncio.create_task(fetcher.run())
        try:
            await eventually_async(lambda: owner.answers == 1, "the partition without news is asked for")
            for _ in range(20):  # turns of the loop in which nothing more is asked
                await asyncio.sleep(0)
            assert len(broker.fetches) == 1
            assert b"idle" in broker.fetches[0]
            assert b"full" not in broker.fetches[0]
            copy.unsent_bytes = 0
            fetcher.on_room(full)
            await eventually_async(lambda: len(broker.fetches) > 1, "the one with room again is asked for")
            assert b"full" in broker.fetches[1]
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            fetcher.close()
