"""The outermost layer around all pages: a request's host, origin and size; headers and failures of answers."""

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla_console.access.request_origin import problem_of_host, problem_of_origin
from ottla_console.access.security_headers import security_headers
from ottla_core.rest.access import headers_of

BODY_BYTES_MAX: Final = 4 * 1024 * 1024

log = structlog.get_logger("access")


@dataclass(slots=True)
class RequestCounts:
    """What the guard counts, for metrics."""

    answers: dict[str, int] = field(default_factory=lambda: {f"{each}xx": 0 for each in range(2, 6)})
    refused: int = 0


class BodyTooLarge(Exception):
    """A request's body has more than `BODY_BYTES_MAX`."""


class RequestGuard:
    """Looks at every request before the pages do, and refuses those that no page of the console can have sent.

    Args:
        app: the pages.
        hosts: names by which the console may be asked; None for any.
        public_url: the URL by which browsers reach it, or None.
        counts: what is counted.
    """

    def __init__(
        self, app: ASGIApp, hosts: frozenset[str] | None, public_url: str | None, counts: RequestCounts
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._public_url = public_url
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; nothing but HTTP is served, so there are no websockets to guard."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        assert scope["type"] == "http", "no listener accepts websockets"
        headers = headers_of(scope["headers"])
        secure = scope["scheme"] == "https" or (self._public_url or "").startswith("https:")
        answer = _Answer(send, security_headers(with_tls=secure), self._counts)
        problem = problem_of_host(headers.get("host", ""), self._hosts)
        status = 421
        if problem is None:
            problem, status = problem_of_origin(scope["method"], headers, self._public_url), 403
        if problem is not None:
            self._counts.refused += 1
            log.warning("request refused", reason=problem, method=scope["method"])
            return await PlainTextResponse(f"Refused: {problem}.\n", status)(scope, receive, answer.send)
        try:
            await self._app(scope, _Body(receive).receive, answer.send)
        except BodyTooLarge:
            if not answer.has_begun:
                await PlainTextResponse("The form is too large.\n", 413)(scope, receive, answer.send)
        except Exception:
            log.exception("a page failed", path=scope["path"])
            if not answer.has_begun:
                text = "The console failed at this page; its log says why.\n"
                await PlainTextResponse(text, 500)(scope, receive, answer.send)
        return None


class _Body:
    """Receives a body up to a size."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._bytes = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._bytes += len(message.get("body", b""))
        if self._bytes > BODY_BYTES_MAX:
            raise BodyTooLarge
        return message


class _Answer:
    """Sends an answer with the headers of all answers."""

    def __init__(self, send: Send, headers: dict[str, str], counts: RequestCounts) -> None:
        self._send = send
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._counts = counts
        self.has_begun = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            self._counts.answers[f"{message['status'] // 100}xx"] = (
                self._counts.answers.get(f"{message['status'] // 100}xx", 0) + 1
            )
            message = {**message, "headers": [*message.get("headers", ()), *self._headers]}
        await self._send(message)
