"""All of a broker's fetching: which partition is fetched by whom.

There is one fetcher, hence one connection, for each leader, or `num.replica.fetchers` of them among which the
leader's partitions are spread. A fetcher belongs to one registration of its leader: a broker that comes back gets a
new one at once, whatever has become of the old connection.
"""

import asyncio
from collections.abc import Callable
from zlib import crc32

import structlog

from ottla_broker.config import BrokerConfig
from ottla_broker.partition import Partition
from ottla_broker.receive_buffer import BufferPool
from ottla_broker.replication.fetch_connection import OpenConnection, open_by
from ottla_broker.replication.fetch_settings import FetchSettings, LeaderAddress
from ottla_broker.replication.leader_fetcher import LeaderFetcher
from ottla_broker.replication.throttle import ReplicationThrottles
from ottla_broker.tls.connecting import connect_plain
from ottla_core.background import start_detached
from ottla_core.clock import Clock
from ottla_core.cluster.state.model import Endpoint, Member
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.replica_fetch_request import FetchLimits

logger = structlog.get_logger("replication")


class FetcherPool:
    """Fetches what this broker follows.

    `follow` and `unfollow` take effect before they return: afterwards nothing is appended on behalf of another leader
    or leader epoch than the partition's present one.

    Attributes:
        throttles: the rates of replication; to be kept in step with the cluster state.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        broker_epoch: Callable[[], int],
        clock: Clock,
        throttles: ReplicationThrottles | None = None,
        open_connection: OpenConnection | None = None,
    ) -> None:
        """Prepare; nothing is fetched yet.

        Args:
            config: the broker's settings.
            broker_epoch: returns the epoch of this broker's latest registration.
            clock: for the time of appends.
            throttles: shared with the fetches that this broker answers.
            open_connection: connects to a leader; without TLS if it is left out.
        """
        self.throttles = throttles or ReplicationThrottles()
        self._config = config
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._open_connection = open_connection or open_by(connect_plain)
        self._settings = fetch_settings(config)
        self._pool = BufferPool()
        self._fetchers: dict[tuple[LeaderAddress, int], LeaderFetcher] = {}
        self._fetcher_of: dict[TopicPartition, tuple[Partition, LeaderFetcher]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._bytes_of_closed = 0

    def follow(self, partition: Partition, leader: Member) -> None:
        """Fetch a partition from a leader, instead of from the one that it was fetched from.

        Also to be called when only the leader epoch has changed; the call does no harm if nothing has.

        Args:
            partition: this broker's replica, to which the new state was applied.
            leader: the leader's present registration.
        """
        endpoint = self._endpoint(leader)
        if endpoint is None:
            logger.warning("a leader has no listener for brokers", leader=leader.id)
            self.unfollow(partition)
            return
        address = LeaderAddress(leader.id, leader.epoch, endpoint.host, endpoint.port)
        name = partition.topic_partition
        number = crc32(str(name).encode()) % self._config.num_replica_fetchers
        held = self._fetcher_of.get(name)
        if held is not None and (held[0] is not partition or held[1] is not self._fetchers.get((address, number))):
            self.unfollow(held[0])  # which may close the fetcher
        fetcher = self._fetchers.get((address, number))
        if fetcher is None:
            fetcher = self._fetchers[address, number] = self._open(address, number)
        self._fetcher_of[name] = partition, fetcher
        fetcher.follow(partition)

    def unfollow(self, partition: Partition) -> None:
        """Fetch a partition no longer, if it was fetched at all."""
        held = self._fetcher_of.get(partition.topic_partition)
        if held is None or held[0] is not partition:
            return
        del self._fetcher_of[partition.topic_partition]
        fetcher = held[1]
        fetcher.unfollow(partition)
        if not len(fetcher):
            del self._fetchers[fetcher.leader, fetcher.number]
            self._bytes_of_closed += fetcher.fetched_bytes
            self._close_later(fetcher)

    async def close(self) -> None:
        """Fetch nothing any more."""
        fetchers, self._fetchers = tuple(self._fetchers.values()), {}
        self._fetcher_of.clear()
        await asyncio.gather(*(fetcher.close() for fetcher in fetchers), *self._closing)

    @property
    def count(self) -> int:
        """How many fetchers there are."""
        return len(self._fetchers)

    @property
    def fetched_bytes(self) -> int:
        """Bytes of records fetched since the start."""
        return self._bytes_of_closed + sum(fetcher.fetched_bytes for fetcher in self._fetchers.values())

    def _open(self, address: LeaderAddress, number: int) -> LeaderFetcher:
        return LeaderFetcher(
            address,
            number,
            self._settings,
            broker_epoch=self._broker_epoch,
            clock=self._clock,
            pool=self._pool,
            throttle=self.throttles.follower,
            open_connection=self._open_connection,
        )

    def _close_later(self, fetcher: LeaderFetcher) -> None:
        task = start_detached("closing a fetcher", fetcher.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _endpoint(self, leader: Member) -> Endpoint | None:
        wanted = self._config.inter_broker_listener
        return next((endpoint for endpoint in leader.endpoints if endpoint.listener == wanted), None)


def fetch_settings(config: BrokerConfig) -> FetchSettings:
    """Return how followers fetch."""
    response_bytes_max = config.replica_fetch_response_max_bytes
    return FetchSettings(
        broker_id=config.node_id,
        limits=FetchLimits(config.replica_fetch_wait_max_ms, config.replica_fetch_min_bytes, response_bytes_max),
        partition_bytes_max=config.replica_fetch_max_bytes,
        backoff_ms=config.replica_fetch_backoff_ms,
        socket_timeout_ms=config.replica_socket_timeout_ms,
        # The first batch is sent whatever its size, and none is larger than the request that it came with.
        frame_bytes_max=response_bytes_max + config.socket_request_max_bytes,
    )
