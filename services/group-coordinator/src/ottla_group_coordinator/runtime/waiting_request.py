"""A client's request from when it comes in until its answer leaves. A long answer is encoded in a thread."""

import asyncio
from typing import Protocol

import structlog
from kio.static.protocol import Entity

from ottla_core.background import start_detached
from ottla_core.errors import KafkaError, MessageTooLarge
from ottla_core.observe.request_errors import count_errors
from ottla_core.rpc.frame_queue import FRAME_BYTES_MAX
from ottla_core.wire.group_responses import error_response
from ottla_core.wire.messages import MessageCodec
from ottla_core.wire.response_errors import errors_in
from ottla_group_coordinator.runtime.relay_stream import RelayStream
from ottla_group_coordinator.runtime.response_encoding import encode_response
from ottla_group_coordinator.runtime.response_item_count import item_count
from ottla_group_coordinator.runtime.turn import CoordinatorRequest, VerificationGuard

UNANSWERABLE = b""
"""In place of a frame: there is no answer, and the client's connection is to be closed."""

LONG_RESPONSE_ITEMS = 1000
"""From so many items on, a response is encoded in a thread."""

log = structlog.get_logger("requests")


class WaitingRequest(Protocol):
    """The side that waits for an answer."""

    @property
    def request(self) -> CoordinatorRequest:
        """What is asked."""

    def answer(self, response: Entity | VerificationGuard) -> None:
        """Give the answer."""

    def refuse(self, error: KafkaError) -> None:
        """Answer with an error."""


class RelayedRequest:
    """A request that came on a broker's stream."""

    __slots__ = ("_codec", "_correlation_id", "_frame_id", "_stream", "request")

    def __init__(
        self,
        request: CoordinatorRequest,
        stream: RelayStream,
        frame_id: int,
        codec: MessageCodec,
        correlation_id: int,
    ) -> None:
        self.request = request
        self._stream = stream
        self._frame_id = frame_id
        self._codec = codec
        self._correlation_id = correlation_id

    def answer(self, response: Entity | VerificationGuard) -> None:
        """Send the answer on the stream that the request came on; if that has ended, nobody waits any more."""
        if isinstance(response, VerificationGuard):
            self._stream.answer_with_guard(self._frame_id, response.number)
            return
        if item_count(self.request.api_key, response) >= LONG_RESPONSE_ITEMS:
            start_detached("long answer", self._answer_later(response))
            return
        self._send(self._encode_unless_impossible(response), response)

    async def _answer_later(self, response: Entity) -> None:
        self._send(await asyncio.to_thread(self._encode_unless_impossible, response), response)

    def _encode_unless_impossible(self, response: Entity) -> bytes | None:
        try:
            return self._encode(response)
        except Exception:  # a value that the version asked for cannot hold is a bug
            log.exception("response cannot be encoded", response=type(response).__name__)
            return None

    def _send(self, frame: bytes | None, response: Entity) -> None:
        if frame is None:
            self.refuse(KafkaError("the group coordinator failed unexpectedly; its log says why"))
            return
        if len(frame) > FRAME_BYTES_MAX:
            log.error("response is too large to travel", response=type(response).__name__, size=len(frame))
            self.refuse(MessageTooLarge(f"the response has {len(frame)} bytes, {FRAME_BYTES_MAX} is the most"))
        else:
            self._stream.answer(self._frame_id, frame)

    def refuse(self, error: KafkaError) -> None:
        """Send the error in the place where the API keeps it; never fails."""
        request = self.request
        try:
            frame = self._encode(error_response(request.api_key, request.api_version, request.message, error))
        except Exception:
            log.exception("request cannot be refused", api=request.api_key, version=request.api_version)
            frame = UNANSWERABLE
        self._stream.answer(self._frame_id, frame)

    def _encode(self, response: Entity) -> bytes:
        request = self.request
        count_errors(request.api_key, errors_in(response))
        return encode_response(self._codec, request.api_key, request.api_version, self._correlation_id, response)
