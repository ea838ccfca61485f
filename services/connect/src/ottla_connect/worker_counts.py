"""What a worker counts while it runs, for its metrics: rebalances and REST requests, as plain numbers."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla_connect.group.membership import Assignment, Revoked
from ottla_core.rest.authentication import AccessCounts

OnAssigned = Callable[[Assignment, Revoked], Awaitable[None]]
OnLost = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class WorkerCounts:
    """Counts since the start.

    Attributes:
        rebalances: assignments that were taken and carried out.
        rebalance_s: seconds that this took, which is mostly the stop of what was revoked.
        memberships_lost: how often the worker lost its membership, and with it all its work.
        requests: REST requests by method and status.
        request_s: seconds of all requests.
        access: requests that were refused for who asked.
    """

    rebalances: int = 0
    rebalance_s: float = 0.0
    memberships_lost: int = 0
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    request_s: float = 0.0
    access: AccessCounts = field(default_factory=AccessCounts)

    def counting_assignments(self, on_assigned: OnAssigned) -> OnAssigned:
        """Return a callback that counts, and calls this one."""

        async def counted(assignment: Assignment, revoked: Revoked) -> None:
            began = time.monotonic()
            await on_assigned(assignment, revoked)
            self.rebalances += 1
            self.rebalance_s += time.monotonic() - began

        return counted

    def counting_losses(self, on_lost: OnLost) -> OnLost:
        """Return a callback that counts, and calls this one."""

        async def counted() -> None:
            self.memberships_lost += 1
            await on_lost()

        return counted


class CountRequests:
    """ASGI middleware that counts requests by method and status; 0 stands for those that nobody waited for.

    Args:
        app: what answers.
        counts: where they are counted.
    """

    def __init__(self, app: ASGIApp, counts: WorkerCounts) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0
        began = time.monotonic()

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            self._counts.requests[scope["method"], status] += 1
            self._counts.request_s += time.monotonic() - began
