"""Asks the cluster whether the topics that a sink task reads are still those of its positions."""

import logging
from collections.abc import Collection, Iterable, Mapping

from ottla_connect.task.sink.topic_identities import TopicIdentities
from ottla_connect.task.sink.topic_ids import Question, TopicIds
from ottla_sdk import RetriableError, TopicPartition

INTERVAL_MAX_S = 10.0

log = logging.getLogger(__name__)


class TopicCheck:
    """Knows of which topics the positions are, and finds out when a topic was created anew.

    Args:
        topic_ids: asks the cluster.
        identities: what is known; commits get their metadata from there.
        interval_s: how often to ask while the task reads; at least every ten seconds.
    """

    def __init__(self, topic_ids: TopicIds, identities: TopicIdentities, *, interval_s: float) -> None:
        self._topic_ids = topic_ids
        self._identities = identities
        self._interval_s = min(interval_s, INTERVAL_MAX_S)
        self._question: Question | None = None
        self._due_s = 0.0

    def assigned(self, committed: Mapping[TopicPartition, str | None]) -> set[TopicPartition]:
        """Return which of these partitions are of another topic than their last commit, whose metadata this is.

        Raises:
            RetriableError: no broker answers. Without an answer it would never show if the topic changed by then.
        """
        self._question = None
        self._identities.assign(committed)
        return self._of_new_topics(committed.keys(), self._topic_ids.ask_all(_topics(committed)))

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """The task has these no longer."""
        self._question = None
        self._identities.revoke(partitions)

    def look(self, now_s: float, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Ask if it is time, and return which of the assigned partitions are to be begun at their start.

        Nothing waits for the answer: commits say of which topic they are, so what is committed meanwhile is known
        for the former one's.
        """
        if (question := self._question) is None:
            if now_s >= self._due_s and partitions:
                self._question = self._topic_ids.begin(_topics(partitions))
            return set()
        if not question.is_answered():
            return set()
        self._question = None
        self._due_s = now_s + self._interval_s
        try:
            return self._of_new_topics(partitions, question.result())
        except RetriableError as error:
            log.debug("does not know whether the topics are still the same: %s", error)
            return set()

    def _of_new_topics(
        self, partitions: Collection[TopicPartition], found: Mapping[str, str | None]
    ) -> set[TopicPartition]:
        anew = self._identities.compare(partitions, found)
        for topic in sorted(_topics(anew)):
            log.warning("the topic %s was created anew, with the id %s; begins at its start", topic, found[topic])
        return anew


def _topics(partitions: Iterable[TopicPartition]) -> set[str]:
    return {each.topic for each in partitions}
