"""What a worker does for one target: it is a member of the group there, and has a `FlowWork` for each flow to it.

Flows are those of the configuration and those that were created by REST, which all workers of the target find in the
topic `mirror-flows.internal`. The group's leader shares out what the flows have found.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from ottla_core.background import start_recurring
from ottla_core.client.group.coordinator_client import CoordinatorClient
from ottla_core.client.group.requests import GroupTerms
from ottla_core.errors import ConfigurationError, InvalidRecord, OttlaError
from ottla_mirror.config.configured_settings import ARROW
from ottla_mirror.config.mirror_config import FlowConfig, MirrorConfig
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.state.flow_records import CreatedFlow, Steering, clusters_record, flow_record, steering_record
from ottla_mirror.state.flow_store import FlowStore
from ottla_mirror.topics.topic_selection import FLOWS_TOPIC
from ottla_mirror.workers.assignment import MemberState, Work, known_topics, shares
from ottla_mirror.workers.clusters import CLIENT_ID, connected, internal_replicas
from ottla_mirror.workers.flow_copy import FlowCopy
from ottla_mirror.workers.flow_work import FlowWork
from ottla_mirror.workers.group_messages import (
    PROTOCOL_TYPE,
    Assignment,
    decode_assignment,
    decode_state,
    encode_assignment,
    encode_state,
)
from ottla_mirror.workers.membership import Membership
from ottla_mirror.workers.memory_shares import MemoryShares

RETRY_PAUSE_S: Final = 2.0
READ_INTERVAL_S: Final = 1.0

log = structlog.get_logger("workers")


@dataclass(frozen=True, slots=True)
class UnusableFlow:
    """A created flow that this worker cannot run, such as because it lacks a secret."""

    created: CreatedFlow
    reason: str


class TargetWorker:
    """A worker at one target.

    Args:
        config: the worker's configuration.
        alias: the target.
        url: where this worker's REST API is.
        memory: of the worker, for the flows of all targets.
        public_key: by which other workers know the requests of this one.

    Attributes:
        assignment: what the leader has said last.
        problem: why nothing can be done at the target at present; empty if it can.
        is_ready: whether the target has answered and the flows are known.
    """

    def __init__(self, config: MirrorConfig, alias: str, url: str, memory: MemoryShares, *, public_key: str) -> None:
        self._public_key = public_key
        self.alias = alias
        self.assignment = Assignment()
        self.problem = "it has not been reached yet"
        self.is_ready = False
        self.rebalances = 0
        self.unusable: dict[str, UnusableFlow] = {}
        self._config = config
        self._url = url
        self._flows: dict[str, FlowWork] = {}
        self._cluster = connected(config.clusters[alias].admin)
        self._memory = memory
        self._changed = asyncio.Event()
        self._keeping = asyncio.Lock()
        self._ending = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._store: FlowStore | None = None
        worker = config.worker
        client = config.clusters[alias].admin
        self.membership = Membership(
            CoordinatorClient(
                [(each.host, each.port) for each in client.bootstrap],
                worker.group_id,
                security=client.client_security(),
                client_id=client.client_id or CLIENT_ID,
            ),
            GroupTerms(
                group_id=worker.group_id,
                protocol_type=PROTOCOL_TYPE,
                session_timeout_ms=worker.session_timeout_ms,
                rebalance_timeout_ms=worker.rebalance_timeout_ms,
            ),
            heartbeat_interval_ms=worker.heartbeat_interval_ms,
            state=self._state,
            share_out=self._share_out,
            on_assigned=self._take,
        )

    @property
    def flows(self) -> Mapping[str, FlowWork]:
        """The flows that this worker runs, by name."""
        return self._flows

    @property
    def leads(self) -> bool:
        """Whether this worker leads the group of the target."""
        return self.membership.leads

    @property
    def store(self) -> FlowStore:
        """What the workers of the target share.

        Raises:
            OttlaError: the target has not been reached yet.
        """
        if self._store is None:
            raise OttlaError(f"{self.alias}: {self.problem}")
        return self._store

    def start(self) -> None:
        """Begin."""
        self._start("target of mirrors", self._run)

    async def close(self) -> None:
        """Stop all copies in order, and leave the group."""
        self._ending.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(flow.close() for flow in self._flows.values()))
        await self.membership.leave()
        await self._cluster.close()

    async def create(self, flow: FlowConfig) -> None:
        """Note a flow for all workers of the target, when both clusters have answered.

        Raises:
            FlowRefused: it would copy a cluster to itself.
            OttlaError: a cluster does not answer or does not accept us, or it cannot be noted.
        """
        trial = self._work_of(flow)
        try:
            ids = await trial.check()
        finally:
            await trial.close()
        created = CreatedFlow(
            source=flow.source, target=flow.target, settings=flow.written, source_settings=flow.source_written
        )
        await self.store.write([clusters_record(flow.name, ids), flow_record(flow.name, created)])

    async def delete(self, name: str) -> None:
        """Have all workers of the target forget a created flow; what it has copied stays."""
        await self.store.write([flow_record(name, None), steering_record(name, None)])

    async def steer(self, name: str, steering: Steering) -> None:
        """Have all workers of the target pause a flow, or throttle it."""
        await self.store.write([steering_record(name, steering)])

    async def settle(self) -> None:
        """Take up what was noted last, so that who has noted it sees it."""
        await self._keep_flows()

    async def _run(self) -> None:
        """Reach the target, then be a member of its group and follow what its workers share."""
        while self._store is None:
            try:
                self._store = await self._opened()
            except OttlaError as error:
                if str(error) != self.problem:
                    log.warning("target cannot be used", target=self.alias, reason=str(error))
                self.problem = str(error)
                await asyncio.sleep(RETRY_PAUSE_S)
        self.problem = ""
        await self._keep_flows()
        if not self.is_ready:  # else this was started anew, and two memberships would take turns at the same place
            self._start("membership of mirrors", self.membership.run)
            self.is_ready = True
        await self._follow()

    async def _opened(self) -> FlowStore:
        brokers = len((await self._cluster.metadata(())).brokers)
        replicas = internal_replicas(self._config.worker.flows_topic_replication_factor, brokers)
        topic = InternalTopic(self._cluster, FLOWS_TOPIC, replication_factor=replicas)
        store = FlowStore(topic, self._changed.set)
        await store.start()
        return store

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(READ_INTERVAL_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            try:
                await self.store.refresh()
                self.problem = ""
            except OttlaError as error:
                self.problem = str(error)
                continue
            await self._keep_flows()

    async def _keep_flows(self) -> None:
        """Run the flows of the configuration and those that were created, and no others."""
        async with self._keeping:
            await self._keep_wanted_flows()

    async def _keep_wanted_flows(self) -> None:
        wanted = {name: flow for name, flow in self._config.flows.items() if flow.target == self.alias}
        self.unusable = {}
        for name, created in self.store.state.created.items():
            if name in wanted:
                continue
            running = self._flows.get(name)
            if running is not None and _is_same(running.flow, created):
                wanted[name] = running.flow
                continue
            try:
                wanted[name] = self._config.reader.created(
                    created.source, created.target, created.settings, created.source_settings
                )
            except ConfigurationError as error:
                self.unusable[name] = UnusableFlow(created, str(error))
        before = set(self._flows)
        for name in [each for each in self._flows if wanted.get(each) is not self._flows[each].flow]:
            log.info("flow ends", flow=name)
            await self._flows.pop(name).close()
        for name, flow in wanted.items():
            if name not in self._flows:
                log.info("flow begins", flow=name)
                self._flows[name] = self._work_of(flow)
                self._flows[name].start()
                self._flows[name].copy.assign(self._share_of(name))
        if set(self._flows) != before and self.is_ready:
            self.membership.request_rejoin("the worker has other flows")
        self._steer()

    def _steer(self) -> None:
        for name, work in self._flows.items():
            work.steer(self.assignment.totals.get(name, 0))

    def _share_of(self, flow: str) -> Work:
        """Return what the leader wants this worker to copy of a flow."""
        work = self.assignment.work
        return Work(work.of_flow(flow), work.topics)

    def _work_of(self, flow: FlowConfig) -> FlowWork:
        return FlowWork(
            flow,
            target=self._cluster,
            store=self.store,
            copy=FlowCopy(flow, self._config.worker, self._memory),
            worker=self._config.worker,
            has_way_back=lambda: f"{flow.target}{ARROW}{flow.source}" in self._config.flows,
            leads=lambda: self.membership.leads,
            on_found=lambda: self.membership.request_rejoin("there are other partitions to copy"),
        )

    # The group.

    def _state(self) -> bytes:
        return encode_state(
            MemberState(url=self._url, flows=frozenset(self._flows), held=self.assignment.work, key=self._public_key)
        )

    def _share_out(self, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        states: dict[str, MemberState] = {}
        for member, data in members.items():
            try:
                states[member] = decode_state(data)
            except InvalidRecord as error:
                log.warning("member not understood", member=member, reason=error.message)
        found = {name: work.found() for name, work in self._flows.items()}
        not_looked_at = frozenset(name for name, work in found.items() if work is None)
        known = [work for work in found.values() if work is not None]
        wanted = Work(
            frozenset().union(*(work.partitions for work in known)),
            {topic: names for work in known for topic, names in work.topics.items()},
        )
        assigned = shares(states, wanted, not_looked_at)
        topics = known_topics(states.values(), wanted)
        totals: dict[str, int] = {}
        for some in assigned.values():
            for each in some:
                totals[each.flow] = totals.get(each.flow, 0) + 1
        urls = tuple(sorted({state.url for state in states.values()}))
        keys = tuple(sorted({state.key for state in states.values() if state.key}))
        return {
            member: encode_assignment(
                Assignment(
                    work=Work(some, topics),
                    totals=totals,
                    leader_url=self._url,
                    worker_urls=urls,
                    worker_keys=keys,
                )
            )
            for member, some in assigned.items()
        }

    async def _take(self, data: bytes, is_leader: bool) -> None:
        try:
            self.assignment = decode_assignment(data)
        except InvalidRecord as error:
            log.warning("assignment not understood", target=self.alias, reason=error.message)
            return
        self.rebalances += 1
        work = self.assignment.work
        log.info("assigned", target=self.alias, leads=is_leader, partitions=len(work.partitions))
        for name, flow in self._flows.items():
            if not is_leader:
                flow.forget_plan()
            flow.copy.assign(self._share_of(name))
        self._steer()

    def _start(self, kind: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks.append(start_recurring(kind, work, until=self._ending, target=self.alias))


def _is_same(flow: FlowConfig, created: CreatedFlow) -> bool:
    return (
        flow.origin == "created"
        and (flow.source, flow.target) == (created.source, created.target)
        and dict(flow.written) == dict(created.settings)
        and dict(flow.source_written) == dict(created.source_settings)
    )
