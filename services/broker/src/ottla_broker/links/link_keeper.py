"""Keeping one link in step with its source, from the one broker whose duty that is.

Two rounds come again and again. The first asks the source for its topics, and the controller for what is not so here
(`keeping_plan.py`). The second reads the offsets of the source's groups, asks the leaders here how far they have
come, and stores what is safe to store (`group_offsets.py`), in this order: what the leaders say must be from after
the groups have committed. Every effect is looked at again where it is made: topics by the controller, offsets by the
group's coordinator. So this needs no lease, and another broker that believes to keep the link, too, does no harm.

A round that fails is tried again after the interval; the link's status says why.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from ottla_broker.links.group_offsets import offsets_to_store
from ottla_broker.links.keeping_plan import linked_topics, plan_keeping, topics_to_describe
from ottla_broker.links.keeping_report import KeepingReport
from ottla_broker.links.link_settings import Resolve
from ottla_broker.links.link_source import LinkSource
from ottla_core.background import start_recurring
from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.cluster_metadata import ClusterMetadata
from ottla_core.client.errors import Refused
from ottla_core.client.group.cluster_groups import ClusterGroups, GroupError
from ottla_core.client.group.offset_requests import CommitResult, CommittedOffset, consumes
from ottla_core.client.links import LinkStatus
from ottla_core.client.topic_settings import topic_settings
from ottla_core.clock import Clock
from ottla_core.cluster.controller_rpc import link_messages
from ottla_core.cluster.controller_rpc.controller_client import ControllerClient
from ottla_core.cluster.controller_rpc.link_api import (
    LinkKeeping,
    LinkProblem,
    LinkProblemKind,
    NewLinkedTopic,
    PartitionStatus,
)
from ottla_core.cluster.state.link_properties import follows_group, keeper_of, properties_of
from ottla_core.cluster.state.model import ClusterState, Link
from ottla_core.errors import OttlaError
from ottla_core.random_ids import random_uuid
from ottla_core.topic_partition import TopicPartition
from ottla_proto.gen.ottla import links_pb2 as pb

ANSWER_TIMEOUT_S: Final = 10.0
ROUND_TIMEOUT_S: Final = 300.0
CONTROLLER_TIMEOUT_S: Final = 30.0
TOPICS_PER_REQUEST: Final = 100
GROUPS_AT_ONCE: Final = 200
"""So many groups' offsets are in memory, before leaders are asked how far they have come."""

logger = structlog.get_logger("links")


class Registration(Protocol):
    """This broker's registration."""

    @property
    def registered_epoch(self) -> int:
        """The epoch of the latest one."""


class FollowingClusterGroups(Protocol):
    """The groups of the cluster that follows; see `LocalGroupOffsets`."""

    async def take_forward(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], topic_ids: Mapping[str, UUID]
    ) -> CommitResult:
        """Have a group without members go on at some offsets, where it is not there yet or further."""


class Statuses(Protocol):
    """The statuses of all brokers; see `LinkStatuses`."""

    async def gathered(self, names: tuple[str, ...]) -> LinkStatus:
        """Return what all brokers know of some links."""


class NotMine(OttlaError):
    """The link is not to be kept by this broker any more, or not now."""


class LinkKeeper:
    """Keeps one link until it is closed.

    Args:
        link: as it is now.
        broker_id: this broker.
        registration: of this broker, as the controller knows it.
        state: returns the newest cluster state.
        controller: changes topics.
        groups: stores offsets.
        statuses: knows how far partitions have come.
        resolve: puts secrets in the place of references, in a thread.
        clock: says when a round began.
    """

    def __init__(
        self,
        link: Link,
        *,
        broker_id: int,
        registration: Registration,
        state: Callable[[], ClusterState],
        controller: ControllerClient,
        groups: FollowingClusterGroups,
        statuses: Statuses,
        resolve: Resolve,
        clock: Clock,
    ) -> None:
        self._link_id = link.id
        self._broker_id = broker_id
        self._registration = registration
        self._state = state
        self._controller = controller
        self._groups = groups
        self._statuses = statuses
        self._clock = clock
        self._source = LinkSource(resolve, client_id=f"link-{link.name}-keeper-{broker_id}")
        self._report = KeepingReport(link.name, broker_id)
        self._is_altered = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._task = start_recurring("link keeper", self._keep, link=link.name)

    @property
    def keeping(self) -> LinkKeeping:
        """How the link is kept in step."""
        return self._report.told()

    def altered(self) -> None:
        """Look at everything anew, as the link says now."""
        self._is_altered.set()

    async def look_now(self) -> None:
        """Return when everything has been looked at anew, from now on; at once if the link is not to be kept now."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._is_altered.set()
        await done

    async def close(self) -> None:
        """Keep the link no longer."""
        self._task.cancel()
        self._answer(self._waiting)
        await asyncio.gather(self._task, return_exceptions=True)
        await self._source.close()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        topics_due_s = groups_due_s = loop.time()
        while True:
            self._is_altered.clear()
            waiting, self._waiting = self._waiting, []
            try:
                link = self._mine()
            except NotMine:  # as soon as it is mine again, or is resumed, it is altered
                self._report.rests()
                self._answer(waiting)
                await self._is_altered.wait()
                topics_due_s = groups_due_s = loop.time()
                continue
            properties = properties_of(link)
            if loop.time() >= topics_due_s:
                await self._refresh_topics(link)
                topics_due_s = loop.time() + properties.refresh_topics_interval_seconds
            if loop.time() >= groups_due_s:
                await self._sync_groups(link)
                groups_due_s = loop.time() + properties.sync_group_offsets_interval_seconds
            self._answer(waiting)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(topics_due_s, groups_due_s)):
                    await self._is_altered.wait()
            if self._is_altered.is_set():
                topics_due_s = groups_due_s = loop.time()

    def _answer(self, waiting: "list[asyncio.Future[None]]") -> None:
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def _mine(self) -> Link:
        """Return the link as it is now.

        Raises:
            NotMine: it is gone or paused, or another broker keeps it.
        """
        state = self._state()
        link = state.link_of(self._link_id)
        if link is None or link.paused or keeper_of(link.id, state.brokers) != self._broker_id:
            raise NotMine(f"broker {self._broker_id} does not keep the link now")
        return link

    # Topics

    async def _refresh_topics(self, link: Link) -> None:
        if not properties_of(link).refresh_topics_enabled:
            self._report.topics_in_step((), self._report.topics_ms)
            return
        began_ms = self._clock.time_ms()
        try:
            async with asyncio.timeout(ROUND_TIMEOUT_S):
                problems = await self._topics_round(link)
        except NotMine:
            return
        except (OttlaError, TimeoutError) as error:
            self._failed("topics", error)
            return
        self._report.topics_in_step(problems, began_ms)

    async def _topics_round(self, link: Link) -> list[LinkProblem]:
        """Ask the source for its topics, and the controller for what is not so here."""
        source = await self._source.connected(link)
        found = (await self._metadata(source, link, None)).topics
        names = topics_to_describe(link, found, self._state())
        settings = await topic_settings(source, names, timeout_s=ANSWER_TIMEOUT_S)
        plan = plan_keeping(link, found, settings, self._state(), random_uuid)
        problems = list(plan.problems)
        for start in range(0, len(plan.wanted), TOPICS_PER_REQUEST):
            problems += await self._have_kept(plan.wanted[start : start + TOPICS_PER_REQUEST])
        return problems

    async def _have_kept(self, wanted: Sequence[NewLinkedTopic]) -> list[LinkProblem]:
        """Have the controller bring topics in step, which looks at everything again; return what it refuses."""
        request = pb.KeepLinkRequest(
            link_id=self._mine().id.bytes,
            broker_id=self._broker_id,
            broker_epoch=self._registration.registered_epoch,
            topics=link_messages.NEW_LINKED_TOPIC.to_messages(wanted),
        )
        answer = await self._controller.forward("KeepLink", request, timeout_s=CONTROLLER_TIMEOUT_S)
        results = link_messages.LINKED_TOPIC_RESULT.from_messages(answer.topics)
        return [
            LinkProblem(kind=LinkProblemKind.TOPIC_REFUSED, name=each.topic, reason=each.error_message or "")
            for each in results
            if each.error_code is not ErrorCode.none
        ]

    # Groups

    async def _sync_groups(self, link: Link) -> None:
        if not (properties_of(link).sync_group_offsets_enabled and link.groups):
            self._report.groups_in_step((), 0, self._report.groups_ms)
            return
        began_ms = self._clock.time_ms()
        try:
            async with asyncio.timeout(ROUND_TIMEOUT_S):
                problems, count = await self._groups_round(link)
        except NotMine:
            return
        except (OttlaError, TimeoutError) as error:
            self._failed("groups", error)
            return
        self._report.groups_in_step(problems, count, began_ms)

    async def _groups_round(self, link: Link) -> tuple[list[LinkProblem], int]:
        """Take this cluster's groups to where the source's are."""
        source = await self._source.connected(link)
        groups = ClusterGroups(source, timeout_s=ANSWER_TIMEOUT_S)
        await self._metadata(source, link, ())
        listed = await groups.list()
        chosen = sorted(name for name, each in listed.items() if consumes(each) and follows_group(link, name))
        problems: list[LinkProblem] = []
        for start in range(0, len(chosen), GROUPS_AT_ONCE):
            problems += await self._sync_some(link, source, groups, chosen[start : start + GROUPS_AT_ONCE])
        return problems, len(chosen)

    async def _sync_some(
        self, link: Link, source: AsyncCluster, groups: ClusterGroups, chosen: Sequence[str]
    ) -> list[LinkProblem]:
        here = {name: topic.name for name, topic in linked_topics(link, self._state()).items()}
        problems: list[LinkProblem] = []
        found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        for group in chosen:
            try:
                offsets = await groups.offsets(group)
            except (GroupError, Refused) as error:
                problems.append(_group_failed(group, str(error)))
                continue
            found[group] = {
                TopicPartition(here[each.topic], each.partition): at
                for each, at in offsets.items()
                if each.topic in here
            }
        if not any(found.values()):
            return problems
        # Offsets of a topic that was made anew in the source are not those of the topic that is followed.
        topic_ids = await self._same_topics(link, source, {each.topic for at in found.values() for each in at})
        statuses = _by_partition((await self._statuses.gathered((link.name,))).partitions)
        for group, offsets in found.items():
            same = {each: at for each, at in offsets.items() if each.topic in topic_ids}
            problem = await self._store(group, offsets_to_store(same, statuses), topic_ids)
            problems += [problem] if problem is not None else []
        return problems

    async def _same_topics(self, link: Link, source: AsyncCluster, names: Collection[str]) -> dict[str, UUID]:
        """Return the ids here of those topics that follow the very topic that the source has now."""
        followed = {topic.name: topic for topic in linked_topics(link, self._state()).values() if topic.name in names}
        origins = {name: topic.origin for name, topic in followed.items() if topic.origin is not None}
        metadata = await self._metadata(source, link, {each.source_topic for each in origins.values()})
        return {
            name: followed[name].id
            for name, origin in origins.items()
            if (topic := metadata.topics.get(origin.source_topic)) is not None and topic.id == origin.source_topic_id
        }

    async def _store(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], topic_ids: Mapping[str, UUID]
    ) -> LinkProblem | None:
        """Take a group forward, if the link still says so; return why that was not done."""
        link = self._mine()
        if not follows_group(link, group) or not properties_of(link).sync_group_offsets_enabled or not offsets:
            return None
        try:
            result = await self._groups.take_forward(group, offsets, topic_ids)
        except (OttlaError, TimeoutError) as error:
            return _group_failed(group, str(error) or "its coordinator does not answer")
        if result.is_in_use:
            return LinkProblem(kind=LinkProblemKind.GROUP_IN_USE, name=group, reason="it has members here")
        if result.failures:
            partition, why = next(iter(result.failures.items()))
            return _group_failed(group, f"{len(result.failures)} offsets are not stored, {partition}: {why}")
        return None

    # The source

    async def _metadata(self, source: AsyncCluster, link: Link, topics: Collection[str] | None) -> ClusterMetadata:
        """Ask the source, and see that it is the link's.

        Raises:
            OttlaError: it does not answer, or another cluster does.
        """
        found = await source.metadata(topics, timeout_s=ANSWER_TIMEOUT_S)
        if found.cluster_id != link.source_cluster_id:
            raise OttlaError(
                f"the cluster {found.cluster_id or 'without an id'} answers at {source}, and not"
                f" {link.source_cluster_id}, of which this is a link"
            )
        return found

    def _failed(self, what: str, error: Exception) -> None:
        reason = str(error) or f"no answer within {ROUND_TIMEOUT_S:.0f} s"
        logger.warning("a link is not in step", link=self._report.link, what=what, error=reason)
        self._report.failed(what, reason)


def _by_partition(statuses: Sequence[PartitionStatus]) -> dict[TopicPartition, PartitionStatus]:
    return {TopicPartition(each.topic, each.index): each for each in statuses}


def _group_failed(group: str, reason: str) -> LinkProblem:
    return LinkProblem(kind=LinkProblemKind.GROUP_FAILED, name=group, reason=reason)
