"""How `ClusterState` advances with the changes that etcd reports; no etcd client in sight. Pure.

`StateTracker` remembers every topic record and partition it was told of and publishes, after each group of changes
that etcd reported together, one new immutable `ClusterState`. A topic is visible only while its record and all the
partitions it counts are there: the controller writes partitions first and the record last, and deletes in the
opposite order, so nobody sees half a topic. What did not change keeps its identity (`is`) from one state to the
next, so that a listener can skip it cheaply.

A deletion that was seen is told apart from a topic that a new listing merely lacks (`ClusterState.deleted_topics`),
and a topic that is stored in part from one that is not there at all (`ClusterState.incomplete_topics`).
A value that cannot be read leaves what was known under its key; of an access control list of which nothing is known,
everybody is denied what it may be about. And nothing is taken from an etcd that was emptied,
or that holds another cluster by now: `ClusterReplaced`.

The cost of a change is that of copying the top-level mappings plus the topics that it touches.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self
from uuid import UUID

from ottla_core.cluster.etcd.key_value import KeyChange, KeyValue
from ottla_core.cluster.state import codec, security_changes
from ottla_core.cluster.state.codec import TopicRecord
from ottla_core.cluster.state.features import FinalizedFeatures
from ottla_core.cluster.state.json_fields import BadValue
from ottla_core.cluster.state.keys import (
    AclKey,
    BrokerConfigKey,
    ClientMetricsConfigKey,
    ClientQuotaKey,
    ClusterIdKey,
    ControllerKey,
    DelegationTokenKey,
    FeaturesKey,
    GroupConfigKey,
    KeySpace,
    LinkKey,
    MemberKey,
    PartitionKey,
    ProducerIdsKey,
    RecoveryKey,
    RegistrationKey,
    ScramCredentialKey,
    ShardKey,
    TopicKey,
)
from ottla_core.cluster.state.mappings import keep_identity, with_entry
from ottla_core.cluster.state.model import ClusterState, Member, PartitionState, Recovery, Role, Shard, Topic
from ottla_core.errors import OttlaError
from ottla_core.shards import SHARDED_TOPICS
from ottla_core.topic_partition import TopicPartition

DELETIONS_REMEMBERED_MAX = 20_000
"""How many of the latest deletions of topics a state names."""


class ClusterReplaced(OttlaError):
    """etcd holds another cluster than before, none at all, or an earlier state of this one; the process must end."""


@dataclass(frozen=True, slots=True)
class _StoredTopic:
    name: str
    record: TopicRecord
    mod_revision: int


@dataclass(slots=True)
class _Touched:
    """What one group of changes has touched: topics to rebuild, for each the partitions that changed; deletions."""

    partitions: dict[UUID, set[int]] = field(default_factory=dict)
    records: set[UUID] = field(default_factory=set)
    deleted: dict[UUID, int] = field(default_factory=dict)

    @property
    def topic_ids(self) -> Iterable[UUID]:
        return self.partitions.keys() | self.records


class StateTracker:
    """The state so far; `advance` moves it on.

    Args:
        key_space: the cluster's keys.
        cluster_id: the id of the only cluster whose state may be followed; "" to take the first one that is told.

    Attributes:
        state: the newest published state.
    """

    def __init__(self, key_space: KeySpace, cluster_id: str = "") -> None:
        self.state = ClusterState(cluster_id=cluster_id)
        self._key_space = key_space
        self._topics: dict[UUID, _StoredTopic] = {}
        self._topic_ids: dict[str, UUID] = {}
        self._partitions: dict[UUID, dict[int, PartitionState]] = {}
        self._unreadable_topics: set[str] = set()

    def advance(self, changes: Sequence[KeyChange], revision: int) -> list[BadValue]:
        """Apply changes that belong together and publish the state of `revision`.

        Returns:
            The values that could not be read. Each is treated as if its key had not changed.

        Raises:
            ClusterReplaced: the cluster id has changed or gone; nothing was applied.
        """
        self.check_changes(changes)
        return self._apply_all(changes, revision, known=None)

    def reload(self, entries: Sequence[KeyValue], revision: int) -> list[BadValue]:
        """Forget everything and publish the state that a complete listing at `revision` describes.

        Objects that come out equal keep their identity. Topics that the listing lacks are not `deleted_topics`.

        Returns:
            The values that could not be read. Each is treated as if its key had not changed.

        Raises:
            ClusterReplaced: the cluster id has changed or gone, or the revision has gone back; nothing was applied.
        """
        before = self.state
        self.check_listing(entries, revision)
        fresh = StateTracker(self._key_space)
        bad_values = fresh._apply_all(entries, revision, known=self)
        after = fresh.state
        topics = keep_identity(before.topics, after.topics)
        fresh.state = replace(
            after,
            brokers=keep_identity(before.brokers, after.brokers),
            controllers=keep_identity(before.controllers, after.controllers),
            coordinators=keep_identity(before.coordinators, after.coordinators),
            registrations=keep_identity(before.registrations, after.registrations),
            topics=topics,
            topics_by_id={topic.id: topic for topic in topics.values()},
            shards=keep_identity(before.shards, after.shards),
            broker_configs=keep_identity(before.broker_configs, after.broker_configs),
            group_configs=keep_identity(before.group_configs, after.group_configs),
            client_metrics_configs=keep_identity(before.client_metrics_configs, after.client_metrics_configs),
            links=keep_identity(before.links, after.links),
            security=security_changes.keep_identities(before.security, after.security),
            deleted_topics={i: at for i, at in before.deleted_topics.items() if i not in fresh._topics},
        )
        self.state = fresh.state
        self._topics, self._topic_ids, self._partitions = fresh._topics, fresh._topic_ids, fresh._partitions
        self._unreadable_topics = fresh._unreadable_topics
        return bad_values

    def orphans(self) -> list[PartitionState]:
        """Return partitions that no topic counts: what is left of a creation or deletion that was cut short.

        None is returned while a topic's record cannot be read: it may be the one that counts them.
        """
        if self._unreadable_topics:
            return []
        return [
            partition
            for topic_id, partitions in self._partitions.items()
            for partition in partitions.values()
            if (stored := self._topics.get(topic_id)) is None or partition.index >= stored.record.partition_count
        ]

    def orphan_shards(self) -> list[Shard]:
        """Return shards that their topic does not count: what is left of a deletion that was cut short.

        None of a topic is returned while the topic's record cannot be read.
        """
        counts = {
            topic: self._partition_count(topic) for topic in SHARDED_TOPICS if topic not in self._unreadable_topics
        }
        return [
            shard for (topic, index), shard in self.state.shards.items() if topic in counts and index >= counts[topic]
        ]

    def _partition_count(self, topic: str) -> int:
        topic_id = self._topic_ids.get(topic)
        return 0 if topic_id is None else self._topics[topic_id].record.partition_count

    def check_listing(self, entries: Sequence[KeyValue], revision: int) -> None:
        """See that a complete listing can be of the cluster that is known, at a later time.

        Raises:
            ClusterReplaced: the cluster id or the recovery has changed or gone, or the revision has gone back.
        """
        if revision < self.state.revision:
            raise ClusterReplaced(
                f"etcd is at revision {revision}, this process has seen {self.state.revision}: "
                "was etcd restored or emptied?"
            )
        self.check_changes(entries, complete=True)
        self.check_recovery(next((entry for entry in entries if entry.key == self._key_space.recovery), None))

    def check_changes(self, changes: Sequence[KeyChange], *, complete: bool = False) -> None:
        """See that changes leave the cluster id as it is known; a `complete` listing has to have it.

        Raises:
            ClusterReplaced: they do not.
        """
        found = [change for change in changes if change.key == self._key_space.cluster_id]
        for change in found:
            self.check_cluster_id(change)
        if complete and not found:
            self.check_cluster_id(None)

    def check_cluster_id(self, entry: KeyChange | None) -> None:
        """See that the key of the cluster id, None if it is absent, still holds the id that is known.

        Raises:
            ClusterReplaced: it does not.
        """
        if not self.state.cluster_id:
            return
        try:
            found = codec.decode_cluster_id(entry.value) if isinstance(entry, KeyValue) else "none"
        except BadValue:
            return  # reported when it is applied
        if found != self.state.cluster_id:
            raise ClusterReplaced(
                f"this process belongs to the cluster {self.state.cluster_id}, but the cluster id in etcd is "
                f"{found}: was etcd restored or emptied?"
            )

    def check_recovery(self, entry: KeyValue | None) -> None:
        """See that the key of the last recovery, None if it is absent, holds the one that is known.

        A recovery makes a new etcd with the same cluster id. What was seen of the former one cannot be continued
        there: revisions and epochs are others.

        Raises:
            ClusterReplaced: it does not.
        """
        known = self.state.recovery
        if not self.state.revision or not self.state.cluster_id:
            return
        try:
            found = Recovery() if entry is None else codec.decode_recovery(entry.value)
        except BadValue:
            return  # reported when it is applied
        if not known.is_unfinished and found.number != known.number:
            raise ClusterReplaced(
                f"the state of cluster {self.state.cluster_id} in etcd is that of recovery {found.number}, and this "
                f"process has followed that of recovery {known.number}"
            )

    def _apply_all(self, changes: Sequence[KeyChange], revision: int, *, known: Self | None) -> list[BadValue]:
        """Apply changes; where a value cannot be read, take over what `known` has under its key."""
        touched = _Touched()
        bad_values: list[BadValue] = []
        draft = self.state
        for change in changes:
            try:
                draft = self._apply(draft, change, touched)
            except BadValue as error:
                bad_values.append(error)
                key = self._key_space.parse(change.key)
                if isinstance(key, TopicKey):
                    self._unreadable_topics.add(key.name)
                if known is not None:
                    draft = self._take_over(draft, change.key, known, touched)
                if isinstance(key, AclKey) and isinstance(change, KeyValue):
                    security = security_changes.with_unreadable_acl(draft.security, key, change.value)
                    draft = replace(draft, security=security)
        draft = replace(draft, deleted_topics=self._deleted_topics(touched))
        draft = self._with_topics_rebuilt(draft, touched)
        self.state = replace(draft, revision=revision, incomplete_topics=self._incomplete_topics(draft, touched))
        return bad_values

    def _take_over(self, draft: ClusterState, key_text: str, known: Self, touched: _Touched) -> ClusterState:
        """Let a key hold what it held in another tracker."""
        former = known.state
        match self._key_space.parse(key_text):
            case PartitionKey(topic_id, index) as key:
                partition = known._partitions.get(topic_id, {}).get(index)
                self._put_partition(key, partition, touched)
            case TopicKey(name):
                if (known_id := known._topic_ids.get(name)) is not None:
                    self._put_topic(known._topics[known_id], touched)
            case MemberKey() as key:
                return _with_member(draft, key, _members(former, key.role).get(key.id))
            case RegistrationKey(broker_id):
                registration = former.registrations.get(broker_id)
                return replace(draft, registrations=with_entry(draft.registrations, broker_id, registration))
            case ShardKey(topic, index) if topic in SHARDED_TOPICS:
                shard = TopicPartition(topic, index)
                return replace(draft, shards=with_entry(draft.shards, shard, former.shards.get(shard)))
            case ControllerKey() | ClusterIdKey() | FeaturesKey() | RecoveryKey() as key:
                return _with_former_single(draft, key, former)
            case BrokerConfigKey() | GroupConfigKey() | ClientMetricsConfigKey() | LinkKey() as key:
                return _with_former_administered(draft, key, former)
            case AclKey() | ScramCredentialKey() | DelegationTokenKey() | ClientQuotaKey() as key:
                return replace(draft, security=security_changes.with_former(draft.security, key, former.security))
            case ShardKey() | ProducerIdsKey() | None:
                pass
        return draft

    def _apply(self, draft: ClusterState, change: KeyChange, touched: _Touched) -> ClusterState:
        entry = change if isinstance(change, KeyValue) else None
        match self._key_space.parse(change.key):
            case PartitionKey() as key:
                partition = codec.decode_partition(key, entry.value, entry.mod_revision) if entry else None
                self._put_partition(key, partition, touched)
            case TopicKey(name):
                if entry is not None:
                    record = codec.decode_topic(name, entry.value)
                    self._put_topic(_StoredTopic(name, record, entry.mod_revision), touched)
                elif (topic_id := self._forget_topic(name, touched)) is not None:
                    touched.deleted[topic_id] = change.mod_revision
                self._unreadable_topics.discard(name)
            case MemberKey() as key:
                member = codec.decode_member(key, entry.value, entry.create_revision) if entry else None
                return _with_member(draft, key, member)
            case RegistrationKey(broker_id) as key:
                registration = codec.decode_registration(key, entry.value, entry.mod_revision) if entry else None
                return replace(draft, registrations=with_entry(draft.registrations, broker_id, registration))
            case ShardKey(topic, index) as key if topic in SHARDED_TOPICS:
                shard = codec.decode_shard(key, entry.value, entry.mod_revision) if entry else None
                return replace(draft, shards=with_entry(draft.shards, TopicPartition(topic, index), shard))
            case ControllerKey() | ClusterIdKey() | FeaturesKey() | RecoveryKey() as key:
                return _with_single(draft, key, entry)
            case BrokerConfigKey() | GroupConfigKey() | ClientMetricsConfigKey() | LinkKey() as key:
                return _with_administered(draft, key, entry)
            case AclKey() | ScramCredentialKey() | DelegationTokenKey() | ClientQuotaKey() as key:
                return replace(draft, security=security_changes.with_change(draft.security, key, entry))
            case ShardKey() | ProducerIdsKey() | None:
                pass
        return draft

    def _put_partition(self, key: PartitionKey, partition: PartitionState | None, touched: _Touched) -> None:
        if partition is not None:
            self._partitions.setdefault(key.topic_id, {})[key.index] = partition
        elif (partitions := self._partitions.get(key.topic_id)) is not None:
            partitions.pop(key.index, None)
            if not partitions:
                del self._partitions[key.topic_id]
        touched.partitions.setdefault(key.topic_id, set()).add(key.index)

    def _put_topic(self, topic: _StoredTopic, touched: _Touched) -> None:
        self._forget_topic(topic.name, touched)
        self._topics[topic.record.id] = topic
        self._topic_ids[topic.name] = topic.record.id
        touched.records.add(topic.record.id)

    def _forget_topic(self, name: str, touched: _Touched) -> UUID | None:
        topic_id = self._topic_ids.pop(name, None)
        if topic_id is not None:
            del self._topics[topic_id]
            touched.records.add(topic_id)
        return topic_id

    def _deleted_topics(self, touched: _Touched) -> Mapping[UUID, int]:
        former = self.state.deleted_topics
        restored = {topic_id for topic_id in touched.records if topic_id in former and topic_id in self._topics}
        if not touched.deleted and not restored:
            return former
        deleted = {**former, **touched.deleted}
        kept = [(topic_id, revision) for topic_id, revision in deleted.items() if topic_id not in self._topics]
        return dict(kept[-DELETIONS_REMEMBERED_MAX:])

    def _incomplete_topics(self, draft: ClusterState, touched: _Touched) -> frozenset[str]:
        stored = {self._topics[topic_id].name for topic_id in touched.topic_ids if topic_id in self._topics}
        return frozenset(
            name
            for name in draft.incomplete_topics | stored | self._unreadable_topics
            if name not in draft.topics and (name in self._topic_ids or name in self._unreadable_topics)
        )

    def _with_topics_rebuilt(self, draft: ClusterState, touched: _Touched) -> ClusterState:
        rebuilt = {topic_id: self._rebuild(draft, topic_id, touched) for topic_id in touched.topic_ids}
        rebuilt = {
            topic_id: topic for topic_id, topic in rebuilt.items() if topic is not draft.topics_by_id.get(topic_id)
        }
        if not rebuilt:
            return draft
        by_id = dict(draft.topics_by_id)
        by_name = dict(draft.topics)
        for topic_id in rebuilt:
            former = by_id.pop(topic_id, None)
            if former is not None:
                del by_name[former.name]
        for topic in rebuilt.values():
            if topic is not None:
                by_id[topic.id] = by_name[topic.name] = topic
        return replace(draft, topics=by_name, topics_by_id=by_id)

    def _rebuild(self, draft: ClusterState, topic_id: UUID, touched: _Touched) -> Topic | None:
        """Return a topic as it is now, or None while it is incomplete or gone."""
        stored = self._topics.get(topic_id)
        if stored is None:
            return None
        count = stored.record.partition_count
        known = self._partitions.get(topic_id, {})
        former = draft.topics_by_id.get(topic_id)
        if former is not None and topic_id not in touched.records:
            changed = [index for index in touched.partitions[topic_id] if index < count]
            if not changed:
                return former
            partitions: list[PartitionState | None] = list(former.partitions)
            for index in changed:
                partitions[index] = known.get(index)
        else:
            partitions = [known.get(index) for index in range(count)]
        complete = tuple(partition for partition in partitions if partition is not None)
        if len(complete) != count:
            return None
        return Topic(
            name=stored.name,
            id=topic_id,
            partitions=complete,
            configs=stored.record.configs,
            origin=stored.record.origin,
            mod_revision=stored.mod_revision,
        )


def _members(state: ClusterState, role: Role) -> Mapping[int, Member]:
    match role:
        case Role.BROKER:
            return state.brokers
        case Role.CONTROLLER:
            return state.controllers
        case Role.GROUP_COORDINATOR:
            return state.coordinators


def _with_member(draft: ClusterState, key: MemberKey, member: Member | None) -> ClusterState:
    members = with_entry(_members(draft, key.role), key.id, member)
    match key.role:
        case Role.BROKER:
            return replace(draft, brokers=members)
        case Role.CONTROLLER:
            return replace(draft, controllers=members)
        case Role.GROUP_COORDINATOR:
            return replace(draft, coordinators=members)


def _with_single(
    draft: ClusterState, key: ControllerKey | ClusterIdKey | FeaturesKey | RecoveryKey, entry: KeyValue | None
) -> ClusterState:
    """Return the state with what stands under a key of which there is one."""
    match key:
        case ControllerKey():
            leader = codec.decode_controller(entry.value, entry.create_revision) if entry else None
            return replace(draft, controller=leader)
        case ClusterIdKey():
            return replace(draft, cluster_id=codec.decode_cluster_id(entry.value) if entry else "")
        case FeaturesKey():
            features = codec.decode_features(entry.value, entry.mod_revision) if entry else FinalizedFeatures()
            return replace(draft, features=features)
        case RecoveryKey():
            return replace(draft, recovery=codec.decode_recovery(entry.value) if entry else Recovery())


def _with_former_single(
    draft: ClusterState, key: ControllerKey | ClusterIdKey | FeaturesKey | RecoveryKey, former: ClusterState
) -> ClusterState:
    """Return the state with what another one has under a key of which there is one."""
    match key:
        case ControllerKey():
            return replace(draft, controller=former.controller)
        case ClusterIdKey():
            return replace(draft, cluster_id=former.cluster_id)
        case FeaturesKey():
            return replace(draft, features=former.features)
        case RecoveryKey():
            return replace(draft, recovery=former.recovery)


def _with_administered(
    draft: ClusterState,
    key: BrokerConfigKey | GroupConfigKey | ClientMetricsConfigKey | LinkKey,
    entry: KeyValue | None,
) -> ClusterState:
    """Return the state with what administrators have set or made under a key."""
    match key:
        case BrokerConfigKey(broker_id):
            configs = codec.decode_config(entry.value) if entry else None
            return replace(draft, broker_configs=with_entry(draft.broker_configs, broker_id, configs))
        case GroupConfigKey(group_id):
            configs = codec.decode_config(entry.value) if entry else None
            return replace(draft, group_configs=with_entry(draft.group_configs, group_id, configs))
        case ClientMetricsConfigKey(name):
            configs = codec.decode_config(entry.value) if entry else None
            return replace(draft, client_metrics_configs=with_entry(draft.client_metrics_configs, name, configs))
        case LinkKey(name):
            link = codec.decode_link(key, entry.value, entry.mod_revision) if entry else None
            return replace(draft, links=with_entry(draft.links, name, link))


def _with_former_administered(
    draft: ClusterState,
    key: BrokerConfigKey | GroupConfigKey | ClientMetricsConfigKey | LinkKey,
    former: ClusterState,
) -> ClusterState:
    """Return the state with what another one has of what administrators have set or made under a key."""
    match key:
        case BrokerConfigKey(broker_id):
            configs = former.broker_configs.get(broker_id)
            return replace(draft, broker_configs=with_entry(draft.broker_configs, broker_id, configs))
        case GroupConfigKey(group_id):
            configs = former.group_configs.get(group_id)
            return replace(draft, group_configs=with_entry(draft.group_configs, group_id, configs))
        case ClientMetricsConfigKey(name):
            configs = former.client_metrics_configs.get(name)
            return replace(draft, client_metrics_configs=with_entry(draft.client_metrics_configs, name, configs))
        case LinkKey(name):
            return replace(draft, links=with_entry(draft.links, name, former.links.get(name)))
