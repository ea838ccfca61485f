"""Of which topics a sink task's positions are. Pure.

A topic that is deleted and created anew has other records under the same name and offsets. Each commit says in its
metadata which topic it is of, so whoever goes on from it can tell; and the cluster is asked now and then whether the
names that are read still mean the same topics, as a running consumer goes on at its old offset without any sign.
"""

from collections.abc import Collection, Mapping

from ottla_sdk import TopicPartition

PREFIX = "topic.id="


class TopicIdentities:
    """The id of the topic that each assigned partition's positions are of; None while nobody has told it."""

    def __init__(self) -> None:
        self._ids: dict[TopicPartition, str | None] = {}

    def assign(self, committed: Mapping[TopicPartition, str | None]) -> None:
        """Partitions are begun where they were committed, each with this commit's metadata."""
        self._ids.update({place: topic_id_in(metadata) for place, metadata in committed.items()})

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """The task has these no longer."""
        for each in partitions:
            self._ids.pop(each, None)

    def compare(self, partitions: Collection[TopicPartition], found: Mapping[str, str | None]) -> set[TopicPartition]:
        """Return which of these partitions are of another topic now, and take the new one for known.

        Args:
            partitions: are assigned.
            found: the id of each topic that exists; None where the cluster gives no ids, which tells nothing.
        """
        another: set[TopicPartition] = set()
        for place in partitions:
            known, topic_id = self._ids.get(place), found.get(place.topic)
            if topic_id is None or topic_id == known:
                continue
            self._ids[place] = topic_id
            if known is not None:
                another.add(place)
        return another

    def metadata(self, partition: TopicPartition) -> str:
        """Return what a commit of this partition has to say."""
        topic_id = self._ids.get(partition)
        return "" if topic_id is None else f"{PREFIX}{topic_id}"


def topic_id_in(metadata: str | None) -> str | None:
    """Return the topic's id that a commit's metadata gives; None if it gives none, as other programs' do not."""
    return metadata.removeprefix(PREFIX) if metadata is not None and metadata.startswith(PREFIX) else None
