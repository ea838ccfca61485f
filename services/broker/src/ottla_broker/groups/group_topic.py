"""The topic that keeps groups and offsets: its settings, and its creation when the first client asks for a group."""

import asyncio

import structlog
from kio.schema.errors import ErrorCode

from ottla_broker.config import BrokerConfig
from ottla_core.background import start_detached
from ottla_core.clock import Clock
from ottla_core.cluster.controller_rpc.controller_api import NewTopic
from ottla_core.cluster.controller_rpc.controller_client import ControllerClient
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import KafkaError
from ottla_core.random_ids import random_uuid
from ottla_core.shards import GROUP_TOPIC

RETRY_SECONDS = 1.0
"""How long nothing is tried after a creation that failed, however many clients ask."""

logger = structlog.get_logger("groups")


def new_group_topic(config: BrokerConfig) -> NewTopic:
    """Return `__consumer_offsets` as this broker's settings want it."""
    return NewTopic(
        name=GROUP_TOPIC,
        topic_id=random_uuid(),
        partition_count=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )


class GroupTopicCreation:
    """Has the controller create the topic; one attempt at a time, and nobody waits for it."""

    def __init__(
        self, config: BrokerConfig, controller: ControllerClient, feed: ClusterStateFeed, clock: Clock
    ) -> None:
        self._config = config
        self._controller = controller
        self._feed = feed
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._not_before = 0.0

    def begin(self) -> None:
        """Begin to create the topic, unless it exists, is being created, or could not be created just now."""
        exists = GROUP_TOPIC in self._feed.state.topics
        if exists or self._task is not None or self._clock.monotonic() < self._not_before:
            return
        self._task = start_detached("creation of the group topic", self._create())
        self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Give up a creation that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _ended(self, _: object) -> None:
        self._task = None

    async def _create(self) -> None:
        timeout_s = self._config.request_timeout_ms / 1000
        try:
            (result,) = await self._controller.create_topics([new_group_topic(self._config)], timeout_s=timeout_s)
            code, reason = result.error_code, result.error_message
        except KafkaError as error:
            code, reason = error.code, error.message
        if code == ErrorCode.none:
            logger.info("created the topic of groups", topic=GROUP_TOPIC)
        elif code != ErrorCode.topic_already_exists:
            self._not_before = self._clock.monotonic() + RETRY_SECONDS
            logger.error(
                "cannot create the topic of groups; no group can be used until then",
                topic=GROUP_TOPIC,
                code=code.name,
                reason=reason,
                replication_factor=self._config.offsets_topic_replication_factor,
                live_brokers=len(self._feed.state.brokers),
                setting="offsets.topic.replication.factor",
            )
