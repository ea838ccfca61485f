"""Long responses to short requests: about every topic, every partition, or every group, of a cluster.

What they say is put together in slices (`ottla_core.slices`); a thread encodes it, which kio's writer makes a matter
of tens of microseconds for each item. It takes the interpreter for some milliseconds at a time.
"""

import asyncio
from typing import Any, Final

from kio.static.protocol import Entity

from ottla_broker.broker import Request
from ottla_broker.long_requests import LONG_FRAME_BYTES
from ottla_broker.outcome import Parts
from ottla_core.wire.messages import MessageCodec

LONG_RESPONSE_ITEMS: Final = 200
"""From so many items on, a response is encoded in a thread; fewer are cheaper on the event loop."""


async def read_long(codec: MessageCodec, frame: bytes) -> Any:
    """Read a coordinator's response, in a thread if it is long; raises InvalidRequest if it is malformed."""
    if len(frame) < LONG_FRAME_BYTES:
        return codec.read_response(frame)
    return await asyncio.get_running_loop().run_in_executor(None, codec.read_response, frame)


async def respond_in_thread(request: Request, response: Entity, items: int) -> Parts:
    """Encode a response of so many items, in a thread if they are many."""
    if items < LONG_RESPONSE_ITEMS:
        return request.respond(response)
    return await asyncio.get_running_loop().run_in_executor(None, request.respond, response)
