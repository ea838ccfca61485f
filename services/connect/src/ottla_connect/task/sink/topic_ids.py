"""Which topic bears a name now: asked of the cluster, never remembered.

An answer that is remembered is of no use: between two questions the topic may have been deleted and created anew.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from ottla_connect.task.topic_admin import NO_ANSWER, REQUEST_TIMEOUT_S
from ottla_sdk import RetriableError

NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Sixteen bytes of zeros, as Kafka writes them: what older brokers answer."""
_PASSING = NO_ANSWER | {
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
        return self._answer(topic, self._futures([topic])[topic])

    def ask_all(self, topics: Collection[str]) -> dict[str, str | None]:
        """Return the ids of topics, as `ask` does each; those that do not exist now are left out.

        Raises:
            RetriableError: no broker answers.
        """
        return self.begin(topics).result()

    def begin(self, topics: Collection[str]) -> "Question":
        """Ask for the ids of topics without waiting for the answer."""
        return Question(self._futures(topics), self._answer)

    def _futures(self, topics: Collection[str]) -> Mapping[str, "Future[Any]"]:
        if not topics:
            return {}
        if self._client is None:
            self._client = self._make_client()
        return self._client.describe_topics(TopicCollection(sorted(topics)), request_timeout=REQUEST_TIMEOUT_S)

    def _answer(self, topic: str, future: "Future[Any]") -> str | None:
        try:
            found = str(future.result().topic_id)
        except KafkaException as error:
            problem = error.args[0]
            if problem.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TopicMissing(f"there is no topic {topic} now") from error
            if problem.code() in _PASSING or problem.retriable():
                raise RetriableError(f"cannot find out the id of topic {topic}: {problem.str()}") from error
            if not self._has_refused:
                self._has_refused = True
                log.warning("topic ids cannot be compared: the brokers refuse to describe %s: %s", topic, problem)
            return None
        return None if found == NO_ID else found


class TopicMissing(RetriableError):
    """There is no topic of this name now; it may be on its way."""


class Question:
    """A question about the ids of topics that is under way."""

    def __init__(
        self, futures: Mapping[str, "Future[Any]"], answer: Callable[[str, "Future[Any]"], str | None]
    ) -> None:
        self._futures = futures
        self._answer = answer

    def is_answered(self) -> bool:
        """Return whether `result` would answer at once."""
        return all(each.done() for each in self._futures.values())

    def result(self) -> dict[str, str | None]:
        """Return the ids of the topics that exist; waits for them.

        Raises:
            RetriableError: no broker answers.
        """
        found = {}
        for topic, future in self._futures.items():
            try:
                found[topic] = self._answer(topic, future)
            except TopicMissing:
                continue
        return found
