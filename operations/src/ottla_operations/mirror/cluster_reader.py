"""Reading any Kafka cluster as it is: topics, the first and last offsets of partitions, and raw batches.

Each reading of a partition asks for one piece at a time, so memory is bounded by `PIECE_BYTES` for each of them. Who
waits at the end of a partition holds a connection to its leader, so connections are taken from a pool and given back.
"""

import asyncio
import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12 import request as fetch_by_name
from kio.schema.fetch.v17 import request as fetch_by_id
from kio.schema.list_offsets.v11 import request as list_offsets
from kio.schema.offset_for_leader_epoch.v4 import request as epoch_request
from kio.static.primitive import i32Timedelta

from ottla_core.client.async_connection import AsyncConnection
from ottla_core.client.cluster import AsyncCluster, HostPort
from ottla_core.client.cluster_metadata import NO_TOPIC_ID, BrokerAddress, TopicMetadata
from ottla_core.client.errors import Unreachable
from ottla_core.client.security import ClientSecurity
from ottla_core.errors import OttlaError
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.conversion import convert, message_of
from ottla_core.wire.messages import message_codec
from ottla_operations.mirror.committed_batches import committed_batches
from ottla_operations.mirror.comparable_records import Batch, whole_batches
from ottla_operations.mirror.divergence import EpochEnd

PIECE_BYTES: Final = 4 * 1024 * 1024
MAX_WAIT: Final = i32Timedelta.parse(dt.timedelta(milliseconds=500))
ANSWER_TIMEOUT_S: Final = 30.0
LEADER_WITHIN_S: Final = 30.0
RETRY_PAUSE_S: Final = 0.2
EARLIEST: Final = -2
LATEST: Final = -1
TOPIC_RESOURCE: Final = 2
FETCH_KEY: Final = 1
FIRST_BY_ID: Final = 13
"""From this version on Fetch names topics by their ids."""

_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.replica_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.offset_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.network_exception,
        ErrorCode.request_timed_out,
    }
)


class Unreadable(OttlaError):
    """A partition cannot be read to the end; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What a partition has from a position on.

    Attributes:
        batches: with records that the reader takes.
        next_offset: where the next piece begins.
        end_offset: the end of what may be read at present.
        size_bytes: of all that was received.
    """

    batches: list[Batch]
    next_offset: int
    end_offset: int
    size_bytes: int


class ClusterReader:
    """A cluster that is read.

    Args:
        bootstrap: addresses of brokers.
        security: TLS and login.
        client_id: under which the brokers count us.
        name: of the side, for messages: ``source`` or ``target``.
    """

    def __init__(self, bootstrap: Iterable[HostPort], *, security: ClientSecurity, client_id: str, name: str) -> None:
        self.name = name
        self._security = security
        self._client_id = client_id
        self._cluster = AsyncCluster(tuple(bootstrap), security=security, client_id=client_id)
        self._brokers: Mapping[int, BrokerAddress] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._ids: dict[str, Any] = {}
        self._idle: dict[int, list[AsyncConnection]] = defaultdict(list)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in (each for several in self._idle.values() for each in several):
            connection.close()
        await self._cluster.close()

    async def topics(self, names: Collection[str] | None = None) -> dict[str, TopicMetadata]:
        """Return topics that exist, all of them or some, by name.

        Raises:
            Unreachable, AuthenticationFailed, UnsupportedByBroker: the cluster does not answer us.
        """
        found = await self._cluster.metadata(names)
        self._brokers = found.brokers
        for topic in found.topics.values():
            self._ids[topic.name] = topic.id
            for partition in topic.partitions.values():
                self._leaders[TopicPartition(topic.name, partition.index)] = partition.leader
        return {name: topic for name, topic in found.topics.items() if topic.error is ErrorCode.none}

    async def compacted(self, topics: Collection[str]) -> set[str]:
        """Return which topics are compacted; none if the cluster does not tell.

        Raises:
            Unreachable, AuthenticationFailed: the cluster does not answer us.
        """
        resources = tuple(
            message_of(
                DescribeConfigsResource,
                resource_type=TOPIC_RESOURCE,
                resource_name=name,
                configuration_keys=("cleanup.policy",),
            )
            for name in topics
        )
        if not resources:
            return set()
        response = await self._cluster.ask_any(message_of(DescribeConfigsRequest, resources=resources))
        return {
            each.resource_name
            for each in response.results
            if any(config.name == "cleanup.policy" and "compact" in (config.value or "") for config in each.configs)
        }

    async def offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int, *, committed_only: bool
    ) -> dict[TopicPartition, int]:
        """Return the first (`EARLIEST`) or last (`LATEST`) offsets of partitions.

        Args:
            partitions: whose leaders are known from `topics`.
            timestamp: which of both.
            committed_only: whether the end of what is committed is meant, not the high watermark.

        Raises:
            Unreadable: a partition has no leader for long, or its leader refuses.
            Unreachable, AuthenticationFailed, UnsupportedByBroker: a leader does not answer us.
        """
        wanted, found = set(partitions), dict[TopicPartition, int]()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LEADER_WITHIN_S
        while wanted:
            problem = ""
            for leader, led in self._by_leader(wanted).items():
                try:
                    answers = await self._cluster.ask_broker(
                        leader, _list_offsets(led, timestamp, committed_only=committed_only)
                    )
                except Unreachable as error:
                    problem = str(error)
                    continue
                for name, answer in _answered(answers):
                    if answer.error_code is ErrorCode.none:
                        found[name] = answer.offset
                        wanted.discard(name)
                    elif answer.error_code not in _TRY_AGAIN:
                        raise Unreadable(f"{self.name}: {name}: {answer.error_code.name.upper()}")
            if wanted:
                if loop.time() > deadline:
                    some = min(wanted)
                    raise Unreadable(f"{self.name}: {some}: no leader answers{f' ({problem})' if problem else ''}")
                await self._look_again({each.topic for each in wanted})
        return found

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        """Return where leader epochs end in partitions; those whose leaders do not answer are missing.

        Raises:
            Unreachable, AuthenticationFailed, UnsupportedByBroker: a leader does not answer us.
        """
        found = {}
        for leader, led in self._by_leader(epochs).items():
            by_topic: dict[str, list[Any]] = defaultdict(list)
            for name in led:
                asked = message_of(
                    epoch_request.OffsetForLeaderPartition,
                    partition=name.partition,
                    current_leader_epoch=-1,
                    leader_epoch=epochs[name],
                )
                by_topic[name.topic].append(asked)
            topics = tuple(
                message_of(epoch_request.OffsetForLeaderTopic, topic=topic, partitions=tuple(several))
                for topic, several in by_topic.items()
            )
            request = message_of(epoch_request.OffsetForLeaderEpochRequest, replica_id=-1, topics=topics)
            answer = await self._cluster.ask_broker(leader, request)
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code is ErrorCode.none:
                        name = TopicPartition(topic.topic, each.partition)
                        found[name] = EpochEnd(each.leader_epoch, each.end_offset)
        return found

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for each in partitions:
            if (leader := self._leaders.get(each, -1)) >= 0:
                by_leader[leader].append(each)
        return by_leader

    async def _look_again(self, topics: Collection[str]) -> None:
        await asyncio.sleep(RETRY_PAUSE_S)
        await self.topics(topics)

    async def piece(self, partition: TopicPartition, position: int, *, committed_only: bool) -> Piece:
        """Return what a partition has from a position on; at its end nothing, after half a second.

        Raises:
            Unreadable: it has no leader for long, its leader refuses, or the position has been removed.
            CorruptMessage, InvalidRecord, UnsupportedForMessageFormat: what it has are no batches.
            Unreachable, AuthenticationFailed, UnsupportedByBroker: its leader does not answer us.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LEADER_WITHIN_S
        while True:
            reason = "it has no leader"
            leader = self._leaders.get(partition, -1)
            if leader >= 0 and leader in self._brokers:
                try:
                    answer = await self._fetch(leader, partition, position, committed_only=committed_only)
                except Unreachable as error:
                    reason = str(error)
                else:
                    if answer.error_code is ErrorCode.none:
                        return _piece(answer, position, committed_only=committed_only)
                    reason = answer.error_code.name.upper()
                    if answer.error_code is ErrorCode.offset_out_of_range:
                        raise Unreadable(
                            f"{self.name}: offset {position} is not there any more: records were removed meanwhile,"
                            " or the topic was created anew"
                        )
                    if answer.error_code not in _TRY_AGAIN:
                        raise Unreadable(f"{self.name}: {reason}")
            if loop.time() > deadline:
                raise Unreadable(f"{self.name}: {reason}")
            await self._look_again((partition.topic,))

    async def _fetch(self, leader: int, partition: TopicPartition, position: int, *, committed_only: bool) -> Any:
        connection = await self._connection(leader)
        version = connection.version_of(FETCH_KEY)
        topic_id = self._ids.get(partition.topic, NO_TOPIC_ID)
        if version >= FIRST_BY_ID and topic_id != NO_TOPIC_ID:
            request: Any = _fetch_request(
                fetch_by_id, position, partition.partition, committed_only=committed_only, topic_id=topic_id
            )
            version = min(version, request.__version__)
        else:
            request = _fetch_request(
                fetch_by_name, position, partition.partition, committed_only=committed_only, topic=partition.topic
            )
            version = min(version, request.__version__)
        request_type = message_codec(FETCH_KEY, version).request_type
        response = await connection.ask_exactly(convert(request, request_type), timeout_s=ANSWER_TIMEOUT_S)
        self._idle[leader].append(connection)
        if not response.responses:
            raise Unreadable(f"{self.name}: {ErrorCode(getattr(response, 'error_code', 0)).name.upper()}")
        return response.responses[0].partitions[0]

    async def _connection(self, leader: int) -> AsyncConnection:
        idle = self._idle[leader]
        while idle:
            connection = idle.pop()
            if connection.is_usable:
                return connection
            connection.close()
        broker = self._brokers[leader]
        return await AsyncConnection.open(
            broker.host, broker.port, security=self._security, client_id=self._client_id
        )


def _fetch_request(module: Any, position: int, partition: int, *, committed_only: bool, **topic: Any) -> Any:
    asked = message_of(
        module.FetchPartition, partition=partition, fetch_offset=position, partition_max_bytes=PIECE_BYTES
    )
    return message_of(
        module.FetchRequest,
        max_wait=MAX_WAIT,
        min_bytes=1,
        max_bytes=PIECE_BYTES,
        isolation_level=int(committed_only),
        topics=(message_of(module.FetchTopic, partitions=(asked,), **topic),),
    )


def _list_offsets(partitions: Iterable[TopicPartition], timestamp: int, *, committed_only: bool) -> Any:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for each in partitions:
        by_topic[each.topic].append(each.partition)
    topics = tuple(
        message_of(
            list_offsets.ListOffsetsTopic,
            name=topic,
            partitions=tuple(
                message_of(
                    list_offsets.ListOffsetsPartition,
                    partition_index=number,
                    current_leader_epoch=-1,
                    timestamp=timestamp,
                )
                for number in numbers
            ),
        )
        for topic, numbers in by_topic.items()
    )
    return message_of(
        list_offsets.ListOffsetsRequest, replica_id=-1, isolation_level=int(committed_only), topics=topics
    )


def _answered(response: Any) -> Iterable[tuple[TopicPartition, Any]]:
    for topic in response.topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index), partition


def _piece(answer: Any, position: int, *, committed_only: bool) -> Piece:
    data = memoryview(answer.records or b"")
    batches = [each for each in whole_batches(data) if each.header.next_offset > position]
    next_offset = batches[-1].header.next_offset if batches else position
    end_offset = answer.high_watermark
    if committed_only:
        end_offset = answer.last_stable_offset if answer.last_stable_offset >= 0 else answer.high_watermark
        aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
        batches = committed_batches(batches, aborted)
    return Piece(batches=batches, next_offset=next_offset, end_offset=end_offset, size_bytes=len(data))
