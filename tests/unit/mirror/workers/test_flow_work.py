"""When the leader of a flow looks at its topics again."""

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from ottla_core.client.cluster import AsyncCluster
from ottla_mirror.config.mirror_config import MirrorConfig
from ottla_mirror.state.flow_records import ClusterIds, FlowState
from ottla_mirror.state.flow_store import FlowStore
from ottla_mirror.topics.topic_sync import CopiedTopic, TopicPlan
from ottla_mirror.workers import flow_work
from ottla_mirror.workers.flow_copy import FlowCopy
from ottla_mirror.workers.flow_work import FlowWork

BASE = {"clusters": "A,B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.enabled": "true"}


class Store:
    """Knows the flow's clusters."""

    def __init__(self) -> None:
        self.state = FlowState()
        self.state.clusters["A->B"] = ClusterIds(source="a", target="b")


class Keeper:
    """Finds at each look what the test says."""

    def __init__(self, *plans: TopicPlan) -> None:
        self.plans = list(plans)
        self.looks = 0

    async def look(self) -> TopicPlan:
        self.looks += 1
        return self.plans.pop(0)


def topic(name: str) -> CopiedTopic:
    return CopiedTopic(topic=name, topic_id=UUID(int=1), remote_topic=f"A.{name}", partitions=1)


async def test_topics_that_are_not_ready_at_the_first_look_are_copied_though_new_ones_are_not_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flow_work, "RETRY_PAUSE_S", 0.001)
    monkeypatch.setattr(flow_work, "LEAD_CHECK_INTERVAL_S", 0.001)
    settings = {**BASE, "refresh.topics.enabled": "false", "sync.topic.configs.enabled": "false"}
    config = MirrorConfig.parse({**settings, "sync.topic.acls.enabled": "false"})
    nothing: Any = None  # nobody is connected to
    found: list[frozenset[str]] = []
    passes = 0

    def leads() -> bool:
        nonlocal passes
        passes += 1
        return passes < 50

    work = FlowWork(
        config.flows["A->B"],
        target=cast("AsyncCluster", nothing),
        store=cast("FlowStore", Store()),
        copy=FlowCopy(config.flows["A->B"], config.worker, nothing),
        worker=config.worker,
        has_way_back=lambda: False,
        leads=leads,
        on_found=lambda: found.append(frozenset(work.plan.copied if work.plan else ())),
    )

    async def check() -> ClusterIds:
        return ClusterIds(source="a", target="b")

    monkeypatch.setattr(work, "check", check)
    monkeypatch.setattr(work, "_ensure_dead_letter_topic", lambda: asyncio.sleep(0))
    keeper = Keeper(
        TopicPlan(copied={"old": topic("old")}, waiting={"made": "it is being made"}),
        TopicPlan(copied={"old": topic("old"), "made": topic("made")}),
    )
    monkeypatch.setattr(work, "_keeper", keeper)
    await work._keep_topics()
    assert found == [{"old"}, {"old", "made"}]
    assert keeper.looks == 2, "once all are ready, nothing new is looked for"
