"""Which topic bears a name now, for sinks that keep offsets in their target: asked of the cluster, never remembered.

An answer that is remembered is of no use: between two questions the topic may have been deleted and created anew.
"""

import logging
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from ottla_connect.task.topic_admin import NO_ANSWER, REQUEST_TIMEOUT_S
from ottla_sdk import RetriableError

NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Sixteen bytes of zeros, as Kafka writes them: what older brokers answer."""
_PASSING = NO_ANSWER | {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001 - so are librdkafka's own codes called
}

log = logging.getLogger(__name__)


class TopicIds:
    """Asks the brokers; the client is made at the first question."""

    def __init__(self, make_client: Callable[[], AdminClient]) -> None:
        self._make_client = make_client
        self._client: AdminClient | None = None
        self._has_refused = False

    def ask(self, topic: str) -> str | None:
        """Return the topic's id; None if the cluster gives no ids, or does not tell.

        Raises:
            RetriableError: no broker answers, or there is no such topic now.
        """
        if self._client is None:
            self._client = self._make_client()
        try:
            asked = self._client.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_TIMEOUT_S)
            found = str(asked[topic].result().topic_id)
        except KafkaException as error:
            problem = error.args[0]
            if problem.code() in _PASSING or problem.retriable():
                raise RetriableError(f"cannot find out the id of topic {topic}: {problem.str()}") from error
            if not self._has_refused:
                self._has_refused = True
                log.warning("topic ids cannot be compared: the brokers refuse to describe %s: %s", topic, problem)
            return None
        return None if found == NO_ID else found
