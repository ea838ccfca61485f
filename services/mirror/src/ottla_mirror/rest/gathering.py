"""Asking all workers of a target what they know of a flow: each answers for what it copies."""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlsplit

import httpx
from pydantic import ValidationError

from ottla_core.rest.forwarding import freshly_signed
from ottla_core.rest.worker_connections import WorkerConnections
from ottla_core.rest.worker_signatures import OWN_ACCOUNT, RequestSigner
from ottla_mirror.rest.views import FlowPart

ANSWER_TIMEOUT_S: Final = 5.0
PARTS_PATH: Final = "/internal/flows"
INTERNAL_PREFIX: Final = "/internal/"
"""Below it is what only other workers may ask, where anybody is asked who they are."""


class Gathering:
    """Asks other workers.

    Args:
        own_url: this worker's.
        tls: how workers with an https URL are trusted; by default as the system's authorities say.
        signer: signs what is asked.
    """

    def __init__(self, own_url: str, tls: ssl.SSLContext | None, signer: RequestSigner) -> None:
        self._signer = signer
        self._own_url = own_url
        self._connections = WorkerConnections(tls, httpx.Timeout(ANSWER_TIMEOUT_S))

    async def parts(self, flow: str, urls: Sequence[str]) -> tuple[list[FlowPart], list[str]]:
        """Return what the other workers know of a flow, and why some have not answered."""
        others = [url for url in urls if url != self._own_url]
        answers = await asyncio.gather(*(self._part(flow, url) for url in others))
        parts = [each for each in answers if isinstance(each, FlowPart)]
        return parts, [each for each in answers if isinstance(each, str)]

    async def close(self) -> None:
        """Close its connections."""
        await self._connections.close()

    async def _part(self, flow: str, url: str) -> FlowPart | str:
        try:
            path = f"{PARTS_PATH}/{quote(flow, safe='')}"
            signature = freshly_signed(self._signer, OWN_ACCOUNT, audience=url, method="GET", target=path.encode())
            answer = await self._connections.client().get(url + path, headers=signature)
            answer.raise_for_status()
            return FlowPart.model_validate_json(answer.content)
        except (httpx.HTTPError, ValidationError) as error:
            return f"the worker {urlsplit(url).netloc} does not answer: {str(error) or type(error).__name__}"


def is_internal(_method: str, path: str) -> bool:
    """Return whether only other workers may make a request, by the path as it is sent."""
    return path.startswith(INTERNAL_PREFIX)
