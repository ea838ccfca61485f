"""What handling a request gives: an answer, at once or later, and its place among those of its connection."""

from collections.abc import Awaitable
from typing import Any, Protocol

from ottla_broker.log.segments.log_slice import LogSlice
from ottla_broker.request_times import MeasuredRequest
from ottla_core.callback_answer import CallbackAnswer

Part = bytes | LogSlice
Parts = list[Part]
"""A response: whole frames of bytes and pieces of logs, ready to send."""

Answer = Parts | None
"""The response, or None where none is due."""

Outcome = Answer | Awaitable[Answer] | Awaitable[Answer | Awaitable[Answer]]
"""What handling a frame gives: the answer, at once or later. A request that is worked on in slices may have to wait
for its answer when it has taken effect, and then gives an awaitable itself."""


class Delayed(Protocol):
    """A request that waits and could be answered at once."""

    def hurry(self) -> None:
        """Answer with what there is."""


class Reply:
    """The place of one response in the order of responses."""

    __slots__ = ("later", "measured", "parts", "ready")

    def __init__(self) -> None:
        self.parts: Parts | None = None
        self.ready = False
        self.later: CallbackAnswer[Any] | None = None
        self.measured: MeasuredRequest | None = None
