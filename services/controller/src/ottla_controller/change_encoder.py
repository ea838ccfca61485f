"""The objects of cluster state as writes of their keys.

Each write replaces the revision that the object carries, so it fails if somebody else has written the key since.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ottla_controller.fenced_writer import Write
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.codec import TopicRecord
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import BrokerRegistration, Link, Member, PartitionState, Shard, Topic


@dataclass(frozen=True, slots=True)
class ChangeEncoder:
    """Writes below one cluster's keys."""

    keys: KeySpace

    def creation(self, topic: Topic) -> list[Write]:
        """Return what creates a topic: its partitions, then the record that makes it visible."""
        return [*(self.partition(partition) for partition in topic.partitions), self.topic(topic)]

    def deletion(self, topic: Topic, shards: Iterable[Shard]) -> list[Write]:
        """Return what deletes a topic: its record, then the partitions and the shards of these."""
        return [
            Write(key=self.keys.topic(topic.name), value=None, replaces=topic.mod_revision),
            *(self.partition_deletion(partition) for partition in topic.partitions),
            *(self.shard_deletion(shard) for shard in shards),
        ]

    def topic(self, topic: Topic) -> Write:
        """Return the write of a topic's own record."""
        record = TopicRecord(
            id=topic.id, partition_count=len(topic.partitions), configs=topic.configs, origin=topic.origin
        )
        return Write(key=self.keys.topic(topic.name), value=codec.encode_topic(record), replaces=topic.mod_revision)

    def partition(self, partition: PartitionState, joining: Iterable[Member] = ()) -> Write:
        """Return the write of a partition.

        Args:
            partition: its state.
            joining: brokers that become in-sync. They must still be registered as they are here: what the leader
                knows of one that has come back since may be on a disk that is lost.
        """
        return Write(
            key=self.keys.partition(partition.topic_id, partition.index),
            value=codec.encode_partition(partition),
            replaces=partition.partition_epoch,
            depends_on=tuple((self.keys.member(member.role, member.id), member.epoch) for member in joining),
        )

    def partition_deletion(self, partition: PartitionState) -> Write:
        """Return the deletion of a partition."""
        key = self.keys.partition(partition.topic_id, partition.index)
        return Write(key=key, value=None, replaces=partition.partition_epoch)

    def shard(self, shard: Shard) -> Write:
        """Return the write of a shard's ownership."""
        key = self.keys.shard(*shard.topic_partition)
        return Write(key=key, value=codec.encode_shard(shard), replaces=shard.revision)

    def shard_deletion(self, shard: Shard) -> Write:
        """Return the deletion of a shard's ownership."""
        return Write(key=self.keys.shard(*shard.topic_partition), value=None, replaces=shard.revision)

    def link(self, link: Link) -> Write:
        """Return the write of a link."""
        return Write(key=self.keys.link(link.name), value=codec.encode_link(link), replaces=link.revision)

    def link_deletion(self, link: Link) -> Write:
        """Return the write that forgets a link."""
        return Write(key=self.keys.link(link.name), value=None, replaces=link.revision)

    def registration(self, registration: BrokerRegistration) -> Write:
        """Return the write of what is remembered of a broker."""
        return Write(
            key=self.keys.registration(registration.broker_id),
            value=codec.encode_registration(registration),
            replaces=registration.revision,
        )

    def registration_deletion(self, registration: BrokerRegistration) -> Write:
        """Return the write that forgets a broker."""
        key = self.keys.registration(registration.broker_id)
        return Write(key=key, value=None, replaces=registration.revision)
