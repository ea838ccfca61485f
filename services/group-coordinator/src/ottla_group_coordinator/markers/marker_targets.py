"""Which broker is to write a marker. Pure."""

from uuid import UUID

from ottla_core.cluster.state.model import ClusterState
from ottla_core.topic_partition import TopicPartition

GONE_TOPICS_KEPT_MAX = 10_000


def leader_of(state: ClusterState, partition: TopicPartition) -> int | None:
    """Return the id of the leader, `model.NO_LEADER` while there is none, or None if there is no such partition."""
    topic = state.topics.get(partition.topic)
    if topic is None or partition.partition >= len(topic.partitions):
        return None
    leader: int = topic.partitions[partition.partition].leader
    return leader


class GoneTopics:
    """Topics that have gone from the cluster state: deleted, or merely missing.

    A topic is missing while its record cannot be read, or one of its partitions has none (see
    `ClusterState.deleted_topics`). Its data are kept, so its transactions have to be ended once it is back.
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

    def is_missing(self, state: ClusterState, topic: str) -> bool:
        """Return whether a topic has gone without having been deleted."""
        id_ = self._ids.get(topic)
        return id_ is not None and id_ not in state.deleted_topics
