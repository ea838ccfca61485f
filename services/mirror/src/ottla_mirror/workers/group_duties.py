"""What the leader does for a flow beside its topics: it translates groups, and writes heartbeats.

Heartbeats of a flow go to its target. MirrorMaker also writes those of the way back at the source, flow or not, so
that they come to the target by the flow itself; here that is done unless the way back is a flow of its own.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import structlog

from ottla_core.background import start_recurring
from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.group.cluster_groups import ClusterGroups
from ottla_core.errors import OttlaError
from ottla_mirror.config.mirror_config import FlowConfig
from ottla_mirror.config.worker_settings import WorkerSettings
from ottla_mirror.groups.group_reports import GroupReport, SyncReport
from ottla_mirror.groups.group_sync import GroupSync, NotLeading
from ottla_mirror.groups.heartbeats import Heartbeats
from ottla_mirror.groups.translator import Translator
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.offsets.map_topic import MapTopic, map_topic_name
from ottla_mirror.workers.clusters import internal_replicas

RETRY_PAUSE_S: Final = 2.0
CHECK_INTERVAL_S: Final = 0.2

log = structlog.get_logger("groups")


class GroupDuties:
    """The groups and heartbeats of one flow, while this worker leads.

    Args:
        flow: its configuration.
        worker: the worker's settings.
        source: the source's brokers, as an admin.
        target: the target's brokers, as an admin.
        topics: returns the topics that are copied, and their names at the target; None before they are known.
        leads: whether this worker leads, and nobody else can.
        has_way_back: whether there is a flow from the target to the source.

    Attributes:
        problem: why groups cannot be translated at present; empty if they can.
    """

    def __init__(
        self,
        flow: FlowConfig,
        worker: WorkerSettings,
        *,
        source: AsyncCluster,
        target: AsyncCluster,
        topics: Callable[[], Mapping[str, str] | None],
        leads: Callable[[], bool],
        has_way_back: Callable[[], bool],
    ) -> None:
        self.problem = ""
        self._flow = flow
        self._worker = worker
        self._source = source
        self._target = target
        self._topics = topics
        self._leads = leads
        self._has_way_back = has_way_back
        self._timeout_s = flow.settings.admin_timeout_ms / 1000
        self._sync: GroupSync | None = None
        self._ending = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def reports(self) -> Mapping[str, GroupReport]:
        """The result for each group in the last rounds of this worker."""
        return self._sync.reports if self._sync is not None else {}

    def start(self) -> None:
        """Begin."""
        self._start("groups of a flow", self._keep_groups)
        if self._flow.settings.emit_heartbeats_enabled:
            self._start("heartbeats of a flow", self._beat)

    async def close(self) -> None:
        """Stop."""
        self._ending.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def sync_now(self, group: str) -> SyncReport:
        """Translate one group at once; see `GroupSync.sync_now`.

        Raises:
            OttlaError: as there, or nothing of the flow is known yet.
            NotLeading: this worker does not lead any more.
        """
        if self._sync is None:
            reason = self.problem or "the leader has not looked at the flow's groups yet"
            raise OttlaError(f"{self._flow.name}: {reason}")
        return await self._sync.sync_now(group)

    async def _keep_groups(self) -> None:
        while True:
            await self._wait_for_lead()
            try:
                await self._translate()
            except NotLeading:
                self._sync = None
            except OttlaError as error:
                if str(error) != self.problem:
                    log.warning("groups cannot be translated", flow=self._flow.name, reason=str(error))
                self.problem = str(error)
                await asyncio.sleep(RETRY_PAUSE_S)

    async def _translate(self) -> None:
        """Translate groups whenever it is time, while this worker leads."""
        settings = self._flow.settings
        if self._sync is None:
            sync = await self._opened()
            await sync.start()
            self._sync = sync
        next_refresh_s = time.monotonic() + settings.refresh_groups_interval_s
        next_emit_s = next_store_s = 0.0
        while self._leads():
            now_s = time.monotonic()
            if settings.refresh_groups_enabled and now_s >= next_refresh_s:
                await self._sync.refresh()
                next_refresh_s = now_s + settings.refresh_groups_interval_s
            is_emitted = settings.emit_checkpoints_enabled or settings.sync_group_offsets_enabled
            interval_s = _least(
                settings.emit_checkpoints_interval_s if settings.emit_checkpoints_enabled else None,
                settings.sync_group_offsets_interval_s if settings.sync_group_offsets_enabled else None,
            )
            if is_emitted and now_s >= next_emit_s:
                await self._sync.emit_checkpoints()
                next_emit_s = now_s + interval_s
            if settings.sync_group_offsets_enabled and now_s >= next_store_s:
                await self._sync.store_offsets()
                next_store_s = now_s + settings.sync_group_offsets_interval_s
            self.problem = ""
            await asyncio.sleep(CHECK_INTERVAL_S)
        self._sync = None  # another worker leads, and this one's memory of groups grows old

    async def _opened(self) -> GroupSync:
        flow = self._flow
        brokers = len((await self._target.metadata(())).brokers)
        maps = MapTopic(
            InternalTopic(
                self._target,
                map_topic_name(flow.source),
                replication_factor=internal_replicas(self._worker.map_topic_replication_factor, brokers),
            )
        )
        await maps.start()
        source = ClusterGroups(self._source, timeout_s=self._timeout_s)
        target = ClusterGroups(self._target, timeout_s=self._timeout_s)
        checkpoints = InternalTopic(
            self._target,
            flow.plugins.policy.checkpoints_topic(flow.source),
            replication_factor=internal_replicas(flow.settings.checkpoints_topic_replication_factor, brokers),
        )
        return GroupSync(
            source=source,
            target=target,
            translator=Translator(source=source, target=target, maps=maps),
            checkpoints=checkpoints,
            topics=lambda: self._topics() or {},
            includes=flow.plugins.groups.should_replicate_group,
            stores_offsets=flow.settings.sync_group_offsets_enabled,
            leads=self._leads,
        )

    async def _beat(self) -> None:
        """Write heartbeats while this worker leads."""
        problem = ""
        while True:
            await self._wait_for_lead()
            try:
                ways = [await self._heartbeats(self._target, self._flow.source, self._flow.target)]
                if not self._has_way_back():
                    ways.append(await self._heartbeats(self._source, self._flow.target, self._flow.source))
                while self._leads():
                    for way in ways:
                        await way.beat(time.time_ns() // 1_000_000)
                    problem = ""
                    await asyncio.sleep(self._flow.settings.emit_heartbeats_interval_s)
            except OttlaError as error:
                if str(error) != problem:
                    log.warning("no heartbeats", flow=self._flow.name, reason=str(error))
                problem = str(error)
                await asyncio.sleep(RETRY_PAUSE_S)

    async def _heartbeats(self, cluster: AsyncCluster, source: str, target: str) -> Heartbeats:
        brokers = len((await cluster.metadata(())).brokers)
        topic = InternalTopic(
            cluster,
            self._flow.plugins.policy.heartbeats_topic(),
            replication_factor=internal_replicas(self._flow.settings.heartbeats_topic_replication_factor, brokers),
        )
        heartbeats = Heartbeats(topic, source_alias=source, target_alias=target)
        await heartbeats.start()
        return heartbeats

    async def _wait_for_lead(self) -> None:
        """Return when this worker leads and knows the topics."""
        while not self._leads() or self._topics() is None:  # noqa: ASYNC110 - a lease ends and begins by time
            await asyncio.sleep(CHECK_INTERVAL_S)

    def _start(self, kind: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks.append(start_recurring(kind, work, until=self._ending, flow=self._flow.name))


def _least(*intervals_s: int | None) -> int:
    return min((each for each in intervals_s if each is not None), default=60)
