"""Which paths a listener serves where administration has listeners of its own (Kafka's ``admin.listeners``)."""

from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from ottla_core.rest.access import OPEN_PATHS
from ottla_core.rest.error_answers import error_answer

ADMIN_PATH: Final = "/admin"


class ListenerPaths:
    """Middleware of one listener.

    Args:
        app: what answers.
        serves: whether this listener has a path.
    """

    def __init__(self, app: ASGIApp, serves: Callable[[str], bool]) -> None:
        self._app = app
        self._serves = serves

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http":
            path = scope["raw_path"].decode("ascii", errors="replace").removesuffix("/")
            if not self._serves(path):
                answer = error_answer(404, "HTTP 404 Not Found: this listener does not serve it; see admin.listeners")
                return await answer(scope, receive, send)
        return await self._app(scope, receive, send)


def is_of_users(path: str) -> bool:
    """Return whether listeners have a path that are not for administration."""
    return path != ADMIN_PATH and not path.startswith(f"{ADMIN_PATH}/")


def is_of_administration(path: str) -> bool:
    """Return whether listeners for administration have a path: log levels, and whether the worker works."""
    return path in OPEN_PATHS or not is_of_users(path)
