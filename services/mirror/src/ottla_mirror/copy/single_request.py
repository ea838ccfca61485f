"""One request on a connection for data whose answer somebody awaits."""

import asyncio
from collections.abc import Sequence

from ottla_core.client.pipelined_connection import Lost, PipelinedConnection
from ottla_core.wire.record_batch import Buffer


async def ask_raw(
    connection: PipelinedConnection,
    api_key: int,
    version: int,
    body: Sequence[Buffer],
    *,
    is_flexible: bool,
    timeout_s: float,
) -> memoryview:
    """Send a request and return the answer, from its correlation id on; it is the caller's while it has a view of it.

    Raises:
        Unreachable: there will be none.
        AuthenticationFailed: the broker does not accept us.
    """
    answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()

    def receive(found: memoryview | Lost) -> None:
        if answer.done():
            return
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    connection.send(api_key, version, body, receive, is_flexible=is_flexible, timeout_s=timeout_s, is_owned=True)
    return await answer
