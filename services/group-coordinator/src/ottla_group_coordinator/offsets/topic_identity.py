"""Which topic an offset is of, where a name may have had several topics one after the other; pure.

A commit is stored with the id of the topic that had the name then. A shard's owner is at least as far in the cluster
state as whoever owned the shard before it: that one gave the shard up no later than at the revision that made it
another's. So an id that differs from the one that the name has now is of a topic from before, whether or not anybody
who owned the shard watched its deletion.

Records may lack the id: those of Kafka before 4.1, and those that say when they expire, whose version has no room
for it. Such an offset counts as one of the topic that has its name when the record is read, and goes with that.
If none has it then, the offset is told only until one has. (What no record tells nobody can know: a topic made anew
while nobody owned the shard takes such offsets over.)
"""

from dataclasses import replace

from ottla_core.cluster.state.model import ClusterState
from ottla_group_coordinator.records import NO_UUID, OffsetCommitKey, OffsetCommitValue


def is_of_former_topic(state: ClusterState, topic_name: str, value: OffsetCommitValue) -> bool:
    """Return whether an offset is of a topic that is gone, though there may be another of its name.

    While no topic has the name, only a deletion that was seen counts: what is merely missing keeps its offsets.
    """
    topic = state.topics.get(topic_name)
    if topic is None:
        return value.topic_id in state.deleted_topics
    return topic.id != value.topic_id


def with_topic_id(state: ClusterState, key: OffsetCommitKey, value: OffsetCommitValue) -> OffsetCommitValue:
    """Return an offset with the id of its topic, as far as there is one."""
    if value.topic_id != NO_UUID or (topic := state.topics.get(key.topic)) is None:
        return value
    return replace(value, topic_id=topic.id)
