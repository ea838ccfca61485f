"""Connect workers' memberships in a world of its own: the coordinator's shard is real, time and network are made.

`Member` and `GroupShard` do no I/O, so a whole group with its mishaps runs in one thread, minutes of it in
milliseconds, the same for the same seed. Messages take a random time, and get lost while the network is bad; workers
are killed, or frozen as by SIGSTOP, or take long to stop something; the coordinator is replaced by one that knows
what was stored.

Whenever a worker may run more it is checked that nothing runs on two workers: what a worker was told counts until it
has stopped it or its lease is over, as its tasks would stop by themselves then, even if the worker is frozen.
"""

import heapq
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from kio.static.protocol import Entity

from ottla_connect.group.member import Member
from ottla_connect.group.member_messages import (
    AbandonRequest,
    Action,
    DeclareLost,
    Deliver,
    Fail,
    ForgetCoordinator,
    GrantLease,
    MakePlan,
    MemberSettings,
    Warn,
)
from ottla_connect.group.view import GroupView
from ottla_connect.group.work import NO_WORK, Work, union
from ottla_connect.group.worker_protocol import COMPATIBLE, PROTOCOL_TYPE, SESSIONED
from ottla_core.client.group.messages import SendHeartbeat, SendJoin, SendSync
from ottla_core.client.group.requests import (
    GroupTerms,
    heartbeat_request,
    join_request,
    joined_of,
    sync_request,
    synced_of,
)
from tests.support.groups.shard_under_test import ShardUnderTest

GROUP = "connect-cluster"
SESSION_MS, REBALANCE_MS, HEARTBEAT_MS, DELAY_MS = 10_000, 20_000, 1_000, 5_000
HEARTBEAT_TIMEOUT_MS, LATENCY_MAX_MS, SYNC_WAIT_MS = 3_000, 40, 300
JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 11, 12, 14


NOTHING_READ = GroupView(0, {})


class SharedWork(AssertionError):
    """Two workers run the same."""


@dataclass
class SimulatedWorker:
    """One worker.

    Attributes:
        work: what it runs; its tasks have stopped when the lease is over.
        lease_ms: until when they may run.
        frozen: what it would do if it were not frozen; None if it is not.
        alive: whether its process runs.
    """

    url: str
    member: Member
    settings: MemberSettings
    stop_ms_max: int
    work: Work = NO_WORK
    lease_ms: int = 0
    frozen: list[Callable[[], None]] | None = None
    alive: bool = True
    ticks: int = 0
    view: GroupView = NOTHING_READ


@dataclass
class SimulatedGroup:
    """A group; `now_ms` is its time. Everything that happens is a function of the seed."""

    seed: int
    connectors: dict[str, int] = field(default_factory=dict)
    loss: float = 0.0
    workers: list[SimulatedWorker] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self._shard = ShardUnderTest()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._waiting: dict[int, Callable[[Any], None]] = {}
        self._config_offset = 0

    @property
    def now_ms(self) -> int:
        return self._shard.now_ms

    # What a test does.

    def start(self, url: str, *, stop_ms_max: int = 500) -> SimulatedWorker:
        settings = MemberSettings(
            url=url,
            protocols=(SESSIONED, COMPATIBLE),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            delay_max_ms=DELAY_MS,
        )
        worker = SimulatedWorker(url=url, member=Member(settings), settings=settings, stop_ms_max=stop_ms_max)
        worker.view = GroupView(self._config_offset, dict(self.connectors))
        self.workers.append(worker)
        self._note(f"{url} starts")
        self._later(0, lambda: self._tick(worker))
        return worker

    def kill(self, worker: SimulatedWorker) -> None:
        """Its tasks die with it."""
        self._note(f"{worker.url} is killed")
        worker.alive, worker.work = False, NO_WORK
        self.workers.remove(worker)

    def freeze(self, worker: SimulatedWorker, duration_ms: int) -> None:
        if worker.frozen is None:
            self._note(f"{worker.url} is frozen for {duration_ms} ms")
            worker.frozen = []
            self._later(duration_ms, lambda: self._thaw(worker))

    def configure(self, connectors: Mapping[str, int]) -> None:
        """Workers read it one after another."""
        self.connectors = dict(connectors)
        self._config_offset += 1
        view = GroupView(self._config_offset, dict(connectors))
        self._note(f"configured: {len(view.work)} connectors and tasks")
        for worker in self.workers:
            self._later(self.chance.randrange(1_000), self._of(worker, partial(self._read, worker, view)))

    def restart_coordinator(self) -> None:
        self._note("the coordinator is replaced")
        self._shard.restart()
        for token in list(self._waiting):
            self._answer(token, None)

    def run(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while True:
            timer_ms = self._shard.shard.timers.next_deadline_ms
            event_ms = self._events[0][0] if self._events else end_ms
            step_ms = min(end_ms, event_ms, end_ms if timer_ms is None else max(timer_ms, self.now_ms))
            self._shard.advance(step_ms - self.now_ms)
            self._hand_out()
            if self._events and self._events[0][0] <= self.now_ms:
                heapq.heappop(self._events)[2]()
            elif step_ms == end_ms:
                return

    def running(self, worker: SimulatedWorker) -> Work:
        return worker.work if self.now_ms < worker.lease_ms else NO_WORK

    def check(self) -> None:
        seen = NO_WORK
        for worker in self.workers:
            running = self.running(worker)
            if running & seen:
                history = "\n".join(self.log[-60:])
                raise SharedWork(f"seed {self.seed}: {running & seen} on {worker.url} and another\n{history}")
            seen |= running

    def check_balanced(self) -> None:
        works = [self.running(worker) for worker in self.workers]
        history = "\n".join(self.log[-60:])
        missing = GroupView(0, self.connectors).work - union(works)
        assert not missing, f"seed {self.seed}: nobody runs {missing}\n{history}"
        assert sum(map(len, works)) == len(union(works))
        for counts in ([len(work.connectors) for work in works], [len(work.tasks) for work in works]):
            assert max(counts) - min(counts) <= 1, f"seed {self.seed}: {counts}\n{history}"

    # Workers.

    def _read(self, worker: SimulatedWorker, view: GroupView) -> None:
        if view.config_offset > worker.view.config_offset:
            worker.view = view
            self._do(worker, worker.member.request_rejoin("configured", self.now_ms))

    def _tick(self, worker: SimulatedWorker) -> None:
        """Do what is due, and come again when more is."""
        for action in worker.member.tick(self.now_ms):
            self._do_one(worker, action)
        worker.ticks += 1
        tick, wake_ms = worker.ticks, worker.member.wake_ms()
        if wake_ms is not None:
            next_tick = self._of(worker, lambda: self._tick(worker) if worker.ticks == tick else None)
            self._later(max(wake_ms - self.now_ms, 1), next_tick)

    def _do(self, worker: SimulatedWorker, actions: list[Action]) -> None:
        for action in actions:
            self._do_one(worker, action)
        self._tick(worker)

    def _do_one(self, worker: SimulatedWorker, action: Action) -> None:
        member = worker.member
        match action:
            case SendJoin(ticket=ticket):
                self._note(f"{worker.url} joins as {action.member_id}: {action.reason}")
                protocols = member.metadata(worker.view.config_offset)
                request = join_request(_terms(worker.settings), action, protocols)
                self._ask(
                    worker,
                    (JOIN_GROUP, 9, request, REBALANCE_MS + 5_000),
                    lambda answer: member.joined(ticket, joined_of(answer), self.now_ms),
                    lambda: member.join_unanswered(ticket, self.now_ms),
                )
            case MakePlan(ticket=ticket):
                wait_ms = 0 if worker.view.config_offset >= action.config_offset else SYNC_WAIT_MS
                plan = self._of(worker, lambda: self._do(worker, member.plan(ticket, worker.view, self.now_ms)))
                self._later(wait_ms, plan)
            case SendSync(ticket=ticket):
                self._ask(
                    worker,
                    (SYNC_GROUP, 5, sync_request(_terms(worker.settings), action), REBALANCE_MS + 5_000),
                    lambda answer: member.synced(ticket, synced_of(answer), self.now_ms),
                    lambda: member.sync_unanswered(ticket, self.now_ms),
                )
            case SendHeartbeat(ticket=ticket):
                self._ask(
                    worker,
                    (HEARTBEAT, 4, heartbeat_request(GROUP, action), HEARTBEAT_TIMEOUT_MS),
                    lambda answer: member.heartbeat_answered(ticket, answer.error_code, self.now_ms),
                    lambda: member.heartbeat_unanswered(ticket, self.now_ms),
                )
            case Deliver(assignment=assignment, revoked=revoked):
                self._note(f"{worker.url} in {assignment.generation} runs {assignment.work}, stops {revoked}")
                wait_ms = self.chance.randrange(worker.stop_ms_max) if revoked else 0
                worker.work |= assignment.work
                self.check()
                self._later(wait_ms, self._of(worker, lambda: self._taken(worker, assignment.work)))
            case DeclareLost():
                self._note(f"{worker.url} has lost its membership")
                wait_ms = self.chance.randrange(worker.stop_ms_max)
                self._later(wait_ms, self._of(worker, lambda: self._taken(worker, NO_WORK)))
            case GrantLease(until_ms=until_ms):
                worker.lease_ms = until_ms
                self.check()
            case Fail(reason=reason):
                raise AssertionError(reason)
            case AbandonRequest() | ForgetCoordinator() | Warn():
                self._note(f"{worker.url}: {action}")

    def _taken(self, worker: SimulatedWorker, work: Work) -> None:
        worker.work = work
        self._do(worker, worker.member.taken(self.now_ms))

    # Time and network.

    def _later(self, delay_ms: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), act))

    def _of(self, worker: SimulatedWorker, act: Callable[[], None]) -> Callable[[], None]:
        """Return the act of a worker that may be frozen or dead by then."""

        def perform() -> None:
            if not worker.alive:
                return
            if worker.frozen is not None:
                worker.frozen.append(act)
            else:
                act()

        return perform

    def _thaw(self, worker: SimulatedWorker) -> None:
        self._note(f"{worker.url} goes on")
        missed, worker.frozen = worker.frozen or [], None
        for act in missed:
            self._of(worker, act)()

    def _ask(
        self,
        worker: SimulatedWorker,
        request: tuple[int, int, Entity, int],
        answered: Callable[[Any], list[Action]],
        unanswered: Callable[[], list[Action]],
    ) -> None:
        """Send a request; exactly one of both is called, unless the worker dies."""
        api_key, version, message, timeout_ms = request
        open_ = [True]

        def finish(actions: Callable[[], list[Action]]) -> None:
            if open_.pop() if open_ else False:
                self._do(worker, actions())

        def deliver() -> None:
            token = self._shard.send(api_key, version, message)
            self._waiting[token] = come_back
            self._hand_out()

        def come_back(answer: Any) -> None:
            if self._is_lost():
                return
            actions = unanswered if answer is None else lambda: answered(answer)
            self._later(self._latency_ms(), self._of(worker, lambda: finish(actions)))

        if not self._is_lost():
            self._later(self._latency_ms(), deliver)
        self._later(timeout_ms, self._of(worker, lambda: finish(unanswered)))

    def _hand_out(self) -> None:
        for token in [token for token in self._shard.answers if token in self._waiting]:
            self._answer(token, self._shard.answers.pop(token))

    def _answer(self, token: int, answer: Any) -> None:
        self._waiting.pop(token)(answer)

    def _is_lost(self) -> bool:
        return self.chance.random() < self.loss

    def _latency_ms(self) -> int:
        return self.chance.randrange(1, LATENCY_MAX_MS)

    def _note(self, text: str) -> None:
        self.log.append(f"{self.now_ms - 1_700_000_000_000:>8} {text}")


def _terms(settings: MemberSettings) -> GroupTerms:
    return GroupTerms(
        group_id=GROUP,
        protocol_type=PROTOCOL_TYPE,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
    )
