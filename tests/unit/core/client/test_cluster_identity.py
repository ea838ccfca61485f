"""A client that expects a cluster asks no other one at its addresses: it sends nothing but the question.

The brokers are small servers; with real ones see `tests/system/mirror/test_mirror_workers.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponseBroker
from kio.schema.types import BrokerId, GroupId
from kio.static.primitive import i16, i32

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.errors import AnotherCluster, Unreachable
from ottla_core.client.security import ClientSecurity
from ottla_core.wire.conversion import message_of
from ottla_core.wire.messages import message_codec
from tests.support.eventually_async import eventually_async

API_VERSIONS, METADATA, HEARTBEAT, FETCH = 18, 3, 12, 1
VERSIONS = {METADATA: 12, HEARTBEAT: 3, FETCH: 12}
BEAT = HeartbeatRequest(group_id=GroupId("g"), generation_id=i32(1), member_id="m")


class OneBroker:
    """A cluster of one broker, until another one has its address.

    Attributes:
        cluster_id: whose broker answers now.
        asked: the APIs that were asked for since the address has its present owner.
    """

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.asked: list[int] = []
        self._port = 0
        self._writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[AsyncCluster]:
        """Listens; yields a client of it."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            self._port = server.sockets[0].getsockname()[1]
            cluster = AsyncCluster([("127.0.0.1", self._port)], security=ClientSecurity(), client_id="test")
            try:
                yield cluster
            finally:
                await cluster.close()
                self._close_all()

    async def give_address_to(self, cluster_id: str, client: AsyncCluster) -> None:
        """Has another cluster answer at the address; the client has noticed that the present one went."""
        self.cluster_id, self.asked = cluster_id, []
        self._close_all()
        await eventually_async(lambda: not client._is_connected(("127.0.0.1", self._port)), "the connection is lost")

    def _close_all(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        cluster_id = self.cluster_id
        try:
            while size := int.from_bytes(await reader.readexactly(4), "big"):
                frame = await reader.readexactly(size)
                api_key, correlation_id = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[4:8], "big")
                if api_key != API_VERSIONS:
                    self.asked.append(api_key)
                version = int.from_bytes(frame[2:4], "big") if api_key != API_VERSIONS else 0
                response = self._response(api_key, cluster_id)
                writer.write(message_codec(api_key, version).encode_response(correlation_id, response))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _response(self, api_key: int, cluster_id: str) -> ApiVersionsResponse | MetadataResponse | HeartbeatResponse:
        if api_key == METADATA:
            broker = message_of(MetadataResponseBroker, node_id=BrokerId(1), host="127.0.0.1", port=self._port)
            return message_of(
                MetadataResponse, brokers=(broker,), cluster_id=cluster_id, controller_id=BrokerId(1), topics=()
            )
        if api_key == HEARTBEAT:
            return message_of(HeartbeatResponse, error_code=ErrorCode.none)
        served = tuple(
            ApiVersion(api_key=i16(key), min_version=i16(0), max_version=i16(newest))
            for key, newest in VERSIONS.items()
        )
        return ApiVersionsResponse(error_code=ErrorCode.none, api_keys=served)


async def test_another_cluster_at_a_known_address_is_asked_for_its_id_and_nothing_else():
    broker = OneBroker("first")
    async with broker.listening() as cluster:
        cluster.expect((await cluster.metadata(())).cluster_id)
        await cluster.ask_broker(1, BEAT)
        await broker.give_address_to("second", cluster)
        with pytest.raises(AnotherCluster, match="the cluster second answers there, and not first"):
            await cluster.ask_broker(1, BEAT)
        with pytest.raises(Unreachable, match="the cluster second answers there"):
            await cluster.metadata(())
        with pytest.raises(Unreachable, match="the cluster second answers there"):
            await cluster.open_pipelined(1)
        assert set(broker.asked) == {METADATA}

        await broker.give_address_to("first", cluster)
        assert (await cluster.ask_broker(1, BEAT)).error_code is ErrorCode.none
        (await cluster.open_pipelined(1)).close()


async def test_a_connection_for_data_is_asked_itself_though_an_older_one_leads_to_the_expected_cluster():
    broker = OneBroker("first")
    async with broker.listening() as cluster:
        cluster.expect("first")
        await cluster.ask_broker(1, BEAT)
        (await cluster.open_pipelined(1)).close()
        broker.cluster_id, broker.asked = "second", []  # as where a name leads elsewhere from now on
        with pytest.raises(AnotherCluster, match="the cluster second answers there, and not first"):
            await cluster.open_pipelined(1)
        assert broker.asked == [METADATA]


async def test_a_connection_that_was_open_before_a_cluster_is_expected_is_asked_whose_it_is():
    broker = OneBroker("second")
    async with broker.listening() as cluster:
        await cluster.ask_broker(1, BEAT)
        cluster.expect("first")
        with pytest.raises(AnotherCluster):
            await cluster.ask_broker(1, BEAT)
        assert broker.asked.count(HEARTBEAT) == 1


async def test_a_connection_is_asked_once_whose_it_is():
    broker = OneBroker("first")
    async with broker.listening() as cluster:
        cluster.expect("first")
        for _ in range(3):
            await cluster.ask_broker(1, BEAT)
        assert broker.asked == [METADATA, METADATA, HEARTBEAT, HEARTBEAT, HEARTBEAT]
