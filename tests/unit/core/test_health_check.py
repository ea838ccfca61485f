"""The health check of containers, asked of real servers."""

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ottla_core.health_check import main
from ottla_core.rpc.server import RpcServer
from ottla_core.rpc_identity import BROKER, RpcIdentity
from tests.support.servers.process_certificates import ProcessCertificates


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Keep quiet."""


@pytest.fixture
def page() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_health_page_decides_by_its_status(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{page}/health"]) == 0
    assert main([f"{page}/other"]) == 1
    assert "503" in capsys.readouterr().err


async def test_a_grpc_server_is_ready_when_it_serves(capsys: pytest.CaptureFixture[str]) -> None:
    server = RpcServer()
    address = f"127.0.0.1:{server.bind('127.0.0.1', 0)}"
    await server.start()
    try:
        assert await asyncio.to_thread(main, [address]) == 1
        assert "NOT_SERVING" in capsys.readouterr().err
        await server.set_serving(serving=True)
        assert await asyncio.to_thread(main, [address]) == 0
    finally:
        await server.stop()
    assert await asyncio.to_thread(main, [address]) == 1
    assert "refused" in capsys.readouterr().err


async def test_a_grpc_server_with_tls_is_shown_the_certificate_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    certificates = ProcessCertificates(tmp_path)
    tls = certificates.tls(RpcIdentity(BROKER, 1))
    server = RpcServer(tls=tls)
    address = f"127.0.0.1:{server.bind('127.0.0.1', 0)}"
    await server.start()
    try:
        await server.set_serving(serving=True)
        assert await asyncio.to_thread(main, [address]) == 1
        capsys.readouterr()
        for variable, path in zip(("CA", "CERTIFICATE", "KEY"), tls.files.all, strict=True):
            monkeypatch.setenv(f"OTTLA_RPC_TLS_{variable}", str(path))
        assert await asyncio.to_thread(main, [address]) == 0, capsys.readouterr().err
        foreign = ProcessCertificates(tmp_path / "foreign", name="foreign")
        assert await asyncio.to_thread(main, [address, "--tls-ca", str(foreign.ca)]) == 1
        assert "certificate verify failed" in capsys.readouterr().err
    finally:
        await server.stop()


def test_a_server_without_the_health_service_is_not_ready(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([page.removeprefix("http://")]) == 1
    assert re.search("closed the connection|does not answer in gRPC", capsys.readouterr().err)


@pytest.mark.parametrize("address", ["broker", "https://broker/health", "broker:port"])
def test_an_address_that_cannot_be_asked_is_refused(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([address]) == 1
    assert "write a" in capsys.readouterr().err


def test_grpc_is_not_imported() -> None:
    imported = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ottla_core.health_check", "127.0.0.1:1"],
        capture_output=True, text=True, check=False,
    ).stderr  # fmt: skip

    assert "Connection refused" in imported
    assert not re.search(r"\| +(grpc|asyncio|http)$", imported, re.MULTILINE)
