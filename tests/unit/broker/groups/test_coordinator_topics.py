"""The topic of groups is created once, in the background, as the broker's settings say."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import request as metadata
from kio.schema.types import TopicName

from ottla_broker.groups.coordinator_topics import (
    GROUPS,
    RETRY_SECONDS,
    TRANSACTIONS,
    CoordinatorTopic,
    CoordinatorTopicCreation,
)
from ottla_core.clock import SystemClock
from ottla_core.cluster.controller_rpc.controller_api import CreatedTopic, NewTopic
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import RequestTimedOut
from ottla_core.kafka_uuid import ZERO_UUID
from tests.support.broker.broker_parts import ask, broker_of
from tests.support.groups.group_cluster import StatedFeed, group_state

SETTINGS = {
    "offsets.topic.num.partitions": "7",
    "offsets.topic.replication.factor": "2",
    "offsets.topic.segment.bytes": "12345678",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.segment.bytes": "1234567",
}
WANTED = NewTopic(
    name="__consumer_offsets",
    partition_count=7,
    replication_factor=2,
    configs={"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "12345678"},
    topic_id=ZERO_UUID,
)


class Clock(SystemClock):
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class Controller:
    """Notes what is to be created, and answers when the test lets it."""

    def __init__(self) -> None:
        self.asked: list[NewTopic] = []
        self.may_answer = asyncio.Event()
        self.error: ErrorCode | Exception = ErrorCode.none

    async def create_topics(self, topics: Sequence[NewTopic], **_: Any) -> list[CreatedTopic]:
        self.asked += topics
        await self.may_answer.wait()
        if isinstance(self.error, Exception):
            raise self.error
        return [CreatedTopic(name=topic.name, error_code=self.error, error_message="so it is") for topic in topics]


class Setting:
    """A creation with everything around it."""

    def __init__(self, state: ClusterState | None = None, topic: CoordinatorTopic = GROUPS) -> None:
        self.feed = StatedFeed(state or ClusterState(revision=1))
        self.controller = Controller()
        self.clock = Clock()
        config = broker_of(self.feed, settings=SETTINGS).config
        self.creation = CoordinatorTopicCreation(topic, config, self.controller, self.feed, self.clock)  # type: ignore[arg-type]

    async def finish(self) -> None:
        self.controller.may_answer.set()
        while self.creation._task is not None:
            await asyncio.sleep(0)


def without_ids(controller: Controller) -> list[NewTopic]:
    return [replace(topic, topic_id=ZERO_UUID) for topic in controller.asked]


async def test_the_topic_is_what_the_settings_say() -> None:
    setting = Setting()

    setting.creation.begin()
    await setting.finish()

    assert without_ids(setting.controller) == [WANTED]


async def test_the_topic_of_transactions_is_compacted_and_never_led_by_who_lacks_records() -> None:
    setting = Setting(topic=TRANSACTIONS)

    setting.creation.begin()
    await setting.finish()

    (created,) = without_ids(setting.controller)
    assert (created.name, created.partition_count, created.replication_factor) == ("__transaction_state", 5, 3)
    assert created.configs == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "1234567",
        "unclean.leader.election.enable": "false",
    }


async def test_one_creation_is_under_way_at_a_time() -> None:
    setting = Setting()

    for _ in range(5):
        setting.creation.begin()
        await asyncio.sleep(0)

    assert len(setting.controller.asked) == 1
    await setting.finish()


async def test_a_topic_that_exists_is_not_created_again() -> None:
    setting = Setting(group_state())

    setting.creation.begin()
    await asyncio.sleep(0)

    assert setting.controller.asked == []


async def test_after_a_failure_nothing_is_tried_for_a_while() -> None:
    for failure in (ErrorCode.invalid_replication_factor, RequestTimedOut("no controller")):
        setting = Setting()
        setting.controller.error = failure
        setting.creation.begin()
        await setting.finish()

        setting.creation.begin()
        await setting.finish()
        assert len(setting.controller.asked) == 1

        setting.clock.now += RETRY_SECONDS
        setting.creation.begin()
        await setting.finish()
        assert len(setting.controller.asked) == 2


async def test_that_another_broker_was_faster_is_no_failure() -> None:
    setting = Setting()
    setting.controller.error = ErrorCode.topic_already_exists
    setting.creation.begin()
    await setting.finish()

    assert setting.clock.monotonic() >= setting.creation._not_before


async def test_closing_gives_up_a_creation() -> None:
    setting = Setting()
    setting.creation.begin()
    await asyncio.sleep(0)

    await setting.creation.close()

    assert setting.creation._task is None


async def test_metadata_creates_the_topic_of_groups_in_the_same_shape_and_no_other_before_its_level() -> None:
    controller = Controller()
    controller.error = ErrorCode.invalid_replication_factor
    controller.may_answer.set()
    broker = broker_of(
        StatedFeed(ClusterState(revision=1)), settings=SETTINGS, controller=controller, reconciler=Idle()
    )
    names = ("__consumer_offsets", "__transaction_state", "flights")
    message = metadata.MetadataRequest(
        topics=tuple(metadata.MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names),
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )

    response = await ask(broker, message)

    flights = NewTopic(name="flights", partition_count=1, replication_factor=1, topic_id=ZERO_UUID)
    assert without_ids(controller) == [WANTED, flights]
    assert {topic.name: topic.error_code for topic in response.topics} == {
        "__consumer_offsets": ErrorCode.invalid_replication_factor,
        "__transaction_state": ErrorCode.unknown_topic_or_partition,
        "flights": ErrorCode.invalid_replication_factor,
    }


async def test_metadata_says_that_the_topic_is_internal() -> None:
    message = metadata.MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )

    response = await ask(broker_of(StatedFeed(group_state())), message)

    assert [(topic.name, topic.is_internal) for topic in response.topics] == [("__consumer_offsets", True)]


class Idle:
    """Stands for the reconciler: nothing is to be opened."""

    async def wait_reached(self, _revision: int, _timeout_s: float) -> bool:
        return True
