"""A link's look at its source: what was altered while the source answered is not undone by that answer."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from ottla_broker.links.active_link import ActiveLink
from ottla_broker.replication.fetch_settings import FetchLimits, FetchSettings
from ottla_core.client.cluster_metadata import ClusterMetadata
from ottla_core.clock import SystemClock
from ottla_core.cluster.state.model import Link

LINK = Link(name="west", id=UUID(int=70), source_cluster_id="source", bootstrap_servers=("127.0.0.1:1",))
SETTINGS = FetchSettings(
    broker_id=1,
    limits=FetchLimits(wait_ms_max=1048576, bytes_min=1048576, bytes_max=1048576),
    partition_bytes_max=1 << 20,
    backoff_ms=100,
    socket_timeout_ms=1000,
    frame_bytes_max=1 << 20,
)
ORDERS: Any = SimpleNamespace(source_topic="orders")


class Source:
    """A cluster that answers, and meanwhile something happens."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile

    async def metadata(self, _topics: set[str], *, timeout_s: float) -> ClusterMetadata:
        await asyncio.sleep(0)
        self._meanwhile()
        return ClusterMetadata(cluster_id=LINK.source_cluster_id, controller=1, brokers={}, topics={})

    async def close(self) -> None:
        pass


async def placed_after(meanwhile: Callable[[ActiveLink], None], monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Returns the partitions that are placed by an answer during which something happens."""
    run = ActiveLink(
        LINK, SETTINGS, client_id="test", clock=SystemClock(), resolve=dict,
        raise_epoch=lambda _linked: None, set_groups_back=lambda *_: None,  # type: ignore[arg-type,return-value]
    )  # fmt: skip
    placed: list[object] = []
    monkeypatch.setattr(run, "_place", lambda linked, _metadata: placed.append(linked))
    run._cluster = Source(lambda: meanwhile(run))  # type: ignore[assignment]
    run._linked[UUID(int=1), 0] = ORDERS
    try:
        await run._look()
    finally:
        await run.close()
    return placed


async def test_an_answer_places_what_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await placed_after(lambda _run: None, monkeypatch) == [ORDERS]


async def test_an_answer_that_a_pause_has_overtaken_places_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await placed_after(lambda run: run.altered(replace(LINK, paused=True)), monkeypatch) == []


async def test_a_partition_that_was_linked_meanwhile_does_not_seem_to_be_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later: Any = SimpleNamespace(source_topic="later")

    def link_another(run: ActiveLink) -> None:
        run._linked[UUID(int=2), 0] = later

    assert await placed_after(link_another, monkeypatch) == [ORDERS]
