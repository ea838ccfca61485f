"""Topics, and partitions, of which only the logs are known: made of what lies in the log directories. Pure.

Their settings are lost. So that nothing is deleted before somebody has said what may be, they keep everything.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

from ottla.recover.partition_rules import Logs, rebuild
from ottla.recover.recovery_draft import RecoveryDraft, changed, topics_in
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.codec import TopicRecord
from ottla_core.cluster.state.model import NO_LEADER, PartitionState
from ottla_core.shards import GROUP_TOPIC

KEPT_FOR_EVER: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings of a topic whose own are lost: nothing may be deleted before somebody has said what may."""
GROUP_TOPIC_CONFIGS: Mapping[str, str] = {"cleanup.policy": "compact", "compression.type": "producer"}


def rebuild_unknown(
    draft: RecoveryDraft, logs: Mapping[tuple[UUID, int], Logs], known_ids: set[UUID], *, all_sure: bool
) -> None:
    """Make topics of logs that no copy knows, unless every copy is sure; and partitions that were added since."""
    by_topic = defaultdict[UUID, dict[int, Logs]](dict)
    for (topic_id, index), here in logs.items():
        by_topic[topic_id][index] = here
    counts = {record.id: record.partition_count for _, record in topics_in(draft.entries)}
    names = {name for name, _ in topics_in(draft.entries)}
    for topic_id, partitions in sorted(by_topic.items(), key=lambda each: each[0]):
        if topic_id in counts:
            if not all_sure and max(partitions) >= counts[topic_id]:
                _extend(draft, topic_id, partitions)
            continue
        name = next(iter(partitions.values()))[next(iter(next(iter(partitions.values()))))].topic
        if all_sure or topic_id in known_ids:
            draft.notes.append(f"logs of {name} (topic id {topic_id}) are of a deleted topic; they are kept")
        elif name in names:
            draft.notes.append(
                f"logs of {name} (topic id {topic_id}) are of another topic than the one of this name; brokers keep "
                "them aside"
            )
        else:
            names.add(name)
            _rebuild(draft, name, topic_id, partitions)


def _rebuild(draft: RecoveryDraft, name: str, topic_id: UUID, partitions: Mapping[int, Logs]) -> None:
    configs = GROUP_TOPIC_CONFIGS if name == GROUP_TOPIC else KEPT_FOR_EVER
    count = max(partitions) + 1
    everybody = sorted({broker for here in partitions.values() for broker in here})
    for index in range(count):
        _add_partition(draft, name, (topic_id, index), partitions.get(index, {}), everybody)
    record = TopicRecord(id=topic_id, partition_count=count, configs=configs)
    draft.entries[f"topics/{name}"] = codec.encode_topic(record)
    draft.rebuilt.append(name)


def _extend(draft: RecoveryDraft, topic_id: UUID, partitions: Mapping[int, Logs]) -> None:
    """Add the partitions that a topic has got since the newest copy."""
    name, record = next((name, record) for name, record in topics_in(draft.entries) if record.id == topic_id)
    everybody = sorted({broker for here in partitions.values() for broker in here})
    for index in range(record.partition_count, max(partitions) + 1):
        _add_partition(draft, name, (topic_id, index), partitions.get(index, {}), everybody)
    key = f"topics/{name}"
    draft.entries[key] = changed(draft.entries[key], {"partitions": max(partitions) + 1})
    draft.notes.append(
        f"{name} has {max(partitions) + 1} partitions by its logs, and {record.partition_count} by its state"
    )


def _add_partition(
    draft: RecoveryDraft, name: str, partition: tuple[UUID, int], logs: Logs, everybody: Sequence[int]
) -> None:
    """Make a partition of its logs; where not even these are left, it is begun anew on one of the topic's brokers."""
    topic_id, index = partition
    brokers = sorted(logs) or [everybody[index % len(everybody)]]
    first = index % len(brokers)  # so that each broker is the preferred leader of some
    state = PartitionState(
        topic_id=topic_id,
        index=index,
        replicas=(*brokers[first:], *brokers[:first]),
        isr=(),
        leader=NO_LEADER,
        leader_epoch=0,
    )
    plan = rebuild(name, state, logs)
    draft.partitions.append(plan)
    draft.entries[f"partitions/{topic_id}/{index}"] = codec.encode_partition(plan.state)
