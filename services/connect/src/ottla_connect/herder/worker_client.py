"""What a worker asks of another one on its own account: to store the settings of tasks, or to fence former ones."""

import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

import httpx

from ottla_connect.config import WorkerConfig
from ottla_connect.herder.signatures import sign
from ottla_connect.state.config_records import SessionKey
from ottla_core.rest.errors import RequestError
from ottla_core.rest.forwarding import freshly_signed
from ottla_core.rest.worker_signatures import OWN_ACCOUNT, RequestSigner

REQUEST_TIMEOUT_S = 30.0
FENCE_TIMEOUT_S = 90.0
"""Longer than the leader tries to fence tasks while brokers are away."""


class WorkerClient:
    """Speaks to other workers' REST API, signed with the cluster's session key (KIP-507, and `worker_signatures`).

    Args:
        config: names the algorithm of the signatures.
        session_key: returns the key as far as this worker has read it, None before there is one.
        signer: signs that a worker asks, which counts where everybody is asked who they are.
        tls: how workers with an https URL are trusted; by default as the system's authorities say.
    """

    def __init__(
        self,
        config: WorkerConfig,
        session_key: Callable[[], SessionKey | None],
        *,
        signer: RequestSigner,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._signer = signer
        self._algorithm = config.inter_worker_signature_algorithm
        self._session_key = session_key
        self._client = httpx.AsyncClient(timeout=REQUEST_TIMEOUT_S, trust_env=False, verify=tls or True)

    async def put_task_configs(self, url: str, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Have the leader at `url` store the settings of a connector's tasks.

        Raises:
            RequestError: it refuses, or cannot be reached.
        """
        body = json.dumps([dict(each) for each in configs]).encode()
        await self._ask("POST", url, f"/connectors/{quote(connector, safe='')}/tasks", body)

    async def fence_tasks(self, url: str, connector: str) -> None:
        """Have the leader at `url` fence former tasks of a connector (KIP-618).

        Raises:
            RequestError: it refuses, cannot be reached, or cannot fence them.
        """
        path = f"/connectors/{quote(connector, safe='')}/fence"
        await self._ask("PUT", url, path, b"", timeout_s=FENCE_TIMEOUT_S)

    async def _ask(
        self, method: str, url: str, path: str, body: bytes, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        key = self._session_key()
        if key is None:
            raise RequestError("the cluster has no session key yet")
        headers = {
            "Content-Type": "application/json",
            **sign(key.key, self._algorithm, method, path, body),
            **freshly_signed(self._signer, OWN_ACCOUNT, audience=url, method=method, target=path.encode(), body=body),
        }
        try:
            response = await self._client.request(
                method, url.rstrip("/") + path, content=body, headers=headers, timeout=timeout_s
            )
        except httpx.HTTPError as error:
            raise RequestError(f"the leader at {url} cannot be reached: {error!r}") from None
        if response.is_error:
            raise RequestError(f"the leader at {url} answered {response.status_code}: {response.text[:500]}")

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()
