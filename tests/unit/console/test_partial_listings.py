"""Pages of groups while a coordinator cannot tell its groups: no page says then that there are none."""

import asyncio
import time

import httpx
import pytest
from starlette.applications import Starlette

from ottla_console.access.roles import Role
from ottla_console.clusters.consumer_surveys import KnownConsumers
from ottla_console.clusters.credentials import RoleLogin
from ottla_console.pages import groups, topic_consumers
from ottla_console.pages.all_pages import VIEWS
from ottla_console.pages.routing import routes
from ottla_console.pages.visit import Console
from ottla_console.views.paging import page_of
from ottla_console.views.topic_table import TopicRow
from ottla_operations.groups.topic_consumers import TopicConsumers
from tests.unit.console.test_roles import COOKIE, console

__all__ = ["console"]

LOADING = "broker 2: the coordinator is loading"


async def asked(console: Console, path: str) -> str:
    session = console.sessions.sign_in(None, {"prod": RoleLogin("ann", Role.VIEWER)}, time.monotonic())
    transport = httpx.ASGITransport(Starlette(routes=routes(console, VIEWS)))
    async with httpx.AsyncClient(transport=transport, base_url="http://console", cookies={COOKIE: session}) as client:
        answer = await client.get(f"/clusters/prod{path}")
    assert answer.status_code == httpx.codes.OK
    return answer.text


@pytest.mark.parametrize("problems", [[], [LOADING]])
def test_the_list_says_that_there_are_no_groups_only_if_all_could_be_asked(
    console: Console, monkeypatch: pytest.MonkeyPatch, problems: list[str]
) -> None:
    def listing(*_: object) -> groups._Listing:
        return groups._Listing(shown=page_of([], 1), states=[], total=0, problems=problems)

    monkeypatch.setattr(groups, "_listing", listing)
    page = asyncio.run(asked(console, "/groups"))
    assert ("No groups yet" in page, LOADING in page) == (not problems, bool(problems))


@pytest.mark.parametrize("problems", [[], [LOADING]])
def test_a_topic_is_said_to_have_no_consumers_only_if_all_could_be_asked(
    console: Console, monkeypatch: pytest.MonkeyPatch, problems: list[str]
) -> None:
    row = TopicRow(
        name="t", partitions=1, replicas=1, records_per_s=None, log_bytes=None, under_replicated=0, offline=0
    )

    async def topic_row(_visit: object) -> tuple[None, TopicRow]:
        return None, row

    async def known(*_: object) -> KnownConsumers:
        return KnownConsumers(found=TopicConsumers(problems=problems), problem=None)

    monkeypatch.setattr(topic_consumers, "topic_row", topic_row)
    monkeypatch.setattr("ottla_console.clusters.consumer_surveys.ConsumerSurveys.of", known)
    page = asyncio.run(asked(console, "/topics/t/consumers"))
    assert ("No consumers yet" in page, LOADING in page) == (not problems, bool(problems))
    assert ("No consumer was found so far" in page) == bool(problems)
