"""What both ends of a group relay stream must agree on, besides the messages in ``group_relay.proto``."""

from ottla_core.shards import GROUP_TOPIC, shard_named
from ottla_core.topic_partition import TopicPartition
from ottla_proto.gen.ottla import group_relay_pb2 as pb

BROKER_ID_METADATA = "broker-id"
BROKER_EPOCH_METADATA = "broker-epoch"
"""Names in the call's metadata, by which a broker says who it is; the values are decimal numbers."""

ALL_SHARDS = -1
"""In place of a shard's partition: every shard of the topic that the coordinator owns; for ListGroups."""


def shard_in(message: pb.GroupRequest | pb.LogAppend | pb.LogRead) -> TopicPartition:
    """Return the shard that a message is about."""
    return shard_named(message.topic or GROUP_TOPIC, message.shard)


def topic_field(shard: TopicPartition) -> str:
    """Return what says a shard's topic in a message; empty for the topic that former releases take for granted."""
    return "" if shard.topic == GROUP_TOPIC else shard.topic
