"""The offsets of a sink connector: what its consumer group has committed, read and changed as an administrator would.

librdkafka's admin client lists and sets them and deletes whole groups; it has no call that deletes the offsets of
single partitions (Kafka's OffsetDelete), so that request goes to the group's coordinator directly. A group can only
be changed while it has no members, that is, while the connector's tasks are stopped.

Each question has an admin client to itself, which is closed after it, as librdkafka could abort the process
(`ottla_sdk.kafka.coordinator_requests`); nor is a change made later that was given up.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientTopicPartition
from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32

from ottla_connect.config import WorkerConfig
from ottla_connect.state.kafka_clients import REQUEST_TIMEOUT_S, KafkaClients
from ottla_connect.state.keyed_log import LogError
from ottla_core.client.errors import Refused, Unreachable
from ottla_core.client.group.coordinator_client import ConnectionPurpose, CoordinatorClient
from ottla_core.client.security import ClientSecurity
from ottla_core.config import parse_address
from ottla_core.errors import ConfigurationError
from ottla_sdk import TopicPartition
from ottla_sdk.kafka.client_settings import ClientSettingError
from ottla_sdk.kafka.coordinator_requests import TIMEOUT_MAX_S, close

COORDINATOR_WAIT_S = 15.0
RETRY_S = 0.3
STILL_RUNNING = (
    "the group still has members: either the connector's tasks have not stopped completely yet, or it was resumed "
    "meanwhile. If it is stopped, the request can be repeated"
)
BUSY_CODES = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.GROUP_SUBSCRIBED_TO_TOPIC}
)
# The group's coordinator moves, or has just started: KafkaError's codes are those of the protocol.
PASSING_CODES = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)


class SinkOffsetsError(Exception):
    """A sink's offsets cannot be read or changed; the message says why."""


class SinkOffsets:
    """The committed offsets of a consumer group.

    Args:
        config: the worker's settings.
        group_id: the group.
        overrides: the connector's own settings of an admin client, without ``admin.override.``.
        permit: raises what forbids a change; called right before each request that changes anything, also when it is
            repeated. Such a request is given up in the time for which a permit surely holds.

    Every method raises `SinkOffsetsError`; what changes offsets does so while the group has members, too.
    """

    def __init__(
        self,
        config: WorkerConfig,
        group_id: str,
        overrides: Mapping[str, str],
        permit: Callable[[], object] = lambda: None,
    ) -> None:
        self._config = config
        self._group_id = group_id
        self._overrides = dict(overrides)
        self._permit = permit
        self._change_timeout_s = min(REQUEST_TIMEOUT_S, config.write_timeout_s)

    async def read(self) -> dict[TopicPartition, int]:
        """Return the offset of every partition that has one; none if there is no such group."""
        request = ConsumerGroupTopicPartitions(self._group_id)
        try:
            found = await self._ask("list_consumer_group_offsets", request, changes=False)
        except KafkaException as failure:
            if failure.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return {}
            raise self._problem(failure.args[0]) from None
        partitions = found.topic_partitions or []
        self._check(partitions)
        return {TopicPartition(each.topic, each.partition): each.offset for each in partitions if each.offset >= 0}

    async def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set the offsets of partitions; None removes one's."""
        to_set = {partition: offset for partition, offset in offsets.items() if offset is not None}
        if to_set:
            await self._set(to_set)
        if to_remove := [partition for partition in offsets if partition not in to_set]:
            await self._remove(to_remove)

    async def delete(self) -> None:
        """Remove all offsets, by deleting the group; one that is not there is as good as deleted."""
        try:
            await self._ask("delete_consumer_groups", self._group_id, changes=True)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise self._problem(failure.args[0]) from None

    async def _set(self, offsets: Mapping[TopicPartition, int]) -> None:
        partitions = [ClientTopicPartition(each.topic, each.partition, offset) for each, offset in offsets.items()]
        try:
            answer = await self._ask(
                "alter_consumer_group_offsets",
                ConsumerGroupTopicPartitions(self._group_id, partitions),
                changes=True,
            )
        except KafkaException as failure:
            raise self._problem(failure.args[0]) from None
        self._check(answer.topic_partitions or [])

    async def _remove(self, partitions: Iterable[TopicPartition]) -> None:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        request = OffsetDeleteRequest(
            group_id=GroupId(self._group_id),
            topics=tuple(
                OffsetDeleteRequestTopic(
                    name=TopicName(topic),
                    partitions=tuple(OffsetDeleteRequestPartition(partition_index=i32(each)) for each in numbers),
                )
                for topic, numbers in by_topic.items()
            ),
        )
        response = await self._ask_coordinator(request)
        self._check_code(response.error_code, "")
        for topic in response.topics:
            for each in topic.partitions:
                self._check_code(each.error_code, f"{topic.name}-{each.partition_index}: ")

    async def _ask(self, call: str, subject: object, *, changes: bool) -> Any:
        """Return the answer to a request of librdkafka's admin client about this group.

        Raises:
            KafkaException: it was refused, or not answered in time.
        """
        try:
            admin = KafkaClients(self._config).admin("admin", self._overrides)
        except (LogError, ClientSettingError) as error:
            raise SinkOffsetsError(str(error)) from None
        deadline = time.monotonic() + COORDINATOR_WAIT_S
        timeout_s = self._change_timeout_s if changes else REQUEST_TIMEOUT_S
        try:
            while True:
                if changes:
                    self._permit()
                futures: dict[str, Future[Any]] = getattr(admin, call)([subject], request_timeout=TIMEOUT_MAX_S)
                try:
                    return await _answer(futures[self._group_id], timeout_s)
                except KafkaException as failure:
                    if failure.args[0].code() not in PASSING_CODES or time.monotonic() > deadline:
                        raise
                await asyncio.sleep(RETRY_S)
        finally:
            close(admin)  # here, not in a thread: the permit may be over before that one runs

    async def _ask_coordinator(self, request: OffsetDeleteRequest) -> Any:
        """Return the answer to a request that removes offsets."""
        client = self._coordinator()
        deadline = time.monotonic() + COORDINATOR_WAIT_S
        try:
            while True:
                self._permit()
                response = await client.ask(ConnectionPurpose.REBALANCE, request, timeout_s=self._change_timeout_s)
                if response.error_code not in PASSING_CODES or time.monotonic() > deadline:
                    return response
                client.forget()
                await asyncio.sleep(RETRY_S)
        except (Unreachable, Refused) as error:
            raise SinkOffsetsError(f"group {self._group_id}: {error}") from None
        finally:
            client.forget()

    def _coordinator(self) -> CoordinatorClient:
        try:
            settings = self._config.client_config("admin", self._overrides)
            return CoordinatorClient(
                [parse_address(each) for each in settings["bootstrap.servers"].split(",")],
                self._group_id,
                security=ClientSecurity.of(settings),
                client_id=settings.get("client.id", "ottla-connect"),
            )
        except (ClientSettingError, ConfigurationError, ValueError) as error:
            raise SinkOffsetsError(str(error)) from None

    def _check(self, partitions: Iterable[ClientTopicPartition]) -> None:
        for each in partitions:
            if each.error is not None:
                raise self._problem(each.error, f"{each.topic}-{each.partition}: ")

    def _check_code(self, code: ErrorCode, where: str) -> None:
        if code not in (ErrorCode.none, ErrorCode.group_id_not_found):
            raise self._problem(KafkaError(int(code)), where)

    def _problem(self, error: KafkaError, where: str = "") -> SinkOffsetsError:
        reason = STILL_RUNNING if error.code() in BUSY_CODES else error.str()
        return SinkOffsetsError(f"group {self._group_id}: {where}{reason}")


async def _answer(future: Future[Any], within_s: float) -> Any:
    """Return an answer.

    Raises:
        KafkaException: it was a refusal, or did not come in time.
    """
    try:
        async with asyncio.timeout(within_s):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        reason = f"its coordinator did not answer within {within_s:g} s"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason)) from None  # noqa: SLF001 - a public name
