"""Which partitions topics have, and which ids: a topic that is created anew has the name, but another id.

Clusters tell ids from Metadata version 10 on (Kafka 2.8). Where one tells none, its topics are missing in `ids`, and
nothing is concluded from that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from ottla_spark.datasource.offsets import Partition, TopicIds

MISSING = KafkaError.UNKNOWN_TOPIC_OR_PART


@dataclass(frozen=True, slots=True)
class Described:
    """Topics that there are.

    Attributes:
        partitions: all of them.
        ids: by topic, as text; only of a cluster that tells them.
    """

    partitions: frozenset[Partition]
    ids: TopicIds = field(default_factory=dict)


def described(admin: AdminClient, names: Iterable[str], timeout_s: float) -> Described:
    """Return those of the topics that exist.

    Raises:
        KafkaException: no broker answers in time, or it refuses.
    """
    wanted = sorted(names)
    if not wanted:
        return Described(frozenset())
    partitions: set[Partition] = set()
    ids: dict[str, str] = {}
    for name, future in admin.describe_topics(TopicCollection(wanted), request_timeout=timeout_s).items():
        try:
            found = future.result()
        except KafkaException as error:
            if error.args[0].code() != MISSING:
                raise
            continue
        partitions.update((name, each.id) for each in found.partitions)
        if found.topic_id is not None and (
            found.topic_id.get_most_significant_bits() or found.topic_id.get_least_significant_bits()
        ):
            ids[name] = str(found.topic_id)
    return Described(frozenset(partitions), ids)


def replaced_topics(known: Mapping[str, str], found: Mapping[str, str]) -> frozenset[str]:
    """Return the topics that have another id than was known; of one without an id on either side nothing is known."""
    return frozenset(name for name, topic_id in known.items() if found.get(name, topic_id) != topic_id)
