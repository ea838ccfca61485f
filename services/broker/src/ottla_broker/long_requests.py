"""Requests that are long to decode, to handle or to answer, kept from holding up everybody else.

Such a request is decoded in a thread, handled in parts (`request_parts`) between which others have their turn, and
its response is encoded in the thread again. While it is decoded and handled, nothing else is taken from its
connection, so that requests take effect in the order in which they were sent. An API whose requests cannot be cut,
and whose handler does not rest by itself, allows fewer items (`ITEMS_WHOLE_MAX`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final, cast

from kio.static.protocol import Entity

from ottla_broker.broker import Broker, Request
from ottla_broker.connection import Connection
from ottla_broker.outcome import Answer, Outcome, Parts
from ottla_broker.request_parts import ItemLists, Part, joined_answers, lists_in, parts_of
from ottla_core.slices import rest
from ottla_core.wire.bounds import ITEMS_MAX
from ottla_core.wire.messages import MessageCodec, RequestHeader

LONG_FRAME_BYTES: Final = 32 * 1024
"""A frame of this size takes some ten milliseconds to decode, if it names as much as it can."""

ITEMS_WHOLE_MAX: Final = 15_000
"""Items of a request that is handled as a whole."""

ITEMS_PER_PART: Final = 250

Handler = Callable[[Broker, Request], Outcome]


@dataclass(slots=True)
class _PartialRequest(Request):
    """A part of a request; what it is answered with is kept instead of encoded.

    Attributes:
        began_s: when the first part was handled, on the loop's clock.
    """

    began_s: float = 0.0
    answer: Entity | None = None

    @property
    def elapsed_s(self) -> float:
        """For how long the parts before this one were handled."""
        return asyncio.get_running_loop().time() - self.began_s

    def respond(self, response: Entity) -> Parts:
        """Keep a response."""
        self.answer = response
        return []


@dataclass(frozen=True, slots=True)
class LongRequest:
    """A long request.

    Attributes:
        frame: a copy of it, without its length.
        handler: of its API.
        lists: the lists by which it can be cut, if there are any.
        keeps_frame: whether the handler is given a frame.
        works_in_slices: whether the handler rests by itself.
    """

    broker: Broker
    frame: bytes
    header: RequestHeader
    codec: MessageCodec
    connection: Connection
    handler: Handler
    lists: tuple[ItemLists, ...]
    keeps_frame: bool
    works_in_slices: bool

    async def handle(self, thread: Executor) -> Answer | Awaitable[Answer]:
        """Return the response, or what is left to be awaited for it when the request has taken effect.

        Raises:
            InvalidRequest: the connection must be closed.
        """
        loop = asyncio.get_running_loop()
        message, parts = await loop.run_in_executor(thread, self._decode)
        if not parts:
            return cast("Answer", self.handler(self.broker, self._request(Request, message, self.frame)))
        lists = lists_in(type(message), self.lists)
        assert lists is not None
        answers = []
        began_s = loop.time()
        for part in parts:
            answers.append((await self._handle_part(part, began_s), part.continues))
            await rest()
        response = joined_answers(answers, lists.answered)
        return await loop.run_in_executor(thread, self._request(Request, message, b"").respond, response)

    def _decode(self) -> tuple[Any, list[Part]]:
        """Return the message and its parts; none if it is handled as a whole. Runs in a thread."""
        lists = lists_in(self.codec.request_type, self.lists)
        items_max = ITEMS_WHOLE_MAX if lists is None and not self.works_in_slices else ITEMS_MAX
        message: Any = self.codec.read_request(memoryview(self.frame), self.header, items_max=items_max)
        if lists is None or getattr(message, lists.requested, None) is None:
            return message, []
        return message, list(parts_of(message, lists.requested, ITEMS_PER_PART))

    async def _handle_part(self, part: Part, began_s: float) -> Any:
        frame = self.codec.encode_request(self.header, part.message) if self.keeps_frame else b""
        request = self._request(_PartialRequest, part.message, frame)
        request.began_s = began_s
        encoded = self.handler(self.broker, request)
        while encoded is not None and not isinstance(encoded, list):
            encoded = await encoded
        if request.answer is not None:
            return request.answer
        assert encoded, "every API with lists answers"
        return self.codec.read_response(b"".join(piece for piece in encoded if isinstance(piece, bytes)))

    def _request(self, request_type: Any, message: Any, frame: bytes) -> Any:
        return request_type(self.header, message, self.codec, self.connection, frame if self.keeps_frame else b"")
