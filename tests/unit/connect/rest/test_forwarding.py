"""Requests reach the worker that has to answer, over real sockets, and never go in circles."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI

from ottla_connect.connector_states import TargetState
from ottla_connect.herder.signatures import sign
from ottla_connect.rest.application import create_application
from ottla_connect.rest.options import RestOptions
from ottla_core.rest.errors import Conflict
from ottla_core.rest.forwarding import next_hop, with_hop
from ottla_core.rest.server import RestServer
from ottla_core.rest.settings import Listener
from tests.support.free_ports import free_port
from tests.unit.connect.rest.scripted_herder import SESSION_KEY, ScriptedHerder

CONFIG = {"connector.class": "ottla_file.FileSource", "topic": "t"}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Peer:
    """A worker of the tests'."""

    application: FastAPI
    url: str
    client: httpx.AsyncClient

    @property
    def herder(self) -> ScriptedHerder:
        herder: ScriptedHerder = self.application.state.herder
        return herder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[list[Peer]]:
    """Three workers."""
    servers, made = [], []
    for _ in range(3):
        server = RestServer([Listener("http", "127.0.0.1", 0)])
        url = str(server.bound[0])
        application = create_application(ScriptedHerder(), own_url=url)
        await server.serve(application)
        servers.append(server)
        made.append(Peer(application, url, httpx.AsyncClient(base_url=url, trust_env=False)))
    yield made
    await asyncio.gather(*(peer.client.aclose() for peer in made))
    await asyncio.gather(*(server.close() for server in servers))


@pytest.fixture
def peers(running: list[Peer]) -> list[Peer]:
    """Three workers that know of no connector, and of no other worker."""
    for peer in running:
        peer.application.state.herder = ScriptedHerder()
    return running


async def test_a_connector_is_created_by_the_leader_whomever_one_asks(peers):
    asked, leader, _ = peers
    asked.herder.leader = leader.url
    answer = await asked.client.post("/connectors", json={"name": "a/b", "config": CONFIG})
    assert answer.status_code == 201
    assert answer.json()["name"] == "a/b"
    assert answer.headers["location"] == f"{asked.url}/connectors/a%2Fb", "at the worker that was asked"
    assert (list(asked.herder.configs), list(leader.herder.configs)) == ([], ["a/b"])
    assert (await asked.client.delete("/connectors/a%2Fb")).status_code == 204
    assert not leader.herder.configs


async def test_an_error_of_the_leader_is_the_answer(peers):
    asked, leader, _ = peers
    asked.herder.leader = leader.url
    answer = await asked.client.delete("/connectors/none")
    assert (answer.status_code, answer.json()) == (404, {"error_code": 404, "message": "Connector none not found"})


async def test_the_query_goes_along(peers):
    asked, owner, _ = peers
    asked.herder.owner = owner.url
    owner.herder.configs["x"], owner.herder.targets["x"] = CONFIG, TargetState.STARTED
    answer = await asked.client.post("/connectors/x/restart?includeTasks=true&onlyFailed=true")
    assert answer.status_code == 202
    assert owner.herder.restarts == [("x", True, True)]
    answer = await asked.client.get("/connectors/x/logs?task=1&lines=2")
    assert answer.json()["lines"] == ["line 0", "line 1"]


async def test_a_request_may_make_two_hops_but_not_three(peers):
    first, second, third = peers
    first.herder.leader, second.herder.leader = second.url, third.url
    body = {"name": "x", "config": CONFIG}
    assert (await first.client.post("/connectors", json=body)).status_code == 201
    assert list(third.herder.configs) == ["x"]
    third.herder.leader = first.url
    answer = await first.client.post("/connectors", json=body)
    assert answer.status_code == answer.json()["error_code"] == 409
    assert "do not agree on who answers" in answer.json()["message"]


async def test_a_worker_does_not_forward_to_itself_or_to_nobody(peers):
    asked, _, _ = peers
    for leader in (asked.url, f"{asked.url}/", ""):
        asked.herder.leader = leader
        answer = await asked.client.delete("/connectors/x")
        assert answer.status_code == 409
        assert "No worker is known" in answer.json()["message"]


async def test_a_worker_that_is_down_is_named(peers):
    asked, _, _ = peers
    address = f"127.0.0.1:{free_port()}"
    asked.herder.leader = f"http://{address}"
    answer = await asked.client.delete("/connectors/x?forward=true")  # whoever has forwarded it waits
    assert answer.status_code == 409
    assert answer.json()["message"].startswith(f"The request could not be forwarded to {address}: ")
    assert "rebalance" in answer.json()["message"], "by which clients know that it can be repeated"


async def test_a_request_waits_for_the_successor_of_a_leader_that_has_died(peers):
    asked, successor, _ = peers
    asked.herder.leader = f"http://127.0.0.1:{free_port()}"
    creating = asyncio.create_task(asked.client.post("/connectors", json={"name": "x", "config": CONFIG}))
    await asyncio.wait({creating}, timeout=0.3)
    assert not creating.done()
    asked.herder.leader = successor.url
    answer = await creating
    assert answer.status_code == 201, answer.text
    assert list(successor.herder.configs) == ["x"]


async def test_a_request_does_not_wait_for_ever(peers, monkeypatch):
    asked, _, _ = peers
    asked.herder.leader = f"http://127.0.0.1:{free_port()}"
    application = create_application(asked.herder, own_url=asked.url, options=RestOptions(forward_patience_s=0.6))
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://asked") as client:
        answer = await client.delete("/connectors/x")
    assert answer.status_code == 409


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_what_may_have_been_carried_out_is_not_asked_again(peers, method):
    """The leader ends the connection without an answer, as it does when it is killed."""
    asked, successor, _ = peers
    requests: asyncio.Queue[bytes] = asyncio.Queue()

    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.put_nowait(await reader.readline())
        asked.herder.leader = successor.url
        writer.transport.abort()

    dying = await asyncio.start_server(die, "127.0.0.1", 0)
    asked.herder.leader = f"http://127.0.0.1:{dying.sockets[0].getsockname()[1]}"
    path = "/connectors" if method == "POST" else "/connectors/x/config"
    body = {"name": "x", "config": CONFIG} if method == "POST" else CONFIG
    answer = await asked.client.request(method, path, json=body)
    dying.close()
    assert requests.qsize() == 1
    assert answer.status_code == 500, answer.text
    assert list(successor.herder.configs) == []
    assert "may have been carried out" in answer.json()["message"]


async def test_a_signature_survives_forwarding(peers):
    asked, leader, _ = peers
    asked.herder.leader = leader.url
    path, body = "/connectors/a%2Fb/tasks", b'[{"x": "1"}]'
    headers = {"Content-Type": "application/json", **sign(SESSION_KEY, "HmacSHA256", "POST", path, body)}
    answer = await asked.client.post(path, content=body, headers=headers)
    assert answer.status_code == 204, answer.text
    assert leader.herder.stored_task_configs == {"a/b": [{"x": "1"}]}


async def test_the_hop_is_counted_in_the_query():
    assert next_hop(None) == "true"
    assert next_hop("true") == next_hop("TRUE") == "false"
    for spent in ("false", "maybe", ""):
        with pytest.raises(Conflict):
            next_hop(spent)
    assert with_hop("", "true") == "forward=true"
    assert with_hop("forward=true&a=%2F&b=", "false") == "a=%2F&b=&forward=false"
