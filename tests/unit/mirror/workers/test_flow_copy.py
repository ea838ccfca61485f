"""What a flow's copy tells its copier of the partitions that it was given, and what it leaves behind."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from ottla_mirror.config.mirror_config import MirrorConfig
from ottla_mirror.model import SourcePartition
from ottla_mirror.state.flow_records import ClusterIds
from ottla_mirror.workers import flow_copy
from ottla_mirror.workers.assignment import FlowPartition, TopicNames, TopicOf, Work
from ottla_mirror.workers.flow_copy import FlowCopy
from ottla_mirror.workers.memory_shares import MemoryShares
from tests.support.eventually_async import eventually_async
from tests.support.mirror.mirror_brokers import BrokersModel

ONE_PARTITION = Work(
    frozenset({FlowPartition("A->B", "t", 0)}), {TopicOf("A->B", "t"): TopicNames(UUID(int=1), "A.t")}
)


def test_partitions_are_added_that_a_topic_did_not_have_when_the_flow_began_with_it() -> None:
    nothing: Any = None  # it connects with its first copy
    copy = FlowCopy(nothing, nothing, nothing)
    copy.began_with = {"A.grown": 2}.get
    partitions = [FlowPartition("A->B", topic, number) for topic in ("grown", "old") for number in (1, 2)]
    names = {TopicOf("A->B", topic): TopicNames(UUID(int=1), f"A.{topic}") for topic in ("grown", "old")}
    copy.assign(Work(frozenset(partitions), names))
    added = [str(each) for each in copy.wanted() if copy._is_added(each)]
    assert added == ["grown-2"], "nothing is known of the other topic, as a former release has begun with it"
    copy.assign(Work())
    assert not copy.wanted()


async def test_attempts_that_fail_leave_no_connections_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_copy, "RETRY_PAUSE_S", 0.001)
    target = BrokersModel({}, UUID(int=2), random.Random(1))
    target.is_calm = True
    await target.start()
    settings = {
        "clusters": "A,B",
        "A.bootstrap.servers": "127.0.0.1:1",
        "B.bootstrap.servers": f"127.0.0.1:{target.ports[1]}",
        "A->B.enabled": "true",
    }
    config = MirrorConfig.parse(settings)
    copy = FlowCopy(config.flows["A->B"], config.worker, MemoryShares(1 << 24))
    attempts = most_open = 0

    def open_count() -> int:
        return sum(map(len, target.connections.values()))

    async def check() -> ClusterIds:
        nonlocal attempts, most_open
        attempts += 1
        most_open = max(most_open, open_count())
        return ClusterIds(source="a", target="")

    copy.check = check
    copy.assign(ONE_PARTITION)
    running = asyncio.create_task(copy.run())
    await eventually_async(lambda: attempts >= 10, "the map topic could not be made ten times")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert copy.problem.endswith("does not have the API CreateTopics")
    assert most_open <= 4, "some connections of the last attempt may not be closed yet at the broker"
    await copy.close()
    await eventually_async(lambda: not open_count(), "all connections are closed")
    target.stop()


async def test_partitions_are_copied_though_to_tell_the_copier_has_failed_unexpectedly_at_first() -> None:
    class Copier:
        """Takes partitions at the second attempt."""

        attempts = 0
        assigned: Mapping[SourcePartition, str] = {}
        is_paused = False

        def limit_buffer(self, _: int) -> None:
            pass

        async def assign(self, partitions: Mapping[SourcePartition, str]) -> None:
            self.attempts += 1
            if self.attempts == 1:
                raise RuntimeError("a bug")
            self.assigned = partitions

        def pause(self) -> None:
            self.is_paused = True

        def throttle(self, _: float | None) -> None:
            pass

    nothing: Any = None
    copy = FlowCopy(nothing, nothing, MemoryShares(1 << 24))
    copier: Any = Copier()
    copy._copier = copier
    copy.assign(ONE_PARTITION)
    copy.steer(paused=True, throttle_bytes_per_s=None, partitions_of_all=1)
    with pytest.raises(RuntimeError):
        await copy._follow()
    await copy._follow()
    assert [str(each) for each in copier.assigned] == ["t-0"]
    assert copier.is_paused
