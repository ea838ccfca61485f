"""A fake etcd: linearizable keys with revisions, transactions, leases, and watches that lag.

It is one process, for what the cluster sees of etcd's members is that etcd answers, or does not. Keys are tuples and
values are the model's own objects, so there is nothing to decode; each revision is one `ClusterState`, which
everybody shares. A watch brings states late, in order, and passes over some, as the feed of a real process may.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ottla_core.cluster.model import (
    BrokerRegistration,
    ClusterState,
    ControllerLeader,
    Member,
    PartitionState,
    Topic,
)
from tests.simulation.network import Answer
from tests.simulation.process import Process
from tests.simulation.schedule import Schedule

Key = tuple[str | int, ...]
ABSENT = 0

CONTROLLER: Key = ("controller",)
EXPIRY_DELAY_MAX_MS = 500.0
WATCH_RETRY_MS = 100.0
WATCH_LATE_MAX_MS = 8_000.0


class Entry(NamedTuple):
    """A key's value and revisions; `lease` is 0 for a key that stays."""

    value: Any
    created: int
    modified: int
    lease: int


class Compare(NamedTuple):
    """What a transaction depends on: the create or mod revision of a key (`ABSENT`: there is no such key)."""

    key: Key
    revision: int
    created: bool = False


class Put(NamedTuple):
    """A key to write, or with the value None to delete.

    `depends_on` are other keys, with the revisions of their creation.
    """

    key: Key
    value: Any
    lease: int = 0
    depends_on: tuple[tuple[Key, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Transaction:
    """Compares, what to write if all hold, and what to read if not."""

    compares: Sequence[Compare]
    puts: Sequence[Put]
    reads: Sequence[Key]


class TransactionResult(NamedTuple):
    """How a transaction ended; `reads` only if it did not succeed."""

    succeeded: bool
    revision: int
    reads: tuple[Entry | None, ...]


class Watcher(Process):
    """A process that follows the cluster state."""

    state: ClusterState

    def on_state(self, state: ClusterState) -> None:
        """Take over a newer state."""


class FakeEtcd(Process):
    """The store.

    Attributes:
        state: the cluster state at the newest revision.
        when_changed: called after each revision with the former and the new state, for the checker.
        watch_delay_max_ms: the longest that a change usually takes to be seen.
        watch_late: the part of all notifications that take much longer.
    """

    def __init__(self, schedule: Schedule, is_cut: Callable[[str, str], bool]) -> None:
        super().__init__("etcd", schedule)
        self._is_cut = is_cut
        self._entries: dict[Key, Entry] = {}
        self._leases: dict[int, tuple[float, float]] = {}  # deadline and TTL
        self._watchers: dict[str, tuple[Watcher, int]] = {}
        self._notified: set[tuple[str, int]] = set()
        self._revision = 1
        self.state = ClusterState(revision=1)
        self.when_changed: Callable[[ClusterState, ClusterState], None] = lambda _former, _new: None
        self.watch_delay_max_ms = schedule.random.choice((2.0, 10.0, 50.0))
        self.watch_late = schedule.random.choice((0.0, 0.02, 0.1))

    def on_start(self) -> None:
        """After an outage every lease has its whole time to live again."""
        for lease, (_, ttl_ms) in self._leases.items():
            self._leases[lease] = (self.schedule.now_ms + ttl_ms, ttl_ms)
            self.after(ttl_ms, self._expire, lease)

    # What processes ask for

    def list_state(self, watcher: Watcher, answer: Answer) -> None:
        """Answer with the present state, and report changes from now on."""
        self._watchers[watcher.name] = (watcher, watcher.life)
        answer(self.state)

    def grant(self, ttl_ms: float, answer: Answer) -> None:
        """Answer with a new lease."""
        self._revision += 1
        lease = self._revision
        self._leases[lease] = (self.schedule.now_ms + ttl_ms, ttl_ms)
        self.after(ttl_ms + self.schedule.between(0, EXPIRY_DELAY_MAX_MS), self._expire, lease)
        answer(lease)

    def keep_alive(self, lease: int, answer: Answer) -> None:
        """Answer whether the lease lives, with all its time again."""
        deadline, ttl_ms = self._leases.get(lease, (0.0, 0.0))
        if self.schedule.now_ms >= deadline:
            answer(False)
            return
        self._leases[lease] = (self.schedule.now_ms + ttl_ms, ttl_ms)
        answer(True)

    def revoke(self, lease: int, answer: Answer) -> None:
        """End a lease and drop its keys."""
        self._drop(lease)
        answer(True)

    def transact(self, transaction: Transaction, answer: Answer) -> None:
        """Carry out a transaction."""
        for compare in transaction.compares:
            entry = self._entries.get(compare.key)
            revision = ABSENT if entry is None else entry.created if compare.created else entry.modified
            if revision != compare.revision:
                reads = tuple(self._entries.get(key) for key in transaction.reads)
                answer(TransactionResult(False, self._revision, reads))
                return
        if any(put.lease and put.lease not in self._leases for put in transaction.puts):
            answer(None)
            return
        self._write(transaction.puts)
        answer(TransactionResult(True, self._revision, ()))

    # Leases

    def _expire(self, lease: int) -> None:
        deadline, _ = self._leases.get(lease, (0.0, 0.0))
        if not deadline:
            return
        left_ms = deadline - self.schedule.now_ms
        if left_ms > 0:
            self.after(left_ms + self.schedule.between(0, EXPIRY_DELAY_MAX_MS), self._expire, lease)
        else:
            self._drop(lease)

    def _drop(self, lease: int) -> None:
        if self._leases.pop(lease, None) is not None:
            keys = [key for key, entry in self._entries.items() if entry.lease == lease]
            if keys:
                self._write([Put(key, None) for key in keys])

    # Writing and watching

    def _write(self, puts: Sequence[Put]) -> None:
        self._revision += 1
        revision = self._revision
        former = state = self.state
        for key, value, lease, _ in puts:
            before = self._entries.get(key)
            if value is None:
                self._entries.pop(key, None)
                entry = None
            else:
                entry = Entry(value, before.created if before else revision, revision, lease)
                self._entries[key] = entry
            state = _with_entry(state, key, entry)
            self.note("revision {}: {} = {}", revision, _Shown(key), _Shown(value))
        self.state = replace(state, revision=revision)
        self.when_changed(former, self.state)
        for watcher, life in self._watchers.values():
            self._notify(watcher, life)

    def put_directly(self, puts: Sequence[Put]) -> None:
        """Write without a transaction, to set the scene."""
        self._write(puts)

    def _notify(self, watcher: Watcher, life: int) -> None:
        mark = (watcher.name, life)
        if watcher.life == life and mark not in self._notified:
            self._notified.add(mark)
            delay_ms = self.schedule.between(0.1, self.watch_delay_max_ms)
            if self.watch_late and self.schedule.chance(self.watch_late):
                delay_ms = WATCH_LATE_MAX_MS * self.schedule.random.random() ** 2
            self.schedule.after(delay_ms, self._bring, watcher, life, self.state)

    def _bring(self, watcher: Watcher, life: int, state: ClusterState) -> None:
        if watcher.life != life or not watcher.is_running:
            return
        if not self.is_running or self.is_paused or self._is_cut(self.name, watcher.name):
            self.schedule.after(WATCH_RETRY_MS, self._bring, watcher, life, state)
            return
        self._notified.discard((watcher.name, life))
        watcher.deliver(watcher.on_state, (state,))
        if state is not self.state:
            self._notify(watcher, life)


def _with_entry(state: ClusterState, key: Key, entry: Entry | None) -> ClusterState:
    """Return the state with one key changed; the model's identities are kept for what did not change."""
    value: Any = entry.value if entry else None
    match key:
        case ("controller",):
            return replace(state, controller=replace(value, epoch=entry.created) if entry else None)
        case ("broker", int(broker_id)):
            member = replace(value, epoch=entry.created) if entry else None
            return replace(state, brokers=_with(state.brokers, broker_id, member))
        case ("registration", int(broker_id)):
            registration = replace(value, revision=entry.modified) if entry else None
            return replace(state, registrations=_with(state.registrations, broker_id, registration))
        case ("topic", str(name)) if entry is None:
            gone = state.topics[name]
            topics = {found.name: found for found in state.topics.values() if found is not gone}
            state = replace(state, deleted_topics={**state.deleted_topics, gone.id: state.revision + 1})
            return _with_topics(state, topics)
        case ("topic", str(_)):
            assert entry is not None
            former = state.topics.get(value.name)
            partitions = former.partitions if former and former.id == value.id else value.partitions
            return _with_topic(state, replace(value, partitions=partitions, mod_revision=entry.modified))
        case ("partition", str(name), int(_)) if entry is None:
            assert name not in state.topics, "a topic goes before its partitions"
            return state
        case ("partition", str(name), int(index)):
            assert entry is not None
            topic = state.topics[name]
            partitions = list(topic.partitions)
            partitions[index] = replace(value, partition_epoch=entry.modified)
            return _with_topic(state, replace(topic, partitions=tuple(partitions)))
    raise AssertionError(f"unknown key {key}")


def _with_topic(state: ClusterState, topic: Topic) -> ClusterState:
    return _with_topics(state, {**state.topics, topic.name: topic})


def _with_topics(state: ClusterState, found: Mapping[str, Topic]) -> ClusterState:
    topics = dict(sorted(found.items()))  # as etcd lists them
    return replace(state, topics=topics, topics_by_id={found.id: found for found in topics.values()})


def _with(mapping: Any, key: int, value: Any) -> Any:
    changed = {k: v for k, v in mapping.items() if k != key}
    if value is not None:
        changed[key] = value
    return dict(sorted(changed.items()))


@dataclass(frozen=True, slots=True)
class _Shown:
    """A key or a value, put into words when the trace is read."""

    content: Any

    def __format__(self, _spec: str) -> str:
        return "/".join(map(str, self.content)) if isinstance(self.content, tuple) else _shown(self.content)


def _shown(value: Any) -> str:
    """Return a value as the trace shows it."""
    match value:
        case PartitionState():
            more = "".join(
                f" {name} {list(ids)}"
                for name, ids in (
                    ("eligible", value.eligible_leaders),
                    ("adding", value.adding),
                    ("removing", value.removing),
                )
                if ids
            )
            return (
                f"leader {value.leader} (broker epoch {value.leader_broker_epoch}) leader epoch {value.leader_epoch} "
                f"isr {list(value.isr)} replicas {list(value.replicas)}{more}"
            )
        case Member():
            leaving = ", shutting down" if value.shutting_down else ""
            return f"life {value.incarnation.int} with directory {value.directory_ids[0].int}{leaving}"
        case BrokerRegistration():
            return f"broker epoch {value.broker_epoch} with directory {value.directory_ids[0].int}"
        case ControllerLeader():
            return f"controller-{value.id}"
        case Topic():
            return f"settings {dict(value.configs)}"
        case None:
            return "(gone)"
    return str(value)
