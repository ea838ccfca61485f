"""The topics of coordinators: their settings, and their creation when the first client asks for a coordinator."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

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
from ottla_core.shards import GROUP_TOPIC, TRANSACTION_TOPIC

RETRY_SECONDS = 1.0
"""How long nothing is tried after a creation that failed, however many clients ask."""

logger = structlog.get_logger("groups")


@dataclass(frozen=True, slots=True)
class CoordinatorTopic:
    """What a topic of coordinators is like.

    Attributes:
        name: its name.
        keeps: what it keeps, for logs.
        new: returns the topic as a broker's settings want it.
        factor_setting: the setting that has its number of replicas.
    """

    name: str
    keeps: str
    new: Callable[[BrokerConfig], NewTopic]
    factor_setting: str


def _new_group_topic(config: BrokerConfig) -> NewTopic:
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


def _new_transaction_topic(config: BrokerConfig) -> NewTopic:
    """Return `__transaction_state` with Kafka's settings. Source: `TransactionLog`."""
    return NewTopic(
        name=TRANSACTION_TOPIC,
        topic_id=random_uuid(),
        partition_count=config.transaction_state_log_num_partitions,
        replication_factor=config.transaction_state_log_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


GROUPS = CoordinatorTopic(GROUP_TOPIC, "groups", _new_group_topic, "offsets.topic.replication.factor")
TRANSACTIONS = CoordinatorTopic(
    TRANSACTION_TOPIC, "transactions", _new_transaction_topic, "transaction.state.log.replication.factor"
)
COORDINATOR_TOPICS = {topic.name: topic for topic in (GROUPS, TRANSACTIONS)}


class CoordinatorTopicCreation:
    """Has the controller create a topic; one attempt at a time, and nobody waits for it."""

    def __init__(
        self,
        topic: CoordinatorTopic,
        config: BrokerConfig,
        controller: ControllerClient,
        feed: ClusterStateFeed,
        clock: Clock,
    ) -> None:
        self._topic = topic
        self._config = config
        self._controller = controller
        self._feed = feed
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._not_before = 0.0

    def begin(self) -> None:
        """Begin to create the topic, unless it exists, is being created, or could not be created just now."""
        exists = self._topic.name in self._feed.state.topics
        if exists or self._task is not None or self._clock.monotonic() < self._not_before:
            return
        self._task = start_detached(f"creation of {self._topic.name}", self._create())
        self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Give up a creation that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _ended(self, _: object) -> None:
        self._task = None

    async def _create(self) -> None:
        timeout_s, new = self._config.request_timeout_ms / 1000, self._topic.new(self._config)
        try:
            (result,) = await self._controller.create_topics([new], timeout_s=timeout_s)
            code, reason = result.error_code, result.error_message
        except KafkaError as error:
            code, reason = error.code, error.message
        if code == ErrorCode.none:
            logger.info("created a topic of coordinators", topic=new.name)
        elif code != ErrorCode.topic_already_exists:
            self._not_before = self._clock.monotonic() + RETRY_SECONDS
            logger.error(
                "cannot create a topic of coordinators; what it keeps cannot be used until then",
                topic=new.name,
                keeps=self._topic.keeps,
                code=code.name,
                reason=reason,
                replication_factor=new.replication_factor,
                live_brokers=len(self._feed.state.brokers),
                setting=self._topic.factor_setting,
            )
