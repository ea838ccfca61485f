"""What was produced to and fetched from each topic: plain integers, which metrics read. Pure.

The partitions of a topic here share one count. It goes with the last of them, so that what is counted never falls as
partitions move to other brokers. Beyond a number of topics the others share one.
"""

from collections.abc import Iterator
from typing import Final
from weakref import WeakValueDictionary

from ottla_broker.topic_totals import OTHER_TOPICS, TOPICS_MAX


class TopicTraffic:
    """The counts of a topic since the first of its partitions came here.

    Attributes:
        produced_bytes: of batches appended here as the leader, as they were sent.
        produced_records: their records.
        fetched_bytes: of batches given to consumers.
    """

    __slots__ = ("__weakref__", "fetched_bytes", "produced_bytes", "produced_records")

    def __init__(self) -> None:
        self.produced_bytes = 0
        self.produced_records = 0
        self.fetched_bytes = 0


class TrafficByTopic:
    """The counts of all topics of which there are partitions here.

    Args:
        topics_max: how many have counts of their own.
    """

    def __init__(self, topics_max: int = TOPICS_MAX) -> None:
        self._topics_max: Final = topics_max
        self._topics: WeakValueDictionary[str, TopicTraffic] = WeakValueDictionary()
        self._others = TopicTraffic()

    def of(self, topic: str) -> TopicTraffic:
        """Return the counts of a topic, which are kept for as long as somebody refers to them."""
        found = self._topics.get(topic)
        if found is not None:
            return found
        if len(self._topics) >= self._topics_max:
            return self._others
        made = self._topics[topic] = TopicTraffic()
        return made

    def counts(self) -> Iterator[tuple[str, TopicTraffic]]:
        """Yield the counts by topic."""
        yield from tuple(self._topics.items())
        if self._others.produced_bytes or self._others.fetched_bytes:
            yield OTHER_TOPICS, self._others
