"""What one user sees of one cluster, kept for seconds: brokers and topics, rates, health.

Metadata is asked for when a page wants it. Sizes, ends of logs and hence rates take longer, so they are looked at in
the background while somebody looks at a page, and a page shows the newest that there are.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla_console.clusters.cached import Cached
from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.consumer_surveys import ConsumerSurveys
from ottla_console.clusters.event_log import EventLog
from ottla_console.views.lag_history import LagHistories
from ottla_console.views.topic_growth import TopicHistories
from ottla_core.background import start_detached
from ottla_operations.activity.activity import Activity, activity
from ottla_operations.activity.sample import Sample, Sampler
from ottla_operations.cluster.cluster_view import ClusterView, OwnSettings
from ottla_operations.cluster.described_configs import own_broker_settings, own_topic_settings
from ottla_operations.doctor.findings import Finding
from ottla_operations.doctor.gathering import Addresses, facts_of
from ottla_operations.doctor.rules import findings
from ottla_operations.errors import OperationError
from ottla_operations.groups.lag_seconds import LagSeconds, ask_lag_seconds

VIEW_AGE_MAX_S: Final = 2.0
HEALTH_AGE_MAX_S: Final = 15.0
WATCH_INTERVAL_S: Final = 5.0
WATCH_SHARE: Final = 20.0
"""Looking for what changes pauses for so many times as long as a look took, so it is a small part of the work."""
UNUSED_MAX_S: Final = 600.0
LAG_AGE_MAX_S: Final = 5.0
"""Coordinators look at lag as often."""
SAMPLE_AGE_MAX_S: Final = 4.0
SAMPLE_WITHIN_S: Final = 30.0
SAMPLE_INTERVAL_S: Final = 60.0
"""Between two looks at what is written while nobody asks, so that a topic's growth is known when somebody does."""
HEALTH_WITHIN_S: Final = 15.0
POINTS_MAX: Final = 180
"""How many moments of traffic are kept."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the doctor finds, and what could not be asked."""

    findings: Sequence[Finding]
    not_seen: Sequence[str]


@dataclass(frozen=True, slots=True)
class TrafficPoint:
    """A moment: seconds since 1970, and what was written per second since the moment before."""

    at_s: float
    records_per_s: float
    bytes_per_s: float


class ClusterWatch:
    """What is kept of a cluster for one user.

    Args:
        kit: the user's connections.
    """

    def __init__(self, kit: ClusterKit) -> None:
        self.kit = kit
        self.view: Cached[ClusterView] = Cached("view of a cluster", self._load_view, age_max_s=VIEW_AGE_MAX_S)
        self.health: Cached[Health] = Cached("health of a cluster", self._load_health, age_max_s=HEALTH_AGE_MAX_S)
        self.lag_seconds: Cached[LagSeconds] = Cached("lag of groups", self._load_lag, age_max_s=LAG_AGE_MAX_S)
        self.traffic: deque[TrafficPoint] = deque(maxlen=POINTS_MAX)
        self.events = EventLog()
        self.lag_histories = LagHistories()
        self.consumers = ConsumerSurveys(kit)
        self.growth = TopicHistories()
        self.sample_problem: str | None = None
        self._sampler: Sampler | None = None
        self._sample: Sample | None = None
        self._activity: Activity | None = None
        self._is_sampling = False
        self._sampling_took_s = 0.0
        self._began_s = time.monotonic()
        self._used_s = time.monotonic()
        self._is_watched = False

    def activity(self) -> Activity | None:
        """Return the newest rates and sizes, None before the first; and have newer ones looked for."""
        if self._sample is None or time.monotonic() - self._sample.at_s > SAMPLE_AGE_MAX_S:
            self._begin_sample()
        return self._activity

    def keep_watching(self, *, without_end: bool) -> None:
        """Look for what changes until the connections close; or until nobody has used this for `UNUSED_MAX_S`."""
        self._used_s = time.monotonic()
        if not self._is_watched:
            self._is_watched = True
            start_detached("events of a cluster", self._watch(without_end), cluster=self.kit.settings.name)

    def forget(self) -> None:
        """Ask anew, as something was changed."""
        self.view.forget()
        self.health.forget()
        self.consumers.forget()

    async def _load_view(self) -> ClusterView:
        def question(kit: ClusterKit) -> ClusterView:
            with kit.cluster_admin() as admin:
                return admin.view()

        began_s = time.time()
        view = await self.kit.ask(question)
        self.events.note_view(view, began_s)
        return view

    async def _watch(self, without_end: bool) -> None:
        try:
            while not self.kit.is_closed and (without_end or time.monotonic() - self._used_s < UNUSED_MAX_S):
                began_s = time.monotonic()
                try:
                    view = await self.view.get()
                    await self._look_at_settings(view)
                    self._sample_by_itself()
                except OperationError as error:
                    self.events.note_silence(str(error), time.time())
                took_s = time.monotonic() - began_s
                await asyncio.sleep(max(WATCH_INTERVAL_S, WATCH_SHARE * took_s))
        finally:
            self._is_watched = False

    def _sample_by_itself(self) -> None:
        last_s = self._began_s if self._sample is None else self._sample.at_s
        if time.monotonic() - last_s > max(SAMPLE_INTERVAL_S, WATCH_SHARE * self._sampling_took_s):
            self._begin_sample()

    def _begin_sample(self) -> None:
        if not self._is_sampling:
            self._is_sampling = True
            start_detached("sample of a cluster", self._take_sample(), cluster=self.kit.settings.name)

    async def _look_at_settings(self, view: ClusterView) -> None:
        topics = self.events.next_topics(view)

        def question(kit: ClusterKit) -> tuple[OwnSettings, OwnSettings]:
            with kit.cluster_admin() as admin:
                return own_topic_settings(admin, topics), own_broker_settings(admin, view.brokers.values())

        began_s = time.time()
        of_topics, of_brokers = await self.kit.ask(question)
        self.events.note_settings(of_topics, of_brokers, view, began_s)

    async def _load_health(self) -> Health:
        settings = self.kit.settings
        addresses = Addresses(
            connect=settings.connect_url,
            mirror=settings.mirror_url,
            etcd=settings.etcd_url,
            rest_config=settings.rest_config,
        )

        def question(kit: ClusterKit) -> Health:
            facts, silent = facts_of(settings.bootstrap, kit.config, addresses)
            return Health(findings(facts), silent)

        return await self.kit.ask(question, within_s=HEALTH_WITHIN_S)

    async def _load_lag(self) -> LagSeconds:
        urls = self.kit.settings.metrics_urls
        try:
            return await self.kit.ask(lambda _kit: ask_lag_seconds(urls)) if urls else {}
        except OperationError:
            return {}  # a group's page shows the rest all the same

    async def _take_sample(self) -> None:
        began_s = time.monotonic()
        try:
            sample = await self.kit.ask(self._sampled, within_s=SAMPLE_WITHIN_S)
        except OperationError as error:
            self.sample_problem = str(error)
            return
        finally:
            self._is_sampling = False
            self._sampling_took_s = time.monotonic() - began_s
        former, self._sample, self.sample_problem = self._sample or sample, sample, None
        self._activity = found = activity(former, sample)
        if former is not sample:
            self.traffic.append(
                TrafficPoint(
                    time.time(),
                    sum(each.records_per_s for each in found.topics),
                    sum(each.written_bytes_per_s for each in found.brokers),
                )
            )
            if not sample.not_seen:  # else sizes and ends of some partitions are not known
                at_s = time.time() - (time.monotonic() - sample.at_s)
                self.growth.note(at_s, sample.at_s - former.at_s, found.topics)

    def _sampled(self, kit: ClusterKit) -> Sample:
        if self._sampler is None:
            self._sampler = Sampler(kit.settings.bootstrap, kit.config, groups_max=0)
        return self._sampler.take()
