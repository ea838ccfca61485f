"""The state of a cluster from what its brokers have on their disks: which keys etcd is to get. Pure.

1. Facts that contradict each other make no plan (`Contradiction`).
2. The newest copy of the state is taken as a whole: etcd tells everything in order, so each copy is the state of one
   revision. A backup counts as one more copy, though as none that is known to be the newest.
3. Partitions get in-sync sets by `partition_rules`, and no leader: that is elected when brokers have registered.
4. Topics that no copy knows are rebuilt from the logs, unless every copy is sure or one has told of their deletion.
5. Numbers that must never be used again are leapt over: leader epochs, producer ids. Shards are owned under new ones.
6. Registrations say whether a broker may have lost records since the controller attended to it.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from ottla.recover.consistency import Contradiction, check_all_there, check_consistent
from ottla.recover.inspected import Inspected, notes_of
from ottla.recover.partition_rules import Logs, PartitionPlan, settle
from ottla.recover.rebuilding import Known, rebuild_unknown
from ottla.recover.recovery_draft import KEYS, RecoveryDraft, changed, registered_in, topics_in
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.features import UNSAID
from ottla_core.cluster.state.keys import PartitionKey, ShardKey
from ottla_core.cluster.state.model import NO_EPOCH, BrokerRegistration, PartitionState, Recovery
from ottla_core.cluster.state.recovery_facts import BrokerFacts, LogFacts
from ottla_core.cluster.state.state_copy import StateCopy

PRODUCER_ID_LEAP = 1 << 32
"""By so much producer ids are leapt: blocks of them may have been handed out of which no copy knows."""
BELIEVABLE_PRODUCER_ID_MAX = 1 << 62
"""Clients may write any id; none above this was handed out."""
ATTENDED = 0
"""The broker epoch of a registration of which the controller knew everything; below all epochs of the new etcd."""
CLUSTER_NAME_DEFAULT = "ottla"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlan:
    """What is written into etcd, and what is to be known of it.

    Attributes:
        cluster_name: below which name.
        cluster_id: of which cluster.
        newest: the copy that the plan goes by; None if there is none at all.
        entries: the values by key, relative to the cluster's prefix.
        recovery: under which number.
        partitions: what becomes of each partition, in the order of their names.
        rebuilt_topics: topics of which only the logs were known.
        without: brokers that are given up.
        notes: what else is to be known, a sentence each.
        inspected_ms: when the log directories of each broker were inspected.
    """

    cluster_name: str
    cluster_id: str
    newest: StateCopy | None
    entries: Mapping[str, bytes]
    recovery: Recovery
    partitions: tuple[PartitionPlan, ...]
    rebuilt_topics: tuple[str, ...] = ()
    without: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
    inspected_ms: Mapping[int, int] = field(default_factory=dict)


def plan_recovery(
    facts: Sequence[BrokerFacts],
    *,
    backups: Sequence[StateCopy] = (),
    without: frozenset[int] = frozenset(),
    cluster_name: str | None = None,
    now_ms: int,
) -> RecoveryPlan:
    """Return what is to be written.

    Args:
        facts: of each broker.
        backups: further copies of the state.
        without: brokers that are given up.
        cluster_name: the cluster's name in etcd; that of the newest copy by default.
        now_ms: the clock, from which the number of the recovery is taken, so that none is used twice.

    Raises:
        Contradiction: the facts do not go together, or a broker is missing.
        BadValue: the state has a value that this release cannot read.
    """
    check_consistent(facts, backups)
    number = max(now_ms, 1 + max(_recovery_numbers(facts, backups), default=0))
    facts, notes = _without_unfinished(facts)
    backups = [each for each in backups if not _is_unfinished(each)]
    copies = [each.copy for each in facts if each.copy is not None]
    newest = max([*copies, *backups], key=lambda copy: copy.position, default=None)
    if facts:
        check_all_there(facts, newest, without)
    if not facts and not backups:
        raise Contradiction(
            "the backup is of a recovery that was not finished; there is nothing else to recover from"
        )
    draft = RecoveryDraft(
        {} if newest is None else {key: stored.value for key, stored in newest.entries.items()}, notes=notes
    )
    cluster_id = facts[0].cluster_id if facts else backups[0].cluster_id
    inspected = Inspected.of(facts, newest, is_backup=newest is not None and newest not in copies)
    logs = _logs_by_partition(facts)
    _settle_known(draft, logs, inspected)
    known = Known(
        topic_ids=frozenset(topic_id for copy in [*copies, *backups] for topic_id in _topic_ids(copy)),
        all_sure=newest is not None and inspected.present | without == inspected.sure,
        inspected=inspected,
        has_state=newest is not None,
        given_up=without,
    )
    rebuild_unknown(draft, logs, known)
    _release_shards(draft)
    _leap_producer_ids(draft, facts)
    _write_registrations(draft, facts, newest)
    recovery = Recovery(number=number)
    draft.entries["id"] = codec.encode_cluster_id(cluster_id)
    draft.entries["recovery"] = codec.encode_recovery(recovery)
    draft.notes.extend(notes_of(inspected))
    _note_doubts(draft, facts, newest)
    if newest is not None and newest not in copies and facts:
        _note_topics_without_logs(draft, logs)
    return RecoveryPlan(
        cluster_name=cluster_name or (newest.cluster_name if newest is not None else CLUSTER_NAME_DEFAULT),
        cluster_id=cluster_id,
        newest=newest,
        entries=draft.entries,
        recovery=recovery,
        partitions=tuple(sorted(draft.partitions, key=lambda each: (each.topic, each.state.index))),
        rebuilt_topics=tuple(sorted(draft.rebuilt)),
        without=without,
        notes=tuple(draft.notes),
        inspected_ms={each.broker_id: each.inspected_ms for each in facts},
    )


def _without_unfinished(facts: Sequence[BrokerFacts]) -> tuple[list[BrokerFacts], list[str]]:
    """Return facts without copies of recoveries that were not finished, and notes about these."""
    unfinished = {each.broker_id for each in facts if _is_unfinished(each.copy)}
    notes = [
        f"broker {broker}: its copy of the state is of a recovery that was not finished, and is not used"
        for broker in sorted(unfinished)
    ]
    return [
        replace(each, copy=None, copy_is_sure=False) if each.broker_id in unfinished else each for each in facts
    ], notes


def _is_unfinished(copy: StateCopy | None) -> bool:
    return copy is not None and copy.recovery.is_unfinished


def _recovery_numbers(facts: Sequence[BrokerFacts], backups: Sequence[StateCopy]) -> Iterable[int]:
    """Yield the recoveries that are known, by copies, backups, and the shutdown records of directories."""
    for copy in (*backups, *(each.copy for each in facts if each.copy is not None)):
        yield copy.recovery.number
    for each in facts:
        for directory in each.directories:
            yield directory.recovery


def _logs_by_partition(facts: Sequence[BrokerFacts]) -> dict[tuple[UUID, int], dict[int, LogFacts]]:
    """Return the logs by topic id and partition, and broker; of a partition in two directories the longer log."""
    found = defaultdict[tuple[UUID, int], dict[int, LogFacts]](dict)
    for each in facts:
        for log in (log for directory in each.directories for log in directory.logs):
            if log.topic_id is None:
                continue
            here = found[log.topic_id, log.index]
            former = here.get(each.broker_id)
            if former is None or (former.last_epoch, former.end_offset) < (log.last_epoch, log.end_offset):
                here[each.broker_id] = log
    return dict(found)


def _topic_ids(copy: StateCopy) -> Iterable[UUID]:
    yield from copy.deleted_topics
    for _, record in topics_in({key: stored.value for key, stored in copy.entries.items()}):
        yield record.id


def _settle_known(
    draft: RecoveryDraft,
    logs: Mapping[tuple[UUID, int], Logs],
    inspected: Inspected,
) -> None:
    """Give every partition of the newest state an in-sync set; partitions that no topic counts are left out."""
    names = {record.id: (name, record) for name, record in topics_in(draft.entries)}
    for key, value in tuple(draft.entries.items()):
        match KEYS.parse(KEYS.prefix + key):
            case PartitionKey(topic_id, index) as parsed:
                if topic_id not in names or index >= names[topic_id][1].partition_count:
                    del draft.entries[key]
                    continue
                state = codec.decode_partition(parsed, value, 0)
                topic = names[topic_id][0]
                plan = settle(
                    topic,
                    state,
                    logs.get((topic_id, index), {}),
                    brokers=inspected.brokers_of(topic, index),
                    sure=inspected.sure.issuperset(state.replicas),
                )
                if plan.former_replicas is not None:
                    draft.notes.append(
                        f"{topic}-{index} had the replicas {_listed(plan.former_replicas)}; by the logs, and by who "
                        f"may lead, it has {_listed(plan.state.replicas)} now"
                    )
                draft.partitions.append(plan)
                draft.entries[key] = changed(value, _fields_of(plan.state))


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))


def _fields_of(state: PartitionState) -> Mapping[str, object]:
    fields: Mapping[str, object] = json.loads(codec.encode_partition(state))
    return fields


def _release_shards(draft: RecoveryDraft) -> None:
    """Let shards be owned as for the first time, under producer ids above the leap.

    The state may lack an ownership that has written. The next producer epoch of the id that it knows would be that
    one's; the log would take the new owner's batches for repetitions.
    """
    for key in tuple(draft.entries):
        match KEYS.parse(KEYS.prefix + key):
            case ShardKey():
                del draft.entries[key]


def _leap_producer_ids(draft: RecoveryDraft, facts: Sequence[BrokerFacts]) -> None:
    stored = draft.entries.get("producer-ids")
    counted = codec.decode_next_producer_id(stored) if stored is not None else 0
    in_logs = (
        log.highest_producer_id + 1
        for each in facts
        for directory in each.directories
        for log in directory.logs
        if log.highest_producer_id <= BELIEVABLE_PRODUCER_ID_MAX
    )
    draft.entries["producer-ids"] = codec.encode_next_producer_id(
        max(counted, max(in_logs, default=0)) + PRODUCER_ID_LEAP
    )


def _write_registrations(draft: RecoveryDraft, facts: Sequence[BrokerFacts], newest: StateCopy | None) -> None:
    """Say of each broker whether it may have lost records since the controller attended to it.

    etcd counts broker epochs anew, and so do the brokers' shutdown records after a recovery: a broker that has lost
    nothing registers with `intact_since` 0. The controller takes a broker for one after an unclean shutdown if it
    remembers an earlier epoch than that. So a registration gets the epoch 0, or -1 if records may be lost, or if
    nobody can tell, as the broker is away. Without any facts, as for a backup alone, all count as attended to.
    """
    registered = registered_in(newest)
    recovery = newest.recovery.number if newest is not None else 0
    by_broker = {each.broker_id: each for each in facts}
    for broker_id in sorted(registered.keys() | by_broker.keys()):
        found, former = by_broker.get(broker_id), registered.get(broker_id)
        attended = former.broker_epoch if former is not None else ATTENDED
        was_lost = (
            found is None
            or found.was_unclean
            or any(each.recovery == recovery and each.intact_since > attended for each in found.directories)
        )
        epoch = NO_EPOCH if facts and (was_lost or attended == NO_EPOCH) else ATTENDED
        if former is None:
            assert found is not None
            ids = tuple(each.directory_id for each in found.directories if each.directory_id is not None)
            former = BrokerRegistration(broker_id=broker_id, broker_epoch=epoch, directory_ids=ids, features=UNSAID)
        draft.entries[f"registrations/{broker_id}"] = codec.encode_registration(replace(former, broker_epoch=epoch))


def _note_topics_without_logs(draft: RecoveryDraft, logs: Mapping[tuple[UUID, int], Logs]) -> None:
    """Say which topics of a backup nobody has."""
    with_logs = {topic_id for topic_id, _ in logs}
    if names := sorted(name for name, record in topics_in(draft.entries) if record.id not in with_logs):
        draft.notes.append(
            f"nobody has a log of {', '.join(names)}, which the backup has. If they were deleted since, delete them "
            "again: they come back without records"
        )


def _note_doubts(draft: RecoveryDraft, facts: Sequence[BrokerFacts], newest: StateCopy | None) -> None:
    """Say what the plan could not go by."""
    for each in facts:
        for directory in each.directories:
            draft.notes.extend(f"broker {each.broker_id}: {problem}" for problem in directory.problems)
            unknown = sum(log.topic_id is None for log in directory.logs)
            if unknown:
                draft.notes.append(
                    f"{directory.path} has {unknown} logs of which the topic is unknown; they are kept"
                )
            if directory.copy_problem is not None:
                draft.notes.append(
                    f"broker {each.broker_id}: the copy of the state in {directory.path} may not be the newest: "
                    f"{directory.copy_problem}"
                )
    if newest is not None and not all(each.copy_is_sure for each in facts):
        draft.notes.append(
            "settings, access control lists, users, delegation tokens and quotas are those of the newest copy. They "
            "may have changed since, so look through them before clients come back"
        )
    if newest is None:
        draft.notes.append(
            "there is no copy of the state: settings of brokers and groups, links, access control lists, users, "
            "delegation tokens, quotas, and levels of features are lost. What was linked to another cluster is "
            "written here from now on"
        )
        draft.notes.append(
            f"whether brokers are missing cannot be told without a copy; inspected were those with the ids "
            f"{_listed(each.broker_id for each in facts)}"
        )
