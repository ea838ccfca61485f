"""Requests that another worker has to answer: they are sent there, and its answer is returned (KIP-415, KIP-507).

As in Kafka Connect's `HerderRequestHandler` a request makes at most two hops: the first worker forwards it with
``forward=true``, the second, if it knows better, with ``forward=false``, and a third one refuses. So workers that
disagree about who leads cannot send a request in circles.
"""

import asyncio
import secrets
import ssl
import time
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
from fastapi import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla_core.rest.error_answers import error_answer
from ottla_core.rest.errors import Conflict, Elsewhere, RequestError
from ottla_core.rest.request_guard import REQUEST_TIMEOUT_S
from ottla_core.rest.worker_connections import WorkerConnections
from ottla_core.rest.worker_signatures import SIGNATURE_HEADER, RequestSigner, sign_caller

CONNECT_TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024
FORWARD = "forward"
PATIENCE_S = 20.0
"""A worker that has died is replaced as soon as its session has run out, and the others have joined a rebalance."""
RETRY_S = 0.5
PASSED_REQUEST_HEADERS = ("authorization", "content-type")
NONCE_BYTES = 16
UNKNOWN_CALLER = 401


class Unreached(Exception):
    """A request was not carried out: the worker that has to answer it has gone, or does not know this one yet."""


class ForwardRetries:
    """Middleware that handles a request again, from the beginning, that was to go to a worker which has gone.

    By then another worker may lead. Where another worker has forwarded the request here, that one does so.

    Args:
        app: what answers.
        patience_s: how long.
    """

    def __init__(self, app: ASGIApp, patience_s: float = PATIENCE_S) -> None:
        self._app = app
        self._patience_s = patience_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        scope.setdefault("state", {})  # the body that was read stays there
        give_up_s = time.monotonic() + (0.0 if is_forwarded(scope) else self._patience_s)
        while True:
            try:
                return await self._app({**scope}, receive, send)
            except Unreached as unreached:
                if time.monotonic() >= give_up_s:
                    answer = error_answer(Conflict.status, f"{unreached}; try again shortly")
                    return await answer(scope, receive, send)
            await asyncio.sleep(RETRY_S)


class Forwarder:
    """Sends requests on to other workers.

    Args:
        own_url: this worker's own URL, to which nothing is forwarded.
        tls: how workers with an https URL are trusted; by default as the system's authorities say.
        passed_headers: headers of requests that go along, beside `PASSED_REQUEST_HEADERS`.
        signer: signs requests of known users; None where nobody is asked who they are.
    """

    def __init__(
        self,
        own_url: str,
        tls: ssl.SSLContext | None = None,
        *,
        passed_headers: Sequence[str] = (),
        signer: RequestSigner | None = None,
    ) -> None:
        self._own_url = own_url.rstrip("/")
        self._signer = signer
        self._passed_headers = (*PASSED_REQUEST_HEADERS, *passed_headers)
        self._connections = WorkerConnections(tls, httpx.Timeout(REQUEST_TIMEOUT_S, connect=CONNECT_TIMEOUT_S))

    async def close(self) -> None:
        """Close its connections."""
        await self._connections.close()

    async def forward(self, request: Request, elsewhere: Elsewhere) -> Response:
        """Return the answer of the worker that has to answer.

        Raises:
            Conflict: nobody knows which worker that is, as after two hops, or during a rebalance.
            Unreached: it cannot be reached, or does not know who asks, so it has not carried the request out.
            RequestError: it does not answer properly.
        """
        hop = next_hop(request.query_params.get(FORWARD))
        target = elsewhere.url.rstrip("/")
        if not target or target == self._own_url:
            raise Conflict("No worker is known that can answer this just now; there is probably a rebalance")
        path = request.scope["raw_path"].decode("ascii") + "?" + with_hop(request.url.query, hop)
        url = httpx.URL(target + path)
        headers = {key: request.headers[key] for key in self._passed_headers if key in request.headers}
        signature = self._signature(request, target, url.raw_path)
        if signature is not None:
            headers |= signature
        elif "authorization" not in headers:
            raise Unreached(f"{self._own_url} has not read yet by which key workers sign what they send on")
        return await self._send(request, url, headers)

    def _signature(self, request: Request, audience: str, target: bytes) -> Mapping[str, str] | None:
        """Return the headers that tell the other worker who asks: none where nobody was asked, None without a key."""
        caller = getattr(request.state, "caller", None)
        if caller is None or self._signer is None:
            return {}
        body: bytes = getattr(request.state, "body", b"")
        method = request.method
        signed = freshly_signed(self._signer, caller, audience=audience, method=method, target=target, body=body)
        return signed or None

    async def _send(self, request: Request, url: httpx.URL, headers: dict[str, str]) -> Response:
        body: bytes = getattr(request.state, "body", b"")
        client, host = self._connections.client(), url.netloc.decode()
        try:
            async with client.stream(request.method, url, content=body or None, headers=headers) as received:
                content = bytearray()
                async for chunk in received.aiter_bytes():
                    content += chunk
                    if len(content) > ANSWER_BYTES_MAX:
                        raise RequestError(f"the answer of {host} has more than {ANSWER_BYTES_MAX:,} bytes")
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            refusal = f"The request could not be forwarded to {host}: {reason}"
            # A change that may have been made is not made again: another user's, made in between, would be lost.
            if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                raise Unreached(f"{refusal}. Another worker takes over after a rebalance") from None
            raise RequestError(f"{refusal}. It may have been carried out all the same") from None
        if received.status_code == UNKNOWN_CALLER and SIGNATURE_HEADER in headers:
            # It has not heard yet of the key by which this was signed, and has not carried it out.
            raise Unreached(f"{host} does not know the signature of {self._own_url} yet, as after a rebalance")
        answer = Response(bytes(content), received.status_code)
        if (media_type := received.headers.get("content-type")) is not None:
            answer.headers["content-type"] = media_type
        if (location := received.headers.get("location")) is not None:
            answer.headers["location"] = str(request.base_url).rstrip("/") + urlsplit(location).path
        return answer


def freshly_signed(
    signer: RequestSigner, caller: str, *, audience: str, method: str, target: bytes, body: bytes = b""
) -> Mapping[str, str]:
    """Return the headers that sign a request which is sent now; see `sign_caller`."""
    return sign_caller(
        signer,
        caller,
        audience=audience,
        method=method,
        target=target,
        body=body,
        nonce=secrets.token_hex(NONCE_BYTES),
        now_ms=int(time.time() * 1000),
    )


def is_forwarded(scope: Scope) -> bool:
    """Return whether another worker has sent a request on."""
    return FORWARD in dict(parse_qsl(scope["query_string"].decode("ascii", errors="replace")))


def next_hop(forward: str | None) -> str:
    """Return the value of `FORWARD` with which a request is sent on.

    Args:
        forward: the value with which it came; None from a user.

    Raises:
        Conflict: it has made two hops.
    """
    if forward is None:
        return "true"
    if forward.lower() == "true":
        return "false"
    raise Conflict("The workers do not agree on who answers this; there is probably a rebalance")


def with_hop(query: str, hop: str) -> str:
    """Return a URL's query with another value of `FORWARD`."""
    pairs = [(key, value) for key, value in parse_qsl(query, keep_blank_values=True) if key != FORWARD]
    return urlencode([*pairs, (FORWARD, hop)])
