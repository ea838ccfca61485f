"""The members of a fake etcd: each has a mind of its own about when it answers.

The real client runs on them (`etcd_stubs.py`). A transaction may be carried out without an answer, or long after the
client has given up. A watch lags, each on its own, and brings several revisions at once, or the older ones of several
first. A member that is killed breaks its watches or leaves them silent, one that is paused keeps them.
"""

from collections.abc import Callable
from typing import Any, Protocol

from ottla_proto.gen.etcd.rpc_pb2 import WatchCreateRequest, WatchResponse
from tests.simulation.fake_etcd import Asked, FakeEtcd
from tests.simulation.network import Answer
from tests.simulation.process import Process
from tests.simulation.schedule import Schedule

MEMBERS = 3
WATCH_RETRY_MS = 100.0
WATCH_LATE_MAX_MS = 8_000.0
WRITE_LATE_MAX_MS = 6_000.0


def members_of(etcd: FakeEtcd) -> "list[EtcdMember]":
    """Return the members, none of which runs yet."""
    return [EtcdMember(f"etcd-{number}", etcd.schedule, etcd) for number in range(1, MEMBERS + 1)]


class Watching(Protocol):
    """A client's end of a watch."""

    def is_open(self) -> bool:
        """Return whether the client still listens, in the life in which it began to."""

    def bring(self, response: WatchResponse) -> None:
        """Let something arrive."""

    def break_off(self) -> None:
        """Let the stream end."""


class EtcdMember(Process):
    """A member: it answers requests and serves watches."""

    def __init__(self, name: str, schedule: Schedule, etcd: FakeEtcd) -> None:
        super().__init__(name, schedule)
        self.etcd = etcd
        self._watches: dict[_ServedWatch, None] = {}

    def on_start(self) -> None:
        """Join the others."""
        self._watches = {}
        self.etcd.members_changed()

    def kill(self) -> None:
        """End, and with it every watch, unless the whole machine goes: then nobody tells the clients."""
        super().kill()
        self.etcd.members_changed()
        if self.schedule.chance(0.5):
            for watch in self._watches:
                watch.notify()

    def pause(self) -> None:
        """Stop, with all connections open."""
        super().pause()
        self.etcd.members_changed()

    def resume(self) -> None:
        """Go on."""
        super().resume()
        self.etcd.members_changed()

    def read(self, asked: Asked, answer: Answer) -> None:
        """Answer a read, which is linearizable."""
        self.etcd.agreed(lambda: answer(self.etcd.range(asked.message)))

    def renew(self, asked: Asked, answer: Answer) -> None:
        """Answer a renewal."""
        self.etcd.agreed(lambda: answer(self.etcd.keep_alive(asked.message)))

    def grant(self, asked: Asked, answer: Answer) -> None:
        """Grant a lease."""
        self._propose(lambda: self.etcd.grant(asked.message), answer)

    def revoke(self, asked: Asked, answer: Answer) -> None:
        """Revoke a lease."""
        self._propose(lambda: self.etcd.revoke(asked.message), answer)

    def transact(self, asked: Asked, answer: Answer) -> None:
        """Carry out a transaction: at once, or after a while, and then perhaps without telling."""
        self._propose(lambda: self.etcd.transact(asked), answer)

    def _propose(self, write: Callable[[], Any], answer: Answer) -> None:
        etcd = self.etcd
        is_answered = not (etcd.answers_lost and self.schedule.chance(etcd.answers_lost))

        def carry_out() -> None:
            result = write()
            if is_answered:
                answer(result)

        if etcd.writes_late and self.schedule.chance(etcd.writes_late):
            self.after(WRITE_LATE_MAX_MS * self.schedule.random.random() ** 2, etcd.agreed, carry_out)
        else:
            etcd.agreed(carry_out)

    def watch(self, asked: Asked, answer: Answer) -> None:
        """Serve a watch from its first revision on; `answer` is not used, since a watch has a stream."""
        del answer
        request, watching = asked.message
        watch = _ServedWatch(self, asked.sender, request, watching)
        self._watches[watch] = None
        watch.begin()

    def forget(self, watch: "_ServedWatch") -> None:
        """Serve a watch no longer."""
        self._watches.pop(watch, None)

    def notify(self) -> None:
        """Have every watch bring what is new."""
        for watch in tuple(self._watches):
            watch.notify()


class _ServedWatch:
    """A member's end of a watch, on a range of keys or on one."""

    def __init__(self, member: EtcdMember, client: str, request: WatchCreateRequest, watching: Watching) -> None:
        self._member = member
        self._life = member.life
        self._client = client.partition(":")[0]
        self._watching = watching
        self._next = request.start_revision
        self._first, self._end = request.key, request.range_end
        self._is_due = False

    def begin(self) -> None:
        """Confirm the watch, or refuse it."""
        etcd = self._member.etcd
        if not self._watching.is_open() or etcd.is_cut(self._member.name, self._client):
            self._member.forget(self)
            return
        if self._next <= etcd.compacted_revision:
            self._watching.bring(WatchResponse(header=etcd.header(), compact_revision=etcd.compacted_revision + 1))
            self._member.forget(self)
            return
        self._watching.bring(WatchResponse(header=etcd.header(), created=True))
        if self._next <= etcd.revision:
            self.notify()

    def notify(self) -> None:
        """Bring what is new, after a while."""
        if self._is_due:
            return
        self._is_due = True
        schedule, etcd = self._member.schedule, self._member.etcd
        delay_ms = schedule.between(0.1, etcd.watch_delay_max_ms)
        if etcd.watch_late and schedule.chance(etcd.watch_late):
            delay_ms = WATCH_LATE_MAX_MS * schedule.random.random() ** 2
        schedule.after(delay_ms, self._bring)

    def _bring(self) -> None:
        member = self._member
        if not self._watching.is_open():
            member.forget(self)
            return
        is_held_up = member.is_paused or self._client in member.etcd.lagging
        if is_held_up or member.etcd.is_cut(member.name, self._client):
            member.schedule.after(WATCH_RETRY_MS, self._bring)
            return
        if member.life != self._life or not member.is_running:
            self._watching.break_off()
            member.forget(self)
            return
        self._is_due = False
        newest = member.etcd.revision
        until = newest if member.schedule.chance(0.5) else self._next  # else the header is ahead of the events
        events = [
            event
            for revision in range(max(2, self._next), until + 1)
            for event in member.etcd.events_of(revision)
            if self._covers(event.kv.key)
        ]
        self._next = until + 1
        if events:
            self._watching.bring(WatchResponse(header=member.etcd.header(), events=events))
        if until < newest:
            self.notify()

    def _covers(self, key: bytes) -> bool:
        return self._first <= key < self._end if self._end else key == self._first
