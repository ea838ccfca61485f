"""Paths whose segments may hold any character, escaped. Pure.

ASGI servers give the path with its escapes resolved, in which what is named ``a/b`` would be two segments.
`EncodedPaths` has the routes look at the path as it was sent instead, and the convertor ``segment``, which every
parameter of our paths uses, resolves the escapes of that one segment.
"""

import re
from urllib.parse import unquote, unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla_core.rest.error_answers import error_answer

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class SegmentConvertor(Convertor[str]):
    """One segment of a path, as text."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """Resolve the escapes; `EncodedPaths` has checked that they are UTF-8."""
        return unquote(value)

    def to_string(self, value: str) -> str:
        """Refuse: links are made elsewhere."""
        raise NotImplementedError(value)


register_url_convertor("segment", SegmentConvertor())


class EncodedPaths:
    """Middleware that routes by the path as it was sent, and without a slash at its end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = scope["raw_path"].decode("ascii", errors="replace")
        if not is_well_escaped(path):
            answer = error_answer(400, f"The path {path[:200]!r} is no URL path: escape UTF-8 as %XX")
            return await answer(scope, receive, send)
        if len(path) > 1:
            path = path.removesuffix("/")
        return await self._app({**scope, "path": path}, receive, send)


def is_well_escaped(path: str) -> bool:
    """Return whether a path has only whole escapes, which are UTF-8."""
    if _BAD_ESCAPE.search(path) or not path.isascii():
        return False
    try:
        unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return False
    return True
