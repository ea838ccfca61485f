"""How librdkafka's admin client is asked for what groups' coordinators answer: without a timeout of its own.

librdkafka looks for a group's coordinator before it sends a request. If the request times out meanwhile, and the
lookup succeeds later, librdkafka (2.16.0) gives back the lookup's hold on the request twice, and ends the process:
"Assertion `eonce->refcnt > 0' failed" (confluentinc/librdkafka, issue 4605). A coordinator that is away for longer
than the timeout is enough. So these requests are sent with the longest timeout that it takes, and given up by us
after a shorter time. What was given up the client still sends, as soon as it can; so a client that may still wait is
closed, which ends its lookups in the right way, and takes some milliseconds.
"""

from types import TracebackType
from typing import Final, Protocol

TIMEOUT_MAX_S: Final = 3600.0
"""The longest timeout of librdkafka's admin requests; its `request_timeout` for those to coordinators."""


class GroupClient(Protocol):
    """An admin client, which is closed as a context manager is left."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object:
        """Close it."""


def close(client: GroupClient) -> None:
    """Close a client that nobody uses any more; what it waits for is not asked any more, and gets no answer."""
    client.__exit__(None, None, None)
