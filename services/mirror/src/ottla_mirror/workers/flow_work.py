"""One flow in one worker: it copies the partitions that it was given, and the leader keeps topics and groups.

Nothing here ends because a cluster is away: what fails is tried again, and the reason is told in the flow's status.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

import structlog

from ottla_core.background import start_recurring
from ottla_core.client.cluster import AsyncCluster
from ottla_core.errors import OttlaError
from ottla_mirror.config.mirror_config import FlowConfig
from ottla_mirror.config.worker_settings import WorkerSettings
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.state.flow_records import ClusterIds, Steering, clusters_record
from ottla_mirror.state.flow_store import FlowStore
from ottla_mirror.topics.topic_admin import TopicAdmin, TopicChangeRefused
from ottla_mirror.topics.topic_keeper import NoLeader, TopicKeeper
from ottla_mirror.topics.topic_sync import TopicPlan
from ottla_mirror.workers.assignment import FlowPartition, TopicNames, TopicOf, Work
from ottla_mirror.workers.clusters import check_clusters, connected, internal_replicas
from ottla_mirror.workers.flow_copy import FlowCopy, dead_letter_topic
from ottla_mirror.workers.group_duties import GroupDuties

RETRY_PAUSE_S: Final = 2.0
LEAD_CHECK_INTERVAL_S: Final = 0.2

log = structlog.get_logger("flows")


class FlowWork:
    """What this worker does for a flow.

    Args:
        flow: its configuration.
        target: the target's brokers, as an admin.
        store: what the target's workers share.
        copy: copies partitions.
        worker: the worker's settings.
        has_way_back: whether there is a flow from the target to the source.
        leads: whether this worker leads, and nobody else can.
        on_found: called when the leader has found that other partitions than before are to be copied.
    """

    def __init__(
        self,
        flow: FlowConfig,
        *,
        target: AsyncCluster,
        store: FlowStore,
        copy: FlowCopy,
        worker: WorkerSettings,
        has_way_back: Callable[[], bool],
        leads: Callable[[], bool],
        on_found: Callable[[], None],
    ) -> None:
        self.flow = flow
        self.copy = copy
        copy.check = self.check
        copy.began_with = partial(store.state.began_with, flow.name)
        self.problem = ""
        self.plan: TopicPlan | None = None
        self._store = store
        self._target = target
        self._source = connected(flow.source_clients.admin)
        self._leads = leads
        self._on_found = on_found
        timeout_s = flow.settings.admin_timeout_ms / 1000
        self._source_admin = TopicAdmin(self._source, flow.source, timeout_s)
        self._target_admin = TopicAdmin(target, flow.target, timeout_s)
        self._keeper = TopicKeeper(
            flow, source=self._source_admin, target=self._target_admin, store=store, leads=leads
        )
        self.groups = GroupDuties(
            flow,
            worker,
            source=self._source,
            target=target,
            topics=self._copied_topics,
            leads=leads,
            has_way_back=has_way_back,
        )
        self._refresh = asyncio.Event()
        self._looked = asyncio.Event()
        self._setting_problems: Mapping[str, str] = {}
        self._ending = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def name(self) -> str:
        """The flow's name."""
        return self.flow.name

    @property
    def steering(self) -> Steering:
        """How the flow is steered."""
        return self._store.state.steering.get(self.name, Steering())

    @property
    def throttle_bytes_per_s(self) -> int | None:
        """The most bytes per second of all workers together; None for any."""
        steering = self.steering
        return steering.throttle_bytes_per_s if steering.has_throttle else self.flow.settings.throttle_bytes_per_s

    def start(self) -> None:
        """Begin."""
        self._start("flow's copy", self.copy.run)
        self._start("flow's leader", self._lead)
        self.groups.start()

    async def close(self) -> None:
        """Stop, with everything stored that was copied."""
        self._ending.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.groups.close()
        await self.copy.close()
        await self._source.close()

    def found(self) -> Work | None:
        """Return what is to be copied; None before the leader has looked."""
        if self.plan is None:
            return None
        partitions = set()
        topics = {}
        for topic, each in self.plan.copied.items():
            topics[TopicOf(self.name, topic)] = TopicNames(each.topic_id, each.remote_topic)
            partitions |= {FlowPartition(self.name, topic, number) for number in range(each.partitions)}
        return Work(frozenset(partitions), topics)

    def _copied_topics(self) -> dict[str, str] | None:
        """Return the topics that are copied, and what they are called at the target; None before that is known."""
        if self.plan is None:
            return None
        return {topic: each.remote_topic for topic, each in self.plan.copied.items()}

    def forget_plan(self) -> None:
        """Another worker leads: what this one has found is not kept up to date any more."""
        self.plan = None

    async def look_now(self) -> None:
        """Have the leader look at topics and settings, and return when it has.

        Raises:
            TimeoutError: it has not within the flow's admin.timeout.ms.
        """
        self._looked.clear()
        self._refresh.set()
        async with asyncio.timeout(self.flow.settings.admin_timeout_ms / 1000):
            await self._looked.wait()

    def steer(self, partitions_of_all: int) -> None:
        """Have the copy keep to what was last said of pauses and throttles."""
        self.copy.steer(
            paused=self.steering.paused,
            throttle_bytes_per_s=self.throttle_bytes_per_s,
            partitions_of_all=partitions_of_all,
        )

    def topic_problems(self) -> dict[str, str]:
        """Return why topics are not as they should be, by name: refused settings."""
        return dict(self._setting_problems)

    async def check(self) -> ClusterIds:
        """Ask both clusters who they are, and return it; from then on no others are asked in their place.

        Raises:
            FlowRefused: the flow cannot run between them.
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        source, target = await self._source_admin.metadata(()), await self._target_admin.metadata(())
        ids = ClusterIds(source=source.cluster_id, target=target.cluster_id)
        check_clusters(self.name, ids, self._store.state.clusters.get(self.name))
        # What another cluster lacks would be taken for deleted, and what it has be mixed with the copies.
        self._source.expect(ids.source)
        self._target.expect(ids.target)
        return ids

    async def _lead(self) -> None:
        """Do what the leader does, whenever this worker leads."""
        while True:
            while not self._leads():  # noqa: ASYNC110 - a lease ends and begins by time
                await asyncio.sleep(LEAD_CHECK_INTERVAL_S)
            try:
                await self._keep_topics()
            except NoLeader:
                continue
            except OttlaError as error:
                self._tell(str(error))
                await self._wait(RETRY_PAUSE_S)

    async def _keep_topics(self) -> None:
        """Look at topics and settings whenever it is time, while this worker leads.

        Raises:
            NoLeader: it does not lead any more.
            OttlaError: a cluster is away or refuses us; an `InternalTopicError` where nothing can be noted.
        """
        ids = await self.check()
        if self.name not in self._store.state.clusters:
            await self._store.write([clusters_record(self.name, ids)])
        await self._ensure_dead_letter_topic()
        settings = self.flow.settings
        next_look_s = next_sync_s = next_acls_s = 0.0
        acl_problem = ""
        while self._leads():
            is_asked = self._refresh.is_set()
            self._refresh.clear()
            now_s = time.monotonic()
            is_due = self.plan is None or (self._has_to_look_again and now_s >= next_look_s)
            if is_asked or is_due:
                await self._look()
                next_look_s = now_s + settings.refresh_topics_interval_s
                if self.plan is not None and self.plan.waiting:
                    next_look_s = now_s + RETRY_PAUSE_S
            if settings.sync_topic_configs_enabled and (is_asked or now_s >= next_sync_s) and self.plan is not None:
                self._setting_problems = await self._keeper.sync_settings(self.plan.copied)
                next_sync_s = now_s + settings.sync_topic_configs_interval_s
            if settings.sync_topic_acls_enabled and (is_asked or now_s >= next_acls_s) and self.plan is not None:
                acl_problem = await self._sync_acls(self.plan)
                next_acls_s = now_s + settings.sync_topic_acls_interval_s
            if is_asked:
                self._looked.set()
            self._tell(acl_problem)
            await self._wait(LEAD_CHECK_INTERVAL_S)

    @property
    def _has_to_look_again(self) -> bool:
        """Whether to look again; what was not ready is waited for also where nothing new is looked for."""
        return self.flow.settings.refresh_topics_enabled or (self.plan is not None and bool(self.plan.waiting))

    async def _sync_acls(self, plan: TopicPlan) -> str:
        """Copy access control lists; returns why that is refused, which keeps nothing else waiting."""
        try:
            await self._keeper.sync_acls(plan.copied)
        except TopicChangeRefused as error:
            return str(error)
        return ""

    async def _ensure_dead_letter_topic(self) -> None:
        name = dead_letter_topic(self.flow)
        if name is None:
            return
        brokers = len((await self._target_admin.metadata(())).brokers)
        replicas = internal_replicas(self.flow.settings.replication_factor, brokers)
        await InternalTopic(self._target, name, replication_factor=replicas, is_compacted=False).ensure()

    async def _look(self) -> None:
        before = self.found()
        self.plan = await self._keeper.look()
        for topic, reason in self.plan.refused.items():
            log.warning("topic refused", flow=self.name, topic=topic, reason=reason)
        found = self.found()
        if before is None or found is None or before.partitions != found.partitions or before.topics != found.topics:
            self._on_found()

    async def _wait(self, seconds: float) -> None:
        """Wait a while, or until somebody asks for a look."""
        try:
            async with asyncio.timeout(seconds):
                await self._refresh.wait()
        except TimeoutError:
            return

    def _tell(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.warning("flow cannot go on", flow=self.name, reason=problem)
        self.problem = problem

    def _start(self, kind: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks.append(start_recurring(kind, work, until=self._ending, flow=self.name))
