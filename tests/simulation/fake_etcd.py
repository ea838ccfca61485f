"""What the members of a fake etcd (`etcd_members.py`) agree on: one linearizable store, in etcd's own messages.

Without a majority of its members nothing is carried out until there is one again, and then every lease has its whole
time to live. History that was compacted away can be watched no more.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
from grpc import aio

from ottla_controller.fenced_writer import Write
from ottla_core.cluster.etcd.messages import key_change
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import ClusterState, PartitionState
from ottla_core.cluster.state.state_tracker import StateTracker
from ottla_proto.gen.etcd import kv_pb2
from ottla_proto.gen.etcd.rpc_pb2 import (
    Compare,
    LeaseGrantRequest,
    LeaseGrantResponse,
    LeaseKeepAliveRequest,
    LeaseKeepAliveResponse,
    LeaseRevokeRequest,
    LeaseRevokeResponse,
    RangeRequest,
    RangeResponse,
    RequestOp,
    ResponseHeader,
    ResponseOp,
    TxnRequest,
    TxnResponse,
)
from tests.simulation.schedule import Schedule

if TYPE_CHECKING:
    from tests.simulation.etcd_members import EtcdMember

KEYS = KeySpace("simulated")
EXPIRY_DELAY_MAX_MS = 500.0
ANSWERS_LOST_IN_BURST = 0.6
WRITES_LATE_IN_BURST = 0.3


class Asked(NamedTuple):
    """A request of etcd's, and who sends it."""

    sender: str
    message: Any


class Change(NamedTuple):
    """A put or, with the value None, a deletion."""

    key: str
    value: bytes | None
    lease: int = 0


class Seen(NamedTuple):
    """What etcd's keys say at a revision, and in how many changes they came to it."""

    state: ClusterState
    orphans: tuple[PartitionState, ...]
    change_count: int


class FakeEtcd:
    """What etcd's members agree on.

    Attributes:
        members: whom clients ask.
        state: the cluster state at the newest revision.
        when_changed: called after each revision with the former and the new state, for the checker.
        when_written: called with the sender and the keys of each transaction that is about to write.
        watch_delay_max_ms: the longest that a change usually takes to be seen.
        watch_late: the part of all notifications that take much longer.
        writes_late: the part of all writes that a member takes in, and proposes much later.
        answers_lost: the part of all writes that are carried out and not answered.
        lagging: processes whose watches bring nothing for now.
    """

    def __init__(self, schedule: Schedule, is_cut: Callable[[str, str], bool]) -> None:
        self.schedule = schedule
        self.is_cut = is_cut
        self._entries: dict[str, kv_pb2.KeyValue] = {}
        self._leases: dict[int, tuple[float, float]] = {}  # deadline and TTL
        self._lease_count = 0
        self._history: list[tuple[kv_pb2.Event, ...]] = []  # of revision 2 and later
        self._written_ms: list[float] = []
        self._waiting: list[Callable[[], None]] = []
        self._had_majority = False
        self._tracker = StateTracker(KEYS)
        self._seen = [Seen(ClusterState(), (), 0)] * 2  # at each revision
        self.revision = 1
        self.compacted_revision = 0
        self.when_changed: Callable[[ClusterState, ClusterState], None] = lambda _former, _new: None
        self.when_written: Callable[[str, Sequence[str]], None] = lambda _sender, _keys: None
        self.watch_delay_max_ms = schedule.random.choice((2.0, 10.0, 50.0))
        self.watch_late = self.writes_late = self.answers_lost = 0.0
        self.members: list[EtcdMember] = []
        self.lagging: set[str] = set()

    @property
    def state(self) -> ClusterState:
        """The cluster state at the newest revision."""
        return self._tracker.state

    def make_trouble(self) -> None:
        """Be late from now on, and lose answers, as the seed says."""
        choice = self.schedule.random.choice
        self.watch_late = choice((0.0, 0.02, 0.1))
        self.writes_late = choice((0.0, 0.0, 0.03, 0.15))
        self.answers_lost = choice((0.0, 0.0, 0.03, 0.15))

    def lose_answers(self) -> None:
        """Leave most writes without an answer from now on, and carry out many of them late."""
        self.answers_lost = ANSWERS_LOST_IN_BURST
        self.writes_late = WRITES_LATE_IN_BURST
        self.schedule.note("etcd", "loses answers")

    def heal(self) -> None:
        """Answer everything from now on, in time."""
        self.writes_late = self.answers_lost = self.watch_late = 0.0
        self.lagging.clear()

    def compact(self) -> None:
        """Forget how the present state came about."""
        self.schedule.note("etcd", "forgets what was before revision {}", self.revision)
        self.compacted_revision = self.revision

    def seen_at(self, revision: int) -> "Seen":
        """Return what a process sees that has been told of everything up to a revision."""
        return self._seen[revision]

    def written_ms(self, revision: int) -> float | None:
        """Return when a revision was written; None if there is no such revision yet."""
        return self._written_ms[revision - 2] if revision <= self.revision else None

    # The majority

    def has_majority(self) -> bool:
        """Return whether anything can be agreed on."""
        return sum(member.is_running and not member.is_paused for member in self.members) > len(self.members) // 2

    def members_changed(self) -> None:
        """Begin a term, with new times for all leases, if there is a majority again."""
        has_majority = self.has_majority()
        if has_majority and not self._had_majority:
            for lease, (_, ttl_ms) in self._leases.items():
                self._leases[lease] = (self.schedule.now_ms + ttl_ms, ttl_ms)
            waiting, self._waiting = self._waiting, []
            for act in waiting:
                self.schedule.after(0.0, self.agreed, act)
        self._had_majority = has_majority

    def agreed(self, act: Callable[[], None]) -> None:
        """Do something now, or as soon as there is a majority."""
        if self._had_majority:
            act()
        else:
            self._waiting.append(act)

    # Requests

    def header(self) -> ResponseHeader:
        """Return the header of an answer."""
        return ResponseHeader(revision=self.revision)

    def range(self, request: RangeRequest) -> RangeResponse:
        """Return one key, or those of a range."""
        return RangeResponse(header=self.header(), kvs=self._found(request))

    def _found(self, request: RangeRequest) -> list[kv_pb2.KeyValue]:
        key = request.key.decode()
        if not request.range_end:
            entry = self._entries.get(key)
            return [entry] if entry is not None else []
        end = request.range_end.decode()
        return [entry for name, entry in sorted(self._entries.items()) if key <= name < end]

    def transact(self, asked: Asked) -> TxnResponse | aio.AioRpcError:
        """Carry out a transaction; each compare is one of the revisions of a key or of a range."""
        request: TxnRequest = asked.message
        succeeded = all(self._holds(compare) for compare in request.compare)
        operations = request.success if succeeded else request.failure
        changes = [change for operation in operations if (change := self._change(operation)) is not None]
        if any(change.lease and change.lease not in self._leases for change in changes):
            return refused(grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found")
        if changes:
            self.when_written(asked.sender, [change.key for change in changes])
            self.write(changes)
        return TxnResponse(
            header=self.header(),
            succeeded=succeeded,
            responses=[
                ResponseOp(response_range=RangeResponse(kvs=self._found(operation.request_range)))
                for operation in operations
                if operation.HasField("request_range")
            ],
        )

    def _holds(self, compare: Compare) -> bool:
        found = self._found(RangeRequest(key=compare.key, range_end=compare.range_end))
        return all(self._holds_for(compare, entry) for entry in found) if found else self._holds_for(compare, None)

    def _holds_for(self, compare: Compare, entry: kv_pb2.KeyValue | None) -> bool:
        if compare.target == Compare.CREATE:
            found, wanted = entry.create_revision if entry is not None else 0, compare.create_revision
        else:
            assert compare.target == Compare.MOD
            found, wanted = entry.mod_revision if entry is not None else 0, compare.mod_revision
        match compare.result:
            case Compare.EQUAL:
                return found == wanted
            case Compare.LESS:
                return found < wanted
            case _:
                return found > wanted

    def _change(self, operation: RequestOp) -> Change | None:
        if operation.HasField("request_put"):
            put = operation.request_put
            key = put.key.decode()
            if put.ignore_value:
                return Change(key, self._entries[key].value, self._entries[key].lease)
            return Change(key, put.value, put.lease)
        if operation.HasField("request_delete_range"):
            return Change(operation.request_delete_range.key.decode(), None)
        return None

    # Leases

    def grant(self, request: LeaseGrantRequest) -> LeaseGrantResponse:
        """Return a new lease."""
        self._lease_count += 1
        ttl_ms = request.ttl * 1000.0
        self._leases[self._lease_count] = (self.schedule.now_ms + ttl_ms, ttl_ms)
        self._look_later(self._lease_count, ttl_ms)
        return LeaseGrantResponse(header=self.header(), id=self._lease_count, ttl=request.ttl)

    def keep_alive(self, request: LeaseKeepAliveRequest) -> LeaseKeepAliveResponse:
        """Give a lease all its time again, if it has not expired."""
        deadline, ttl_ms = self._leases.get(request.id, (0.0, 0.0))
        if self.schedule.now_ms >= deadline:
            return LeaseKeepAliveResponse(header=self.header(), id=request.id, ttl=0)
        self._leases[request.id] = (self.schedule.now_ms + ttl_ms, ttl_ms)
        return LeaseKeepAliveResponse(header=self.header(), id=request.id, ttl=int(ttl_ms / 1000))

    def lease_deadline_ms(self, lease: int) -> float:
        """Return until when a lease lives if it is not renewed; 0 if there is none."""
        return self._leases.get(lease, (0.0, 0.0))[0]

    def revoke(self, request: LeaseRevokeRequest) -> LeaseRevokeResponse:
        """End a lease and drop its keys."""
        self._drop(request.id)
        return LeaseRevokeResponse(header=self.header())

    def _look_later(self, lease: int, delay_ms: float) -> None:
        self.schedule.after(delay_ms + self.schedule.between(0, EXPIRY_DELAY_MAX_MS), self._expire, lease)

    def _expire(self, lease: int) -> None:
        deadline, ttl_ms = self._leases.get(lease, (0.0, 0.0))
        if not deadline:
            return
        left_ms = deadline - self.schedule.now_ms
        if left_ms > 0:
            self._look_later(lease, left_ms)
        elif not self._had_majority:
            self._look_later(lease, ttl_ms)
        else:
            self._drop(lease)

    def _drop(self, lease: int) -> None:
        if self._leases.pop(lease, None) is not None:
            keys = [key for key, entry in self._entries.items() if entry.lease == lease]
            if keys:
                self.write([Change(key, None) for key in keys])

    # Writing and watching

    def put_directly(self, writes: Sequence[Write]) -> None:
        """Write without a transaction, to set the scene."""
        self.write([Change(write.key, write.value) for write in writes])

    def write(self, changes: Sequence[Change]) -> None:
        """Write a revision."""
        revision = self.revision + 1
        events = tuple(event for change in changes if (event := self._event(change, revision)) is not None)
        if not events:
            return
        self.revision = revision
        self._history.append(events)
        self._written_ms.append(self.schedule.now_ms)
        former = self.state
        self._tracker.advance([key_change(event) for event in events], revision)
        self._seen.append(Seen(self.state, tuple(self._tracker.orphans()), self._seen[-1].change_count + len(events)))
        self.when_changed(former, self.state)
        for member in self.members:
            member.notify()

    def _event(self, change: Change, revision: int) -> kv_pb2.Event | None:
        former = self._entries.get(change.key)
        shown = change.key.removeprefix(KEYS.prefix)
        if change.value is None:
            if self._entries.pop(change.key, None) is None:
                return None
            self.schedule.note("etcd", "revision {}: {} is deleted", revision, shown)
            gone = kv_pb2.KeyValue(key=change.key.encode(), mod_revision=revision)
            return kv_pb2.Event(type=kv_pb2.Event.DELETE, kv=gone)
        entry = kv_pb2.KeyValue(
            key=change.key.encode(),
            value=change.value,
            create_revision=former.create_revision if former is not None else revision,
            mod_revision=revision,
            lease=change.lease,
        )
        self._entries[change.key] = entry
        self.schedule.note("etcd", "revision {}: {} = {}", revision, shown, _Shown(change.value))
        return kv_pb2.Event(type=kv_pb2.Event.PUT, kv=entry)

    def events_of(self, revision: int) -> tuple[kv_pb2.Event, ...]:
        """Return what was written at a revision."""
        return self._history[revision - 2]


def refused(code: grpc.StatusCode, details: str) -> aio.AioRpcError:
    """Return what gRPC raises for a call that failed."""
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details)


class _Shown(NamedTuple):
    """A value, put into words when the trace is read."""

    value: bytes

    def __format__(self, _spec: str) -> str:
        return self.value.decode().replace('"', "")
