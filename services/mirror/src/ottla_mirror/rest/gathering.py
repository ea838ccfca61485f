"""Asking all workers of a target what they know of a flow: each answers for what it copies."""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlsplit

import httpx
from pydantic import ValidationError

from ottla_mirror.rest.views import FlowPart

ANSWER_TIMEOUT_S: Final = 5.0
CONNECTIONS_MAX: Final = 50
PARTS_PATH: Final = "/internal/flows"


class Gathering:
    """Asks other workers.

    Args:
        own_url: this worker's.
        tls: how workers with an https URL are trusted; by default as the system's authorities say.
    """

    def __init__(self, own_url: str, tls: ssl.SSLContext | None = None) -> None:
        self._own_url = own_url
        self._tls = tls
        self._client: httpx.AsyncClient | None = None

    async def parts(self, flow: str, urls: Sequence[str]) -> tuple[list[FlowPart], list[str]]:
        """Return what the other workers know of a flow, and why some have not answered."""
        others = [url for url in urls if url != self._own_url]
        answers = await asyncio.gather(*(self._part(flow, url) for url in others))
        parts = [each for each in answers if isinstance(each, FlowPart)]
        return parts, [each for each in answers if isinstance(each, str)]

    async def close(self) -> None:
        """Close its connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _part(self, flow: str, url: str) -> FlowPart | str:
        try:
            answer = await self._connected().get(f"{url}{PARTS_PATH}/{quote(flow, safe='')}")
            answer.raise_for_status()
            return FlowPart.model_validate_json(answer.content)
        except (httpx.HTTPError, ValidationError) as error:
            return f"the worker {urlsplit(url).netloc} does not answer: {str(error) or type(error).__name__}"

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                timeout=ANSWER_TIMEOUT_S,
                limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
                verify=self._tls or True,
                trust_env=False,
                follow_redirects=False,
            )
        return self._client
