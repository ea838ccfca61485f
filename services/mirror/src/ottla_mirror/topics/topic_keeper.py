"""Keeps a flow's topics at the target as they are at the source: the duty of the worker that leads.

Every look at both clusters ends in changes that `topic_sync.py` has planned. Before the effect the worker asks again
whether it leads: a former leader that was paused must not undo what its successor has done.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import structlog

from ottla_core.client.cluster_metadata import ClusterMetadata
from ottla_core.described_settings import TopicSetting
from ottla_mirror.config.mirror_config import FlowConfig
from ottla_mirror.internal_topics.topic_requests import Entry
from ottla_mirror.state.flow_records import FlowState, topic_record
from ottla_mirror.topics.topic_acls import missing_bindings
from ottla_mirror.topics.topic_admin import BINDINGS_AT_ONCE, SettingsRefused, TopicAdmin, TopicChangeRefused
from ottla_mirror.topics.topic_configs import changes, settings_of_new_topic, wanted_settings
from ottla_mirror.topics.topic_selection import is_copied
from ottla_mirror.topics.topic_sync import CopiedTopic, NewTopic, TopicPlan, plan_topics

REPLICAS_DEFAULT: Final = 2
"""MirrorMaker's, where nothing is written; fewer where the target has fewer brokers."""
LOOKS_BEFORE_DELETION: Final = 2
"""A topic of the source has to be missing in so many looks before its copy is deleted."""

log = structlog.get_logger("topics")


class NoLeader(Exception):
    """This worker does not lead any more."""


class WritesRecords(Protocol):
    """Where notes about flows are kept."""

    @property
    def state(self) -> FlowState:
        """What has been noted."""

    async def write(self, entries: Sequence[Entry]) -> None:
        """Note something, and return when it is stored."""


class TopicKeeper:
    """The topics of one flow.

    Args:
        flow: its configuration.
        source: topics of the source.
        target: topics of the target.
        store: where it notes which topics it has made.
        leads: whether this worker leads, and nobody else can.
    """

    def __init__(
        self,
        flow: FlowConfig,
        *,
        source: TopicAdmin,
        target: TopicAdmin,
        store: WritesRecords,
        leads: Callable[[], bool],
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._store = store
        self._leads = leads
        self._missing: dict[str, int] = {}

    async def look(self) -> TopicPlan:
        """Look at both clusters, make and extend topics, and return how things are then.

        Raises:
            NoLeader: this worker does not lead any more.
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
            InternalTopicError: what is made cannot be noted.
        """
        plan = await self._plan()
        failed: dict[str, str] = {}
        brokers = len((await self._target.metadata(())).brokers)
        settings = await self._source.settings([each.topic for each in plan.new])
        for new in plan.new:
            await self._try(new.topic, failed, partial(self._make, new, settings.get(new.topic, {}), brokers))
        for grown in plan.grown:
            extend = partial(self._target.extend, grown.remote_topic, grown.partitions)
            await self._try(grown.topic, failed, extend)
        await self._note_known(plan)
        if self._flow.settings.sync_topic_deletions_enabled:
            await self._delete_gone(plan.gone)
        if plan.new or plan.grown:
            plan = await self._plan()
        growing = {grown.topic: f"{grown.remote_topic} is given more partitions" for grown in plan.grown}
        return TopicPlan(
            copied=plan.copied,
            refused=plan.refused,
            waiting={**{new.topic: "it is being made" for new in plan.new}, **growing, **plan.waiting, **failed},
        )

    async def sync_settings(self, copied: Mapping[str, CopiedTopic]) -> dict[str, str]:
        """Have topics of the target say what those of the source say; returns what was refused, by topic.

        Raises:
            NoLeader, Unreachable, AuthenticationFailed, UnsupportedByBroker: see `look`.
        """
        source = await self._source.settings(sorted(copied))
        target = await self._target.settings(sorted(each.remote_topic for each in copied.values()))
        refused: dict[str, str] = {}
        for topic, each in sorted(copied.items()):
            if topic not in source or each.remote_topic not in target:
                continue
            wanted = wanted_settings(source[topic], self._flow.plugins.properties)
            different = changes(wanted, target[each.remote_topic])
            if different:
                await self._try(topic, refused, partial(self._alter, each.remote_topic, different))
        return refused

    async def sync_acls(self, copied: Mapping[str, CopiedTopic]) -> None:
        """Have copies say of who may read them what their topics say.

        Raises:
            TopicChangeRefused: a cluster does not show, or does not create, access control lists.
            NoLeader, Unreachable, AuthenticationFailed, UnsupportedByBroker: see `look`.
        """
        source = await self._source.topic_acls()
        if source is None:
            return  # nobody has to be allowed anything there
        target = await self._target.topic_acls()
        if target is None:
            raise TopicChangeRefused(
                f"{self._flow.target} has no access control lists, as no authorizer.class.name is set there; set it, "
                "or sync.topic.acls.enabled=false"
            )
        missing = missing_bindings(source, target, {topic: each.remote_topic for topic, each in copied.items()})
        for begin in range(0, len(missing), BINDINGS_AT_ONCE):
            self._check_leads()
            await self._target.create_acls(missing[begin : begin + BINDINGS_AT_ONCE])
        if missing:
            log.info("access control lists copied", flow=self._flow.name, bindings=len(missing))

    async def _plan(self) -> TopicPlan:
        source, target = await self._source.metadata(), await self._target.metadata()
        state = self._store.state
        return plan_topics(
            self._wanted(source),
            source=source.topics,
            target=target.topics,
            made=state.made_by(self._flow.name),
            made_by_others=state.made_by_others(self._flow.name),
            existing=self._flow.settings.existing_topics,
        )

    def _wanted(self, source: ClusterMetadata) -> dict[str, str]:
        flow = self._flow
        return {
            topic: flow.plugins.policy.format_remote_topic(flow.source, topic)
            for topic, found in source.topics.items()
            if is_copied(
                topic,
                is_internal=found.is_internal,
                target=flow.target,
                plugins=flow.plugins,
                heartbeats_replicated=flow.settings.heartbeats_replication_enabled,
            )
        }

    async def _make(self, new: NewTopic, settings: Mapping[str, TopicSetting], brokers: int) -> None:
        wanted = settings_of_new_topic(settings, self._flow.plugins.properties)
        replicas = self._flow.settings.replication_factor or max(min(REPLICAS_DEFAULT, brokers), 1)
        # Noted before it is made: whoever finds it after a crash knows whose it is.
        # Somebody may have deleted the copy of a topic that has grown since the flow began with it.
        began_with = self._store.state.began_with(self._flow.name, new.remote_topic)
        first = new.partitions if began_with is None else min(began_with, new.partitions)
        await self._store.write([topic_record(self._flow.name, new.remote_topic, new.topic, first)])
        try:
            self._check_leads()
            await self._target.create(
                new.remote_topic, partitions=new.partitions, replication_factor=replicas, settings=wanted
            )
        except SettingsRefused as error:
            log.warning("settings refused", flow=self._flow.name, topic=new.remote_topic, reason=str(error))
            self._check_leads()
            await self._target.create(
                new.remote_topic, partitions=new.partitions, replication_factor=replicas, settings={}
            )
            await self._set_one_by_one(new.remote_topic, wanted)
        log.info("topic made", flow=self._flow.name, topic=new.remote_topic, partitions=new.partitions)

    async def _set_one_by_one(self, topic: str, wanted: Mapping[str, str]) -> None:
        for name, value in wanted.items():
            try:
                await self._target.alter(topic, {name: value})
            except TopicChangeRefused as error:
                log.warning("setting refused", flow=self._flow.name, topic=topic, setting=name, reason=str(error))

    async def _alter(self, topic: str, different: Mapping[str, str | None]) -> None:
        self._check_leads()
        await self._target.alter(topic, different)
        log.info("settings changed", flow=self._flow.name, topic=topic, settings=sorted(different))

    async def _note_known(self, plan: TopicPlan) -> None:
        """Note the topics that are adopted, and with how many partitions the flow began where that is not known."""
        state, flow = self._store.state, self._flow.name
        made = state.made_by(flow)
        grown = {each.topic: each.partitions for each in plan.grown}
        entries = [
            topic_record(flow, each.remote_topic, each.topic, grown.get(each.topic, each.partitions))
            for each in plan.copied.values()
            if each.remote_topic not in made or state.began_with(flow, each.remote_topic) is None
        ]
        if entries:
            self._check_leads()
            await self._store.write(entries)

    async def _delete_gone(self, gone: Sequence[str]) -> None:
        self._missing = {remote: self._missing.get(remote, 0) + 1 for remote in gone}
        for remote, looks in self._missing.items():
            topic = self._store.state.made_by(self._flow.name).get(remote)
            if looks < LOOKS_BEFORE_DELETION or topic is None:
                continue
            # Asked again just before the effect: without it a topic that has just come back would lose its copy.
            if await self._source.exists(topic):
                continue
            self._check_leads()
            await self._target.delete(remote)
            await self._store.write([topic_record(self._flow.name, remote, None)])
            log.warning("topic deleted", flow=self._flow.name, topic=remote, source=topic)

    def _check_leads(self) -> None:
        if not self._leads():
            raise NoLeader

    async def _try(self, topic: str, failed: dict[str, str], work: Callable[[], Awaitable[None]]) -> None:
        """Do something for one topic; what a cluster refuses is told, and keeps no other topic waiting."""
        self._check_leads()
        try:
            await work()
        except TopicChangeRefused as error:
            failed[topic] = str(error)
            log.warning("topic not kept", flow=self._flow.name, topic=topic, reason=str(error))
