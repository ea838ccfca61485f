"""Finds out whether the topics that a sink task reads are still those of its positions. Pure.

The shell asks the cluster. Nothing waits for the answer while the task reads: commits say of which topic they are, so
what is committed meanwhile is known for the former one's.
"""

from collections.abc import Collection, Iterable, Mapping

from ottla_connect.task.sink.actions import AskTopicIds
from ottla_connect.task.sink.topic_identities import TopicIdentities
from ottla_sdk import TopicPartition

INTERVAL_MAX_S = 10.0


class TopicCheck:
    """Knows of which topics the positions are, and finds out when a topic was created anew.

    Args:
        interval_s: how often to ask while the task reads; at least every ten seconds.
    """

    def __init__(self, *, interval_s: float) -> None:
        self._identities = TopicIdentities()
        self._interval_s = min(interval_s, INTERVAL_MAX_S)
        self._ticket = 0
        self._asking = False
        self._answer: Mapping[str, str | None] | None = None
        self._due_s = 0.0

    def assigned(
        self, committed: Mapping[TopicPartition, str | None], found: Mapping[str, str | None]
    ) -> dict[TopicPartition, str]:
        """Return which of these partitions are of another topic than their last commit, with that topic's id.

        Args:
            committed: the metadata of each partition's last commit.
            found: the id of each topic that exists.
        """
        self._forget_question()
        self._identities.assign(committed)
        return self._compare(committed.keys(), found)

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """The task has these no longer."""
        self._forget_question()
        self._identities.revoke(partitions)

    def answered(self, ticket: int, found: Mapping[str, str | None]) -> None:
        """Take an answer; one to a question from before a rebalance is not about the present partitions."""
        if self._asking and ticket == self._ticket:
            self._answer = found

    def created_anew(self, now_s: float, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Return which of the assigned partitions are to be begun at their start, with the new topic's id."""
        if (found := self._answer) is None:
            return {}
        self._forget_question()
        self._due_s = now_s + self._interval_s
        return self._compare(partitions, found)

    def next_question(self, now_s: float, partitions: Collection[TopicPartition]) -> AskTopicIds | None:
        """Return what to ask now, None if it is not time."""
        if self._asking or now_s < self._due_s or not partitions:
            return None
        self._asking = True
        self._ticket += 1
        return AskTopicIds(ticket=self._ticket, topics=topics_of(partitions))

    def metadata(self, partition: TopicPartition) -> str:
        """Return what a commit of this partition has to say."""
        return self._identities.metadata(partition)

    def _compare(
        self, partitions: Collection[TopicPartition], found: Mapping[str, str | None]
    ) -> dict[TopicPartition, str]:
        return {each: str(found[each.topic]) for each in self._identities.compare(partitions, found)}

    def _forget_question(self) -> None:
        self._asking = False
        self._answer = None


def topics_of(partitions: Iterable[TopicPartition]) -> set[str]:
    """Return the topics of partitions."""
    return {each.topic for each in partitions}
