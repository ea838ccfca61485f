"""Which groups read the topics that somebody looks at, kept for seconds, as each look asks all groups of the cluster.

A page gets the newest that is known, and waits for a newer one but a moment, and only if that is old. A look goes on
beside the pages, and the next pauses for some times as long as it took; for a shorter time as long as not all groups
were asked, since pages wait for those. Of `TOPICS_MAX` topics looks are kept, those used last.
"""

import asyncio
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_core.background import start_detached
from ottla_operations.errors import OperationError
from ottla_operations.groups.topic_consumers import KafkaGroups, TopicConsumers, look_for_consumers

TOPICS_MAX: Final = 4
AGE_MAX_S: Final = 4.0
PAUSE_SHARE: Final = 3.0
"""A look is kept for so many times as long as it took, at least; so it is a small part of the cluster's work."""
PAUSE_SHARE_UNFINISHED: Final = 1.0
"""Likewise, after a look that failed, or did not come to all groups."""
OLD_S: Final = 30.0
WAIT_S: Final = 1.0
WITHIN_S: Final = 45.0


@dataclass(slots=True)
class _Survey:
    """What is known of one topic; `ended_s` is None before the first look."""

    found: TopicConsumers
    problem: str | None = None
    ended_s: float | None = None
    due_s: float = 0.0
    look: asyncio.Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownConsumers:
    """The newest look at a topic's consumers.

    Attributes:
        found: None until the first look has ended.
        problem: why the last look failed, or None.
    """

    found: TopicConsumers | None
    problem: str | None


class ConsumerSurveys:
    """Looks for the consumers of topics.

    Args:
        kit: a user's connections.
    """

    def __init__(self, kit: ClusterKit) -> None:
        self._kit = kit
        self._surveys: OrderedDict[str, _Survey] = OrderedDict()

    def __len__(self) -> int:
        return len(self._surveys)

    async def of(self, topic: str) -> KnownConsumers:
        """Return what is known of a topic's consumers; a look that is due is begun."""
        survey = self._surveys.setdefault(topic, _Survey(TopicConsumers()))
        self._surveys.move_to_end(topic)
        while len(self._surveys) > TOPICS_MAX:
            self._surveys.popitem(last=False)
        if survey.look is None and time.monotonic() >= survey.due_s:
            survey.look = asyncio.Event()
            start_detached("consumers of a topic", self._look(topic, survey), cluster=self._kit.settings.name)
        is_old = survey.ended_s is None or time.monotonic() - survey.ended_s > OLD_S
        if is_old and survey.look is not None:
            with suppress(TimeoutError):  # the page shows what is known, and asks again
                await asyncio.wait_for(survey.look.wait(), WAIT_S)
        return KnownConsumers(found=None if survey.ended_s is None else survey.found, problem=survey.problem)

    def forget(self) -> None:
        """Look anew the next time, as something was changed."""
        self._surveys.clear()

    async def _look(self, topic: str, survey: _Survey) -> None:
        began_s, former = time.monotonic(), survey.found

        def question(kit: ClusterKit) -> TopicConsumers:
            with kit.group_client() as client:
                return look_for_consumers(KafkaGroups(client, kit.settings.bootstrap), topic, former)

        try:
            survey.found = await self._kit.ask(question, within_s=WITHIN_S)
            survey.ended_s, survey.problem = time.monotonic(), None
        except OperationError as error:
            survey.problem = str(error)
        finally:
            took_s = time.monotonic() - began_s
            is_whole = survey.problem is None and survey.found.is_whole
            survey.due_s = time.monotonic() + pause_s(took_s, is_whole=is_whole)
            if survey.look is not None:
                survey.look.set()
            survey.look = None


def pause_s(took_s: float, *, is_whole: bool) -> float:
    """Return for how long no look is begun after one."""
    return max(AGE_MAX_S, (PAUSE_SHARE if is_whole else PAUSE_SHARE_UNFINISHED) * took_s)
