"""Creates topics, once each, if they are not there."""

import logging
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from ottla_connect.task.pipeline.errors import is_passing
from ottla_connect.task.source.topic_creation import NewTopicPlan
from ottla_sdk import ConnectError, RetriableError

REQUEST_TIMEOUT_S = 30.0
NO_ANSWER = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}  # noqa: SLF001 - public
)

log = logging.getLogger(__name__)


class TopicNotCreated(ConnectError):
    """A topic is not there and cannot be created."""


class TopicNotCreatedYet(TopicNotCreated, RetriableError):
    """The same, because no broker answers, or none can for now."""


class TopicAdmin:
    """Asks the brokers; the client is made at the first question."""

    def __init__(self, make_client: Callable[[], AdminClient]) -> None:
        self._make_client = make_client
        self._client: AdminClient | None = None

    def ensure(self, plan: NewTopicPlan) -> None:
        """Return once the topic is there.

        Raises:
            TopicNotCreated: the brokers refuse.
            TopicNotCreatedYet: they do not answer, or cannot for now.
        """
        if self._client is None:
            self._client = self._make_client()
        try:
            if self._exists(self._client, plan.name):
                log.debug("topic %s exists", plan.name)
                return
            self._create(self._client, plan)
        except KafkaException as error:
            kind = TopicNotCreatedYet if is_passing(error) else TopicNotCreated
            raise kind(f"topic {plan.name} is not there and cannot be created: {error.args[0].str()}") from error

    @staticmethod
    def _exists(client: AdminClient, topic: str) -> bool:
        described = client.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_TIMEOUT_S)[topic]
        try:
            described.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return False
            raise
        return True

    @staticmethod
    def _create(client: AdminClient, plan: NewTopicPlan) -> None:
        topic = NewTopic(
            plan.name, plan.partitions, replication_factor=plan.replication_factor, config=dict(plan.configs)
        )
        try:
            client.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)[plan.name].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        else:
            log.info(
                "created topic %s with %d partitions and %d replicas (-1: the brokers' default)",
                plan.name,
                plan.partitions,
                plan.replication_factor,
            )
