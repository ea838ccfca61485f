"""Listening: before serving, on several addresses, with TLS, and to a graceful end."""

import asyncio
import contextlib
import socket
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest

from ottla_connect.rest.application import create_application
from ottla_core.errors import ConfigurationError
from ottla_core.rest import client_certificates
from ottla_core.rest.server import RestError, RestServer
from ottla_core.rest.settings import Listener, RestTls
from ottla_core.rest.tls_files import client_tls
from tests.unit.connect.rest.scripted_herder import ScriptedHerder

ANY_PORT = Listener("http", "127.0.0.1", 0)


async def test_a_free_port_is_known_before_requests_are_answered():
    server = RestServer([ANY_PORT])
    port = server.port_of(ANY_PORT)
    assert port > 0
    assert server.bound == [Listener("http", "127.0.0.1", port)]
    async with httpx.AsyncClient(trust_env=False) as client:
        waiting = asyncio.create_task(client.get(f"http://127.0.0.1:{port}/health"))
        await server.serve(create_application(ScriptedHerder(), own_url=""))
        assert (await waiting).status_code == 200
    await server.close()
    assert await server.wait() is None


async def test_every_listener_answers():
    listeners = [ANY_PORT, Listener("http", "", 0)]
    server = RestServer(listeners)
    await server.serve(create_application(ScriptedHerder(), own_url=""))
    async with httpx.AsyncClient(trust_env=False) as client:
        for bound in server.bound:
            answer = await client.get(f"http://127.0.0.1:{bound.port}/")
            assert answer.status_code == 200
    await server.close()


async def test_a_request_that_is_being_answered_when_the_end_comes_is_finished():
    server, herder = RestServer([ANY_PORT]), ScriptedHerder()
    herder.held = asyncio.Event()
    await server.serve(create_application(herder, own_url=""))
    async with httpx.AsyncClient(base_url=str(server.bound[0]), trust_env=False) as client:
        asked = asyncio.create_task(client.get("/health"))
        while not herder.health_requests:
            await asyncio.sleep(0)
        closing = asyncio.create_task(server.close())
        await asyncio.sleep(0)
        herder.held.set()
        assert (await asked).status_code == 200
        await closing
        with pytest.raises(httpx.ConnectError):
            await client.get("/health")


async def test_administration_has_addresses_of_its_own_if_these_are_set():
    server = RestServer([ANY_PORT], None, [ANY_PORT])
    await server.serve(create_application(ScriptedHerder(), own_url=""))
    users, administration = (str(bound) for bound in server.bound)
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"{users}/connectors")).status_code == 200
        assert (await client.get(f"{users}/admin/loggers")).status_code == 404
        assert (await client.get(f"{administration}/admin/loggers")).status_code == 200
        for path in ("/connectors", "/", "/admin/../connectors", "//connectors", "/docs"):
            assert (await client.get(f"{administration}{path}")).status_code == 404, path
        for address in (users, administration):
            assert (await client.get(f"{address}/health")).status_code == 200
    await server.close()
    assert await server.wait() is None


async def test_a_connection_on_which_no_request_begins_is_closed_and_a_slow_request_is_not(monkeypatch):
    monkeypatch.setattr(client_certificates, "HEAD_WITHIN_S", 0.2)
    server, herder = RestServer([ANY_PORT]), ScriptedHerder()
    herder.held = asyncio.Event()
    await server.serve(create_application(herder, own_url=""))
    host, port = server.bound[0].host, server.bound[0].port
    silent, _ = await asyncio.open_connection(host, port)
    half, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n")
    async with httpx.AsyncClient(base_url=str(server.bound[0]), trust_env=False) as client:
        asked = asyncio.create_task(client.get("/health"))
        for reader in (silent, half):
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
        herder.held.set()
        assert (await asked).status_code == 200
        assert (await client.get("/health")).status_code == 200, "the same connection serves further requests"
    writer.close()
    await server.close()


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RestError, match=rf"cannot listen on http://127\.0\.0\.1:{port}: .*in use"):
            RestServer([ANY_PORT, Listener("http", "127.0.0.1", port)])


def certificate(folder: Path) -> RestTls:
    """A self-signed one of this machine's loopback address, which is its own authority."""
    both, key = folder / "both.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(key), "-out", str(both), "-days", "1", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    authorities = folder / "authorities.pem"
    authorities.write_bytes(both.read_bytes())
    both.write_bytes(both.read_bytes() + key.read_bytes())
    return RestTls(
        certificate=both, key=both, key_password=None, authorities=authorities, client_certificates="required"
    )


async def test_https_listeners_ask_for_certificates_and_workers_forward_to_each_other(tmp_path):
    tls = certificate(tmp_path)
    listener = Listener("https", "127.0.0.1", 0)
    servers = [RestServer([listener], tls) for _ in range(2)]
    asked, leader = ScriptedHerder(), ScriptedHerder()
    asked.leader = str(servers[1].bound[0])
    for server, herder in zip(servers, (asked, leader), strict=True):
        await server.serve(create_application(herder, own_url=str(server.bound[0]), forwarding_tls=client_tls(tls)))
    context = client_tls(tls)
    assert context is not None
    async with httpx.AsyncClient(base_url=str(servers[0].bound[0]), verify=context, trust_env=False) as client:
        answer = await client.post("/connectors", json={"name": "x", "config": {"connector.class": "S"}})
        assert answer.status_code == 201
        assert answer.headers["location"].startswith("https://")
    assert list(leader.configs) == ["x"]
    without = ssl.create_default_context(cafile=tls.authorities)
    async with httpx.AsyncClient(verify=without, trust_env=False) as client:
        with pytest.raises(httpx.HTTPError):
            await client.get(f"{servers[0].bound[0]}/")
    for server in servers:
        await server.close()


def test_a_certificate_that_cannot_be_used_is_named(tmp_path):
    missing = tmp_path / "missing.pem"
    tls = RestTls(certificate=missing, key=missing, key_password=None, authorities=None, client_certificates="none")
    with pytest.raises(ConfigurationError, match=r"missing\.pem"):
        RestServer([Listener("https", "127.0.0.1", 0)], tls)
