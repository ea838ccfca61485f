"""The copies of one flow in this worker: opens what a `Copier` needs, tells it what to copy, and measures it.

A copier is made when the worker has partitions of the flow for the first time; until then nothing is connected.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from ottla_core.client.cluster import AsyncCluster
from ottla_core.errors import OttlaError
from ottla_mirror.config.clients import ClientConfig
from ottla_mirror.config.mirror_config import FlowConfig
from ottla_mirror.config.worker_settings import WorkerSettings
from ottla_mirror.copy.copier import Copier
from ottla_mirror.copy.copy_settings import CopySettings, TransactionSettings
from ottla_mirror.copy.partition_work import PartitionStatus
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.map_topic import MapTopic, map_topic_name
from ottla_mirror.offsets.offset_sync_writer import (
    OffsetSyncingStore,
    OffsetSyncingTransactions,
    OffsetSyncWriter,
)
from ottla_mirror.offsets.stored_copy import CopyStore, TransactionalStore
from ottla_mirror.state.flow_records import ClusterIds
from ottla_mirror.workers.assignment import Work
from ottla_mirror.workers.clusters import connected, internal_replicas
from ottla_mirror.workers.copy_rates import CopyRates, Sample
from ottla_mirror.workers.memory_shares import MemoryShares

RETRY_PAUSE_S: Final = 2.0
MEASURE_INTERVAL_S: Final = 1.0
ANSWER_GRACE_S: Final = 15.0
COORDINATOR_CONNECTIONS: Final = 4
"""To each coordinator, of a flow with transactions: a broker answers the requests of a connection one by one."""

log = structlog.get_logger("flows")


class FlowCopy:
    """Copies the partitions of a flow that this worker was given.

    Args:
        flow: its configuration.
        worker: the worker's settings.
        memory: of the worker, of which the flow has a share.

    Attributes:
        problem: why nothing can be copied at present; empty if it can.
        check: asked before the first copy for the clusters between which it is; raises an `OttlaError` where these
            are not the flow's. To be set before `run`.
        began_with: how many partitions the source of a topic of the target had when the flow began with it; None
            where nobody knows. To be set before `run`.
    """

    def __init__(self, flow: FlowConfig, worker: WorkerSettings, memory: MemoryShares) -> None:
        self.problem = ""
        self.check: Callable[[], Awaitable[ClusterIds]] | None = None
        self.began_with: Callable[[str], int | None] = lambda _: None
        self._flow = flow
        self._worker = worker
        self._memory = memory
        self._wanted: dict[SourcePartition, str] = {}
        self._assigned: dict[SourcePartition, str] = {}
        self._paused = False
        self._throttle: float | None = None
        self._changed = asyncio.Event()
        self._copier: Copier | None = None
        self._store: MapTopic | None = None
        self._syncs: OffsetSyncWriter | None = None
        self._clusters: list[AsyncCluster] = []
        self._rates: dict[SourcePartition, CopyRates] = {}

    @property
    def store(self) -> MapTopic | None:
        """What is stored of all partitions of the flow; None before this worker has copied any."""
        return self._store

    def assign(self, work: Work) -> None:
        """Copy these partitions, and no others any more."""
        self._wanted = {
            SourcePartition(topic=each.topic, topic_id=names.topic_id, partition=each.partition): names.remote_topic
            for each in work.partitions
            for names in (work.names(each),)
        }
        self._changed.set()

    def steer(self, *, paused: bool, throttle_bytes_per_s: int | None, partitions_of_all: int) -> None:
        """Keep to this: of a throttle the worker has the share that it has of the partitions."""
        share = None
        if throttle_bytes_per_s is not None:
            share = throttle_bytes_per_s * len(self._wanted) / max(partitions_of_all, 1)
        if (paused, share) != (self._paused, self._throttle):
            self._paused, self._throttle = paused, share
            self._changed.set()

    def statuses(self) -> Mapping[SourcePartition, PartitionStatus]:
        """Return how each partition fares that is copied."""
        return self._copier.status() if self._copier is not None else {}

    def wanted(self) -> Mapping[SourcePartition, str]:
        """Return the partitions that shall be copied, and their topics at the target."""
        return self._wanted

    def rates(self, partition: SourcePartition) -> CopyRates:
        """Return how fast a partition is copied."""
        return self._rates.setdefault(partition, CopyRates())

    def retry(self) -> None:
        """Try again to copy partitions that have halted."""
        for partition in self.statuses() if self._copier is not None else ():
            assert self._copier is not None
            self._copier.retry(partition)

    async def run(self) -> None:
        """Copy until cancelled."""
        while True:
            try:
                if self._wanted and self._copier is None:
                    # Every worker looks for itself: its configuration may name another cluster than the leader's.
                    assert self.check is not None
                    self._copier = await self._opened(await self.check())
                await self._follow()
                self.problem = ""
            except OttlaError as error:
                if str(error) != self.problem:
                    log.warning("flow cannot be copied", flow=self._flow.name, reason=str(error))
                self.problem = str(error)
                await asyncio.sleep(RETRY_PAUSE_S)
                continue
            self._measure()
            try:
                async with asyncio.timeout(MEASURE_INTERVAL_S):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def close(self) -> None:
        """Stop, with everything stored that was copied."""
        self._memory.leave(self)
        if self._copier is not None:
            await self._copier.close()
        await self._close_what_is_open()

    async def _close_what_is_open(self) -> None:
        syncs, self._syncs = self._syncs, None
        if syncs is not None:
            await syncs.close()
        clusters, self._clusters = self._clusters, []
        for cluster in clusters:
            await cluster.close()

    async def _follow(self) -> None:
        """Have the copier do what was said last."""
        is_changed = self._changed.is_set()
        self._changed.clear()  # before anything is awaited: what changes meanwhile counts the next time
        if self._copier is None:
            return
        self._copier.limit_buffer(self._memory.share_bytes)
        if not is_changed:
            return
        try:
            await self._steer_copier(self._copier)
        except BaseException:
            self._changed.set()  # or what failed unexpectedly would wait for the next change
            raise

    async def _steer_copier(self, copier: Copier) -> None:
        if self._wanted != self._assigned:
            wanted = dict(self._wanted)
            await copier.assign(wanted)
            self._assigned = wanted
        if self._paused:
            copier.pause()
        else:
            copier.resume()
        copier.throttle(self._throttle)

    async def _opened(self, ids: ClusterIds) -> Copier:
        try:
            return await self._open(ids)
        except BaseException:
            await self._close_what_is_open()  # or each attempt would leave its connections behind
            raise

    async def _open(self, ids: ClusterIds) -> Copier:
        source = self._cluster(self._flow.source_clients.consumer, ids.source)
        target = self._cluster(self._flow.target_clients.producer, ids.target)
        brokers = len((await target.metadata(())).brokers)
        topic = InternalTopic(
            target,
            map_topic_name(self._flow.source),
            replication_factor=internal_replicas(self._worker.map_topic_replication_factor, brokers),
        )
        store = MapTopic(topic)
        await store.start()
        self._store = store
        self._changed.set()
        is_transactional = self._flow.settings.is_transactional
        kept: CopyStore | TransactionalStore = store
        if self._flow.settings.emit_offset_syncs_enabled:
            self._syncs = self._offset_syncs(target, ids)
            kept = (OffsetSyncingTransactions if is_transactional else OffsetSyncingStore)(store, self._syncs)
        self._memory.join(self)
        settings = replace(copy_settings(self._flow, self._memory.share_bytes), is_added=self._is_added)
        count = COORDINATOR_CONNECTIONS if is_transactional else 0
        coordinators = [self._cluster(self._flow.target_clients.producer, ids.target) for _ in range(count)]
        return Copier(source, target, kept, settings, coordinators)

    def _is_added(self, partition: SourcePartition) -> bool:
        """Return whether a partition has been added to its topic since the flow began with that."""
        remote_topic = self._wanted.get(partition)
        began_with = None if remote_topic is None else self.began_with(remote_topic)
        return began_with is not None and partition.partition >= began_with

    def _offset_syncs(self, target: AsyncCluster, ids: ClusterIds) -> OffsetSyncWriter:
        """Begin to write MirrorMaker's offset syncs, at the cluster that is to have them."""
        flow = self._flow
        cluster, other = target, flow.source
        if flow.settings.offset_syncs_topic_location == "source":
            cluster, other = self._cluster(flow.source_clients.producer, ids.source), flow.target
        topic = InternalTopic(
            cluster,
            flow.plugins.policy.offset_syncs_topic(other),
            replication_factor=flow.settings.offset_syncs_topic_replication_factor,
        )
        writer = OffsetSyncWriter(topic, offset_lag_max=flow.settings.offset_lag_max)
        writer.start()
        return writer

    def _cluster(self, client: ClientConfig, cluster_id: str) -> AsyncCluster:
        cluster = connected(client)
        cluster.expect(cluster_id)
        self._clusters.append(cluster)
        return cluster

    def _measure(self) -> None:
        now_s = time.monotonic()
        statuses = self.statuses()
        for partition in [each for each in self._rates if each not in statuses]:
            del self._rates[partition]
        for partition, status in statuses.items():
            self.rates(partition).take(Sample(now_s, status.records, status.bytes, status.source_end))


def copy_settings(flow: FlowConfig, buffer_bytes_max: int) -> CopySettings:
    """Return what a flow's settings mean to a copier."""
    reader, writer = flow.source_clients.consumer, flow.target_clients.producer
    produce_timeout_ms = writer.numbers["request.timeout.ms"]
    fetch_wait_ms = reader.numbers["fetch.max.wait.ms"]
    return CopySettings(
        buffer_bytes_max=buffer_bytes_max,
        fetch_bytes_max=min(reader.numbers["fetch.max.bytes"], buffer_bytes_max),
        partition_bytes_max=reader.numbers["max.partition.fetch.bytes"],
        fetch_wait_ms=fetch_wait_ms,
        request_bytes_max=writer.numbers["max.request.size"],
        produce_timeout_ms=produce_timeout_ms,
        answer_timeout_s=max(produce_timeout_ms, fetch_wait_ms) / 1000 + ANSWER_GRACE_S,
        save_interval_s=flow.settings.flush_interval_ms / 1000,
        start=reader.start,
        dead_letter_topic=dead_letter_topic(flow),
        source_alias=flow.source,
        transactions=transaction_settings(flow),
    )


def transaction_settings(flow: FlowConfig) -> TransactionSettings | None:
    """Return how a flow is written in transactions; None if it is not."""
    if not flow.settings.is_transactional:
        return None
    return TransactionSettings(
        interval_s=flow.settings.offset_flush_interval_ms / 1000,
        bytes_max=flow.settings.transaction_bytes_max,
        timeout_ms=flow.target_clients.producer.numbers["transaction.timeout.ms"],
    )


def dead_letter_topic(flow: FlowConfig) -> str | None:
    """Return the topic for batches that the target refuses; None where they halt their partition."""
    if flow.settings.refused_batches == "halt":
        return None
    return flow.settings.refused_batches_topic or f"{flow.source}.refused"
