"""Which broker is to write a marker. Pure."""

from uuid import UUID

from ottla_core.cluster.state.model import ClusterState
from ottla_core.topic_partition import TopicPartition

GONE_TOPICS_KEPT_MAX = 10_000

CLOCKS_APART_MAX_MS = 3_600_000
"""How far the clock by which recoveries are numbered may be ahead of a coordinator's."""


def leader_of(state: ClusterState, partition: TopicPartition) -> int | None:
    """Return the id of the leader, `model.NO_LEADER` while there is none, or None if there is no such partition."""
    topic = state.topics.get(partition.topic)
    if topic is None or partition.partition >= len(topic.partitions):
        return None
    leader: int = topic.partitions[partition.partition].leader
    return leader


class GoneTopics:
    """Topics that have gone from the cluster state: which were deleted, as far as can be known.

    A topic of which etcd has a part, or something that cannot be read, is merely missing. Its data are kept, so its
    transactions have to be ended once it is back. So it may be with any topic that a recovery has not found.
    """

    def __init__(self) -> None:
        self._ids: dict[str, UUID] = {}

    def on_cluster_state(self, former: ClusterState, state: ClusterState) -> None:
        """Note which topics have gone, and which are back."""
        if former.topics is state.topics:
            return
        for name in former.topics.keys() - state.topics.keys():
            self._ids[name] = former.topics[name].id
        for name in self._ids.keys() & state.topics.keys():
            del self._ids[name]
        while len(self._ids) > GONE_TOPICS_KEPT_MAX:
            del self._ids[next(iter(self._ids))]

    def is_deleted(self, state: ClusterState, topic: str, start_ms: int) -> bool:
        """Return whether a topic that is part of a transaction, and that the state lacks, has been deleted.

        Args:
            state: the newest, which is not out of date.
            topic: its name.
            start_ms: when the transaction began. If that was after the last recovery, the topic was there then.
        """
        if topic in state.incomplete_topics or state.recovery.is_unfinished:
            return False
        was_seen = self._ids.get(topic) in state.deleted_topics
        return was_seen or state.recovery.number == 0 or start_ms > state.recovery.number + CLOCKS_APART_MAX_MS
