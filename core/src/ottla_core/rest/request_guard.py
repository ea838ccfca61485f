"""The outermost layer around every request: its time is limited, it is logged, and no traceback leaves the worker."""

import asyncio
import time

import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla_core.rest.error_answers import error_answer, internal_error_answer

log = structlog.get_logger("rest")

REQUEST_TIMEOUT_S = 90.0
"""Kafka's limit (`RestServer.DEFAULT_REST_REQUEST_TIMEOUT_MS`): a rebalance can take as long."""


class RequestGuard:
    """Middleware.

    Args:
        app: what answers.
        timeout_s: how long it has.
    """

    def __init__(self, app: ASGIApp, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self._app = app
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        answer = _Answer(send, is_head=scope["method"] == "HEAD")
        began = time.monotonic()
        # HEAD is GET whose body is not sent.
        inner = {**scope, "method": "GET"} if answer.is_head else scope
        failure: Response | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._app(inner, receive, answer.send)
        except ClientDisconnect:
            return None  # nobody is there to be answered
        except TimeoutError:
            failure = error_answer(500, f"Request timed out: it was not carried out within {self._timeout_s:.0f} s")
        except Exception as error:  # noqa: BLE001 - logged, and answered with 500
            failure = internal_error_answer(scope["method"], _path(scope), error)
        if failure is not None and answer.status is None:
            await failure(scope, receive, answer.send)
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            took_ms = round((time.monotonic() - began) * 1000)
            caller = scope.get("state", {}).get("caller")
            user = {} if caller is None else {"user": caller}  # whose name is empty is another worker
            log.info(
                "request", method=scope["method"], path=_path(scope), status=answer.status, took_ms=took_ms, **user
            )
        return None


class _Answer:
    """Sends an answer on, and remembers its status."""

    def __init__(self, send: Send, *, is_head: bool) -> None:
        self._send = send
        self.is_head = is_head
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif self.is_head and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self._send(message)


def _path(scope: Scope) -> str:
    return str(scope["raw_path"].decode("ascii", errors="replace"))
