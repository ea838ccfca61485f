"""Asking a process whether it is ready: by gRPC's health protocol, etcd and Connect by their HTTP health page.

A check answers None when all is well and else a short reason, so that a start that never gets there can say why.
"""

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ottla_core import health_names
from ottla_core.rpc_identity import ADMIN, RpcIdentity, RpcNames

if TYPE_CHECKING:
    from ottla_core.rpc.tls import RpcTls

CHECK_TIMEOUT_S = 2.0
HEALTH_METHOD = "/grpc.health.v1.Health/Check"
PROBLEMS = {
    health_names.BACKGROUND: "a task in its background fails again and again; its log says which",
    health_names.STORAGE: "its disk refuses what is to be written or read, being full for example; its log says what",
    health_names.ACCESS_LISTS: "an access control list in etcd cannot be read, so that all but super users are "
    "refused what it may deny; its log says which",
    health_names.LOGS: "the disk has failed some of its logs; they take records again when it is restarted",
}
"""What it means when a part of a process is not healthy."""


@dataclass(frozen=True, slots=True)
class RpcTlsSource:
    """An administrator's files for gRPC, read when they are needed, so that renewed ones count at once."""

    authorities: Path
    certificate: Path
    key: Path
    names: RpcNames

    def load(self) -> "RpcTls":
        """Read the files.

        Raises:
            ConfigurationError: they cannot be used.
        """
        from ottla_core.rpc.tls import RpcTls, RpcTlsFiles  # noqa: PLC0415 - slow to import

        files = RpcTlsFiles(self.authorities, self.certificate, self.key)
        return RpcTls(files, self.names, RpcIdentity(ADMIN, 0))


class HealthCheck(Protocol):
    """How to ask one process."""

    async def problem(self) -> str | None:
        """Return None if the process is ready, else what is missing."""


@dataclass(frozen=True, slots=True)
class HttpHealth:
    """A health page: status 200, and where the body is etcd's JSON, `"health": "true"`.

    Attributes:
        url: of the page.
        authorities: PEM file with those of the page's certificate; None for those of the system.
    """

    url: str
    authorities: Path | None = None

    async def problem(self) -> str | None:
        """Fetch the page once."""
        return await asyncio.to_thread(self._ask)

    def _ask(self) -> str | None:
        try:
            body = http_get(self.url, self.authorities)
        except urllib.error.HTTPError as error:
            error.close()
            return f"its health page answers {error.code}"
        except (OSError, ValueError) as error:
            return f"its health page does not answer ({_reason(error)})"
        try:
            healthy = json.loads(body).get("health", "true") == "true"
        except (ValueError, AttributeError):
            healthy = True
        return None if healthy else f"it reports {body.decode(errors='replace').strip()}"


@dataclass(frozen=True, slots=True)
class GrpcHealth:
    """The standard gRPC health service, asked for the server as a whole.

    Attributes:
        peer: who has to answer.
        tls: what is shown there and trusted; None without TLS.
    """

    host: str
    port: int
    peer: RpcIdentity
    tls: RpcTlsSource | None = None

    async def problem(self) -> str | None:
        """Ask once, over a fresh connection so that an earlier refusal causes no backoff."""
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(self.host, self.port), CHECK_TIMEOUT_S)
        except (OSError, TimeoutError):
            return f"nothing answers on its RPC port {self.port}"
        writer.close()
        return await self._ask()

    async def _ask(self) -> str | None:
        import grpc.aio  # noqa: PLC0415 - slow to import, and not needed until a service is up
        from grpc_health.v1 import health_pb2  # noqa: PLC0415

        from ottla_core.errors import ConfigurationError  # noqa: PLC0415
        from ottla_core.rpc.dialing import dial  # noqa: PLC0415

        try:
            tls = None if self.tls is None else self.tls.load()
        except ConfigurationError as error:
            return f"it cannot be asked: {error}"
        async with dial(f"{self.host}:{self.port}", self.peer, tls=tls) as channel:
            check = channel.unary_unary(
                HEALTH_METHOD,
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            try:
                whole = await check(health_pb2.HealthCheckRequest(), timeout=CHECK_TIMEOUT_S)
                parts = {
                    part: await check(health_pb2.HealthCheckRequest(service=part), timeout=CHECK_TIMEOUT_S)
                    for part in PROBLEMS
                }
            except grpc.aio.AioRpcError as error:
                return f"its health check fails ({error.code().name})"
        answers = health_pb2.HealthCheckResponse
        if whole.status != answers.SERVING:
            return f"it reports {answers.ServingStatus.Name(whole.status)}"
        unhealthy = [PROBLEMS[part] for part, answer in parts.items() if answer.status != answers.SERVING]
        return "; ".join(unhealthy) or None


def http_get(url: str, authorities: Path | None = None) -> bytes:
    """Fetch a page directly, whatever proxy the environment names.

    Args:
        url: of the page.
        authorities: PEM file with those of its certificate; None for those of the system.

    Raises:
        OSError: it cannot be fetched; `urllib.error.HTTPError` for a status of 400 and up.
        ValueError: this is no HTTP URL, or no HTTP server.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is no HTTP URL")
    tls = []
    if authorities is not None:
        tls.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authorities)))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *tls)
    with opener.open(url, timeout=CHECK_TIMEOUT_S) as response:
        return bytes(response.read())


def _reason(error: Exception) -> str:
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    return inner.strerror if isinstance(inner, OSError) and inner.strerror else str(inner) or type(inner).__name__
