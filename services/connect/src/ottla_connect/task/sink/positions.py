"""How far a sink task has come in each of its partitions, and what may be committed (Kafka's WorkerSinkTask). Pure.

An offset here is always that of the next record. Of each partition there are: how far it was read, how far its
records were put into the sink, and how far that is committed; each at most as far as the one before.

That a commit has succeeded is heard later, when the task may have gone elsewhere: it has sought, the topic was
created anew, or the partition was given away and came back. Such a commit says nothing of the present position. Taken
for how far that is committed, it would have the task go on behind records that it has not got.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from ottla_sdk import TopicPartition


class Positions:
    """The positions of the partitions that are assigned to a task."""

    def __init__(self) -> None:
        self._assigned: set[TopicPartition] = set()
        self._read: dict[TopicPartition, int] = {}
        self._put: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._under_way: dict[TopicPartition, int] = {}
        self._topics: set[str] = set()
        self._new_topics: list[str] = []

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        """The partitions that the task has."""
        return frozenset(self._assigned)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """The task has these too now."""
        self._assigned.update(partitions)

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """The task has these no longer."""
        self._assigned.difference_update(partitions)
        for positions in (self._read, self._put, self._committed, self._under_way):
            for each in partitions:
                positions.pop(each, None)

    def read(self, topic: str, partitions: Sequence[int], offsets: Sequence[int]) -> None:
        """Records of a topic were read, in this order.

        Args:
            topic: the topic.
            partitions: the partition of each record.
            offsets: the offset of each record.
        """
        for partition, last in dict(zip(partitions, offsets, strict=True)).items():
            place = TopicPartition(topic, partition)
            self._read[place] = last + 1
            if place not in self._committed:
                self._committed[place] = offsets[partitions.index(partition)]
        if topic not in self._topics:
            self._topics.add(topic)
            self._new_topics.append(topic)

    def take_new_topics(self) -> list[str]:
        """Return the topics of which a record was read for the first time since the last call."""
        topics, self._new_topics = self._new_topics, []
        return topics

    def put(self) -> None:
        """All that was read is in the sink."""
        self._put.update(self._read)
        self._read.clear()

    def move(self, partition: TopicPartition, offset: int) -> None:
        """The task goes on reading at an offset that it has chosen, which counts as committed."""
        self._read.pop(partition, None)
        self._under_way.pop(partition, None)
        self._put[partition] = self._committed[partition] = offset

    def rewind(self) -> dict[TopicPartition, int]:
        """Go back to what is committed; returns where that is, for each partition that was read since."""
        behind = {
            each: offset
            for each, offset in self._committed.items()
            if self._read.get(each, self._put.get(each, offset)) != offset
        }
        self._read.clear()
        self._put.update(behind)
        return behind

    def offered(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return how far records of these partitions were put; those without any are left out."""
        return {each: offset for each, offset in self._put.items() if each in partitions}

    def to_commit(
        self, offered: Mapping[TopicPartition, int], allowed: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], list[str]]:
        """Return which offsets to commit, and in words what the task must not ask for.

        Args:
            offered: what `pre_commit` was called with.
            allowed: what it has returned.
        """
        chosen: dict[TopicPartition, int] = {}
        refused: list[str] = []
        for partition, offset in allowed.items():
            if partition not in self._assigned:
                refused.append(f"{partition.topic}-{partition.partition} is not assigned to this task")
            elif offset > offered.get(partition, -1):
                refused.append(
                    f"offset {offset} of {partition.topic}-{partition.partition} is behind the last record put"
                )
            elif self._committed.get(partition) != offset:
                chosen[partition] = offset
        return chosen, refused

    def sent(self, offsets: Mapping[TopicPartition, int]) -> None:
        """A commit of these is on its way."""
        self._under_way.update(offsets)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These are committed; what is not of a partition's last commit, or of before it has moved, says nothing."""
        self._committed.update(
            {each: offset for each, offset in offsets.items() if self._under_way.get(each) == offset}
        )
