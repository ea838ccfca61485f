"""Topics, and partitions, of which only the logs are known: made of what lies in the log directories. Pure.

Their settings are lost. So that nothing is deleted before somebody has said what may be, they keep everything.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from ottla.recover.consistency import Contradiction
from ottla.recover.inspected import Inspected
from ottla.recover.partition_rules import Logs, rebuild
from ottla.recover.recovery_draft import RecoveryDraft, changed, topics_in
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.codec import TopicRecord
from ottla_core.cluster.state.model import NO_LEADER, PartitionState
from ottla_core.cluster.state.recovery_facts import LogFacts
from ottla_core.shards import GROUP_TOPIC, TRANSACTION_TOPIC

KEPT_FOR_EVER: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings of a topic whose own are lost: nothing may be deleted before somebody has said what may."""
COORDINATOR_TOPIC_CONFIGS: Mapping[str, Mapping[str, str]] = {
    GROUP_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTION_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known beside logs.

    Attributes:
        topic_ids: of topics that any copy has, or of which it tells the deletion.
        all_sure: every copy is there and sure, so topics that none has were deleted.
        inspected: the brokers that were inspected.
        has_state: there is a copy of the state, so it is known which brokers there were.
        given_up: brokers that are lost for good.
    """

    topic_ids: frozenset[UUID]
    all_sure: bool
    inspected: Inspected
    has_state: bool
    given_up: frozenset[int]


def rebuild_unknown(draft: RecoveryDraft, logs: Mapping[tuple[UUID, int], Logs], known: Known) -> None:
    """Make topics of logs that no copy knows, unless every copy is sure; and partitions that were added since.

    Raises:
        Contradiction: a broker is missing.
    """
    by_topic = defaultdict[UUID, dict[int, Logs]](dict)
    for (topic_id, index), here in logs.items():
        by_topic[topic_id][index] = here
    counts = {record.id: record.partition_count for _, record in topics_in(draft.entries)}
    names = {name for name, _ in topics_in(draft.entries)}
    for topic_id, partitions in sorted(by_topic.items(), key=_newness, reverse=True):
        if topic_id in counts:
            if not known.all_sure and max(partitions) >= counts[topic_id]:
                _extend(draft, topic_id, partitions, known)
            continue
        name = next(log.topic for log in _all_logs(partitions))
        if known.all_sure or topic_id in known.topic_ids:
            draft.notes.append(f"logs of {name} (topic id {topic_id}) are of a deleted topic; they are kept")
        elif name in names:
            draft.notes.append(
                f"logs of {name} (topic id {topic_id}) are of another topic than the one of this name; brokers keep "
                "them aside"
            )
        else:
            names.add(name)
            _rebuild(draft, name, topic_id, partitions, known)


def _newness(topic: tuple[UUID, Mapping[int, Logs]]) -> tuple[int, int, int, UUID]:
    """Order topics: of those of one name the last is the live one, or was so last.

    A name is free for the next topic only when the former one is deleted, so directories of a later one are newer. If
    their times are unknown: what was deleted lies only with brokers that were down then.
    """
    topic_id, partitions = topic
    logs = list(_all_logs(partitions))
    brokers = {broker for here in partitions.values() for broker in here}
    return min(log.created_ms for log in logs), len(brokers), max(log.last_epoch for log in logs), topic_id


def _all_logs(partitions: Mapping[int, Logs]) -> Iterable[LogFacts]:
    return (log for here in partitions.values() for log in here.values())


def _rebuild(draft: RecoveryDraft, name: str, topic_id: UUID, partitions: Mapping[int, Logs], known: Known) -> None:
    configs = COORDINATOR_TOPIC_CONFIGS.get(name, KEPT_FOR_EVER)
    count = 1 + max([*partitions, *(index for topic, index in known.inspected.unread if topic == name)])
    for index in range(count):
        _add_partition(draft, name, (topic_id, index), partitions, known)
    record = TopicRecord(id=topic_id, partition_count=count, configs=configs)
    draft.entries[f"topics/{name}"] = codec.encode_topic(record)
    draft.rebuilt.append(name)
    if name in COORDINATOR_TOPIC_CONFIGS and not known.has_state:
        keeps, setting = (
            ("groups", "offsets.topic.num.partitions")
            if name == GROUP_TOPIC
            else ("transactional ids", "transaction.state.log.num.partitions")
        )
        draft.notes.append(
            f"{name} has {count} partition{'s' * (count > 1)} by its logs. If it had more, {keeps} are looked for in "
            f"other ones than theirs: see that all brokers were inspected, and whether {setting} says the same"
        )


def _extend(draft: RecoveryDraft, topic_id: UUID, partitions: Mapping[int, Logs], known: Known) -> None:
    """Add the partitions that a topic has got since the newest copy."""
    name, record = next((name, record) for name, record in topics_in(draft.entries) if record.id == topic_id)
    for index in range(record.partition_count, max(partitions) + 1):
        _add_partition(draft, name, (topic_id, index), partitions, known)
    key = f"topics/{name}"
    draft.entries[key] = changed(draft.entries[key], {"partitions": max(partitions) + 1})
    draft.notes.append(
        f"{name} has {max(partitions) + 1} partitions by its logs, and {record.partition_count} by its state"
    )


def _add_partition(
    draft: RecoveryDraft, name: str, partition: tuple[UUID, int], of_topic: Mapping[int, Logs], known: Known
) -> None:
    """Make a partition of its logs; where not even these are left, it is begun anew on one of the topic's brokers.

    Raises:
        Contradiction: there is none, and nobody knows which brokers there were.
    """
    topic_id, index = partition
    logs = of_topic.get(index, {})
    about = known.inspected.brokers_of(name, index)
    brokers = sorted({*logs, *about.unread})
    is_begun_anew = not brokers
    if is_begun_anew and not known.has_state and not known.given_up:
        raise Contradiction(
            f"there is no log of {name}-{index}, but of a later partition of {name}: a broker is missing. Inspect "
            "its log directories as well; if it is lost for good, with what it alone had, give it up by "
            "--without-broker ID"
        )
    if is_begun_anew:
        everybody = sorted({broker for here in of_topic.values() for broker in here})
        brokers = [everybody[index % len(everybody)]]
    first = index % len(brokers)  # so that each broker is the preferred leader of some
    state = PartitionState(
        topic_id=topic_id,
        index=index,
        replicas=(*brokers[first:], *brokers[:first]),
        isr=(),
        leader=NO_LEADER,
        leader_epoch=0,
    )
    plan = rebuild(name, state, logs, about)
    if is_begun_anew:
        plan = replace(plan, may_lack_records=bool(known.given_up))
    draft.partitions.append(plan)
    draft.entries[f"partitions/{topic_id}/{index}"] = codec.encode_partition(plan.state)
