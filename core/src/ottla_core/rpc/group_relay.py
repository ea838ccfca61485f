"""What both ends of a group relay stream must agree on, besides the messages in ``group_relay.proto``."""

import re
from collections.abc import Mapping
from typing import Final

from ottla_core.shards import GROUP_TOPIC, shard_named
from ottla_core.topic_partition import TopicPartition
from ottla_proto.gen.ottla import group_relay_pb2 as pb

BROKER_ID_METADATA = "broker-id"
BROKER_EPOCH_METADATA = "broker-epoch"
"""Names in the call's metadata, by which a broker says who it is; the values are decimal numbers."""
_NUMBER: Final = re.compile(r"[0-9]{1,19}")

ALL_SHARDS = -1
"""In place of a shard's partition: every shard of the topic that the coordinator owns; for ListGroups."""


def number_in(metadata: Mapping[str, str | bytes], name: str) -> int | None:
    """Return a number in a call's metadata, or None if there is none.

    The guard of calls and the relay read it here: a number that one of them reads in another way
    would let a broker speak for another one.
    """
    text = metadata.get(name)
    return int(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else None


def broker_of_stream(_request: object, metadata: Mapping[str, str | bytes]) -> int | None:
    """Return the broker that a stream says it is of, or None if it says none."""
    return number_in(metadata, BROKER_ID_METADATA)


def shard_in(message: pb.GroupRequest | pb.LogAppend | pb.LogRead) -> TopicPartition:
    """Return the shard that a message is about."""
    return shard_named(message.topic or GROUP_TOPIC, message.shard)


def topic_field(shard: TopicPartition) -> str:
    """Return what says a shard's topic in a message; empty for the topic that former releases take for granted."""
    return "" if shard.topic == GROUP_TOPIC else shard.topic
