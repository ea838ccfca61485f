"""One link at work on this broker: its view of the source, and the partitions that this broker leads.

The view is asked for anew now and then, and soon after something has changed. It says which topics are there, under
which ids, and who leads their partitions. A partition is fetched only from the cluster, and of the topic, that its
link and its topic's record name; whatever else answers, it waits or stops with the reason.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from ottla_broker.links.failing_back import SetGroupsBack, give_up_own_records
from ottla_broker.links.link_settings import Resolve
from ottla_broker.links.link_source import host_port
from ottla_broker.links.linked_leading import begin_log_at
from ottla_broker.links.linked_partition import LinkedPartition
from ottla_broker.links.source_fetcher import SourceFetcher
from ottla_broker.links.source_range import source_range
from ottla_broker.replication.fetch_settings import FetchSettings
from ottla_broker.replication.throttle import ReplicationThrottle
from ottla_core.background import start_detached, start_recurring
from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.cluster_metadata import ClusterMetadata, TopicMetadata
from ottla_core.client.errors import AuthenticationFailed, Refused, Unreachable, UnsupportedByBroker
from ottla_core.client.security import ClientSecurity
from ottla_core.clock import Clock
from ottla_core.cluster.controller_rpc.link_api import LinkedPartitionState, PartitionStatus
from ottla_core.cluster.state.model import Link
from ottla_core.errors import ConfigurationError, KafkaError
from ottla_core.throttle_config import UNLIMITED

LOOK_EVERY_S: Final = 5.0
LOOK_PAUSE_S: Final = 0.2
"""Between two looks at the source, however often they are asked for."""
ANSWER_TIMEOUT_S: Final = 10.0
RAISE_AGAIN_S: Final = 1.0
"""Between two requests for a later leader epoch, of which one may get lost."""

logger = structlog.get_logger("links")


class ActiveLink:
    """Fetches what follows one link until it is closed.

    Args:
        link: as it is now.
        settings: of fetches.
        client_id: by which the source counts this broker.
        clock: for the time of appends.
        resolve: puts secrets in the place of references, in a thread.
        raise_epoch: has the epoch of this broker's leader raised to `wanted_epoch`.
        set_groups_back: has groups of this cluster go back to where a partition is about to be cut off.
    """

    def __init__(
        self,
        link: Link,
        settings: FetchSettings,
        *,
        client_id: str,
        clock: Clock,
        resolve: Resolve,
        raise_epoch: Callable[[LinkedPartition], None],
        set_groups_back: SetGroupsBack,
    ) -> None:
        self.link = link
        self.raise_epoch = raise_epoch
        self._settings = settings
        self._client_id = client_id
        self._clock = clock
        self._resolve = resolve
        self._linked: dict[tuple[UUID, int], LinkedPartition] = {}
        self._fetcher_of: dict[LinkedPartition, SourceFetcher] = {}
        self._fetchers: dict[int, SourceFetcher] = {}
        self._throttle = ReplicationThrottle()
        self._cluster: AsyncCluster | None = None
        self._security: ClientSecurity | None = None
        self._look_is_due = asyncio.Event()
        self._fetched_bytes_before = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._set_groups_back = set_groups_back
        self._giving_up: set[LinkedPartition] = set()
        self._set_rate()
        self._keep(start_recurring("link", self._follow_source, link=link.name))

    def __len__(self) -> int:
        return len(self._linked)

    @property
    def linked(self) -> tuple[LinkedPartition, ...]:
        """The partitions that this broker leads."""
        return tuple(self._linked.values())

    @property
    def fetched_bytes(self) -> int:
        """Bytes of records fetched since the start."""
        return self._fetched_bytes_before + sum(each.fetched_bytes for each in self._fetchers.values())

    def statuses(self) -> list[PartitionStatus]:
        """Return how far the partitions have come; one of which an answer says nothing has nothing new."""
        found = []
        for linked in self.linked:
            status, fetcher = linked.status(self.link.name), self._fetcher_of.get(linked)
            if fetcher is not None and status.state is LinkedPartitionState.RUNNING:
                status = replace(status, answered_ms=max(status.answered_ms, fetcher.answered_ms))
            found.append(status)
        return found

    def add(self, linked: LinkedPartition) -> None:
        """Fetch a partition from now on, in its leader's present epoch."""
        key = linked.partition.topic_id, linked.topic_partition.partition
        former = self._linked.get(key)
        if former is not None and former is not linked:
            self.remove(*key)
        linked.leader_epoch = linked.partition.state.leader_epoch
        self._linked[key] = linked
        fetcher = self._fetcher_of.get(linked)
        if fetcher is not None:
            fetcher.follow(linked)
        else:
            self.look_at_source()

    def get(self, topic_id: UUID, index: int) -> LinkedPartition | None:
        """Return a partition that is fetched, by its topic's id here."""
        return self._linked.get((topic_id, index))

    def remove(self, topic_id: UUID, index: int) -> None:
        """Fetch a partition no longer; nothing is appended to it after this."""
        linked = self._linked.pop((topic_id, index), None)
        if linked is not None:
            self._unfollow(linked)

    def altered(self, link: Link) -> None:
        """Go by other settings of the link from now on."""
        former, self.link = self.link, link
        self._set_rate()
        if (former.bootstrap_servers, former.settings) != (link.bootstrap_servers, link.settings):
            self._forget_source()
        self.look_at_source()

    def look_at_source(self) -> None:
        """Ask the source soon who leads what."""
        self._look_is_due.set()

    async def close(self) -> None:
        """Fetch nothing any more."""
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        fetchers, self._fetchers = tuple(self._fetchers.values()), {}
        self._linked.clear()
        self._fetcher_of.clear()
        await asyncio.gather(*tasks, *(fetcher.close() for fetcher in fetchers), return_exceptions=True)
        if self._cluster is not None:
            await self._cluster.close()

    # The view of the source

    async def _follow_source(self) -> None:
        while True:
            self._look_is_due.clear()
            await self._look()
            await asyncio.sleep(LOOK_PAUSE_S)
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._look_is_due.wait()
            except TimeoutError:
                pass

    async def _look(self) -> None:
        """Ask the source, and have each partition fetched from its leader."""
        if self.link.paused:
            for linked in self.linked:
                self._stop(linked, LinkedPartitionState.PAUSED, "the link is paused")
            return
        if not self._linked:
            return
        link = self.link
        asked_for = {linked.source_topic for linked in self.linked}
        try:
            source = await self._connected()
            metadata = await source.metadata(asked_for, timeout_s=ANSWER_TIMEOUT_S)
        except (Unreachable, AuthenticationFailed, UnsupportedByBroker, ConfigurationError) as error:
            self._wait_all(str(error), unless_fetched=isinstance(error, Unreachable))
            return
        if metadata.cluster_id != self.link.source_cluster_id:
            self._wait_all(
                f"the cluster {metadata.cluster_id or 'without an id'} answers at {source}, and not"
                f" {self.link.source_cluster_id}, of which this is a link",
                unless_fetched=False,
            )
            return
        if link is not self.link:
            return  # it was paused, say, while the source answered; a look by its present settings is due
        for linked in self.linked:
            if linked.source_topic in asked_for:  # one that was linked meanwhile would seem to be deleted there
                self._place(linked, metadata)
        self._close_idle()

    def _wait_all(self, reason: str, *, unless_fetched: bool) -> None:
        for linked in self.linked:
            if not (unless_fetched and linked in self._fetcher_of):
                self._stop(linked, LinkedPartitionState.WAITING, reason)

    def _place(self, linked: LinkedPartition, metadata: ClusterMetadata) -> None:
        """Have a partition fetched from its leader in the source, or stop it with what keeps it from that."""
        topic = metadata.topics.get(linked.source_topic)
        if (problem := _problem_of(linked, topic)) is not None:
            self._stop(linked, *problem)
            return
        assert topic is not None
        partition = topic.partitions[linked.topic_partition.partition]
        broker = metadata.brokers.get(partition.leader)
        if broker is None:
            self._stop(linked, LinkedPartitionState.WAITING, "the partition has no leader in the source")
            return
        if partition.leader_epoch > linked.leader_epoch:
            linked.wanted_epoch = partition.leader_epoch
            self.raise_epoch(linked)  # the first batch of that epoch would ask for it as well
        fetcher = self._fetchers.get(broker.id)
        if fetcher is not None and fetcher.address != broker:
            self._close(fetcher)
            fetcher = None
        if fetcher is None:
            fetcher = self._fetchers[broker.id] = self._open(broker)
        if self._fetcher_of.get(linked) is fetcher and linked.source_leader_epoch == partition.leader_epoch:
            return
        self._unfollow(linked)
        linked.source_leader_epoch = partition.leader_epoch
        self._fetcher_of[linked] = fetcher
        fetcher.follow(linked)

    def _open(self, broker: Any) -> SourceFetcher:
        assert self._security is not None
        return SourceFetcher(
            broker,
            self._settings,
            security=self._security,
            client_id=self._client_id,
            clock=self._clock,
            throttle=self._throttle,
            duties=self,
        )

    async def _connected(self) -> AsyncCluster:
        """Return the connection to the source, as the link's settings say.

        Raises:
            ConfigurationError: they cannot be used.
        """
        while self._cluster is None:
            link = self.link
            addresses = [host_port(each) for each in link.bootstrap_servers]
            security = ClientSecurity.of(await asyncio.to_thread(self._resolve, link.settings))
            if link is self.link:  # else it was altered meanwhile
                self._security = security
                self._cluster = AsyncCluster(addresses, security=security, client_id=self._client_id)
        return self._cluster

    def _forget_source(self) -> None:
        """Connect anew, by the link's present settings."""
        for linked in tuple(self._fetcher_of):
            self._unfollow(linked)
        for fetcher in tuple(self._fetchers.values()):
            self._close(fetcher)
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            self._keep(start_detached("closing a link's connections", cluster.close()))

    def _stop(self, linked: LinkedPartition, state: LinkedPartitionState, reason: str) -> None:
        self._unfollow(linked)
        linked.enter(state, reason, self._clock.time_ms())

    def _unfollow(self, linked: LinkedPartition) -> None:
        fetcher = self._fetcher_of.pop(linked, None)
        if fetcher is not None:
            fetcher.unfollow(linked)

    def _close_idle(self) -> None:
        for fetcher in [each for each in self._fetchers.values() if not len(each)]:
            self._close(fetcher)

    def _close(self, fetcher: SourceFetcher) -> None:
        if self._fetchers.get(fetcher.address.id) is fetcher:
            del self._fetchers[fetcher.address.id]
        for linked in [each for each, its in self._fetcher_of.items() if its is fetcher]:
            self._unfollow(linked)
        self._fetched_bytes_before += fetcher.fetched_bytes
        self._keep(start_detached("closing a link's fetcher", fetcher.close()))

    def _set_rate(self) -> None:
        rate = self.link.bytes_per_second
        self._throttle.set_rate(UNLIMITED if rate is None else rate)

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Where the source's log begins

    def find_start(self, linked: LinkedPartition, done: Callable[[], None]) -> None:
        """Ask where the source's log begins and ends, and have the partition go on there; call `done` then."""
        self._keep(start_detached("link offsets", self._find_start(linked, done), link=self.link.name))

    async def _find_start(self, linked: LinkedPartition, done: Callable[[], None]) -> None:
        leader_epoch, partition = linked.leader_epoch, linked.partition
        try:
            found = await source_range(partial(self._ask, self._fetcher_of[linked].address.id), linked)
            if linked not in self._fetcher_of or linked.leader_epoch != leader_epoch:
                return
            now_ms = self._clock.time_ms()
            begin_at = linked.resume_within(found, now_ms)
            if begin_at is not None:
                async with partition.log.truncation.prepared(partition.log.log_start_offset):
                    begin_log_at(partition, begin_at, leader_epoch=leader_epoch, link=self.link.id, now_ms=now_ms)
                await partition.log.truncation.settled()
        except (KafkaError, Unreachable, AuthenticationFailed, UnsupportedByBroker, Refused) as error:
            logger.info("cannot find where a source begins", partition=str(linked.topic_partition), error=str(error))
            return  # the pause ends by itself
        if linked.state is not LinkedPartitionState.SOURCE_TRUNCATED:
            done()

    async def _ask(self, broker_id: int, request: Any) -> Any:
        if self._cluster is None:
            raise Unreachable(f"link {self.link.name} (it connects anew)")
        return await self._cluster.ask_broker(broker_id, request, timeout_s=ANSWER_TIMEOUT_S)

    # What was written here before

    def set_aside(self, linked: LinkedPartition, done: Callable[[], None]) -> None:
        """Write what the source does not have elsewhere, and cut it off; call `done` then."""
        if linked not in self._giving_up:  # else it takes longer than the pause, and goes on
            self._giving_up.add(linked)
            self._keep(start_detached("setting records aside", self._set_aside(linked, done), link=self.link.name))

    async def _set_aside(self, linked: LinkedPartition, done: Callable[[], None]) -> None:
        try:
            has_ended = await give_up_own_records(
                linked, link=self.link.id, set_groups_back=self._set_groups_back, clock=self._clock
            )
        finally:
            self._giving_up.discard(linked)
        if has_ended:
            await self._have_epoch_raised(linked)
            done()

    async def _have_epoch_raised(self, linked: LinkedPartition) -> None:
        """Ask for a later leader epoch until there is one, as consumers are held until then."""
        linked.wanted_epoch = linked.leader_epoch + 1
        while linked.partition.was_cut and linked.partition.leads:
            self.raise_epoch(linked)
            await asyncio.sleep(RAISE_AGAIN_S)


def _problem_of(linked: LinkedPartition, topic: TopicMetadata | None) -> tuple[LinkedPartitionState, str] | None:
    """Return what keeps a partition from being fetched, as far as the source's metadata tell."""
    name = linked.source_topic
    if topic is None or topic.error is ErrorCode.unknown_topic_or_partition:
        return LinkedPartitionState.SOURCE_DELETED, f"the source has no topic {name}"
    if topic.error in (ErrorCode.topic_authorization_failed, ErrorCode.invalid_topic_exception):
        return LinkedPartitionState.FAILED, f"the source answers {topic.error.name} for topic {name}"
    if topic.error is not ErrorCode.none:
        return LinkedPartitionState.WAITING, f"the source answers {topic.error.name} for topic {name}"
    if topic.id != linked.topic_id:
        return (
            LinkedPartitionState.SOURCE_RECREATED,
            f"the source has another topic {name}, {topic.id}, than the one that is followed, {linked.topic_id}",
        )
    if linked.topic_partition.partition not in topic.partitions:
        return (
            LinkedPartitionState.WAITING,
            f"the source has no partition {linked.topic_partition.partition} of {name}",
        )
    return None
