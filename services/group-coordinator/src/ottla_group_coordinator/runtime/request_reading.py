"""Reading a request that came on a stream: whatever is wrong with it must not cost the stream of all."""

from collections.abc import Callable

import structlog
from kio.index import KioIndexError

from ottla_core.errors import InvalidRequest
from ottla_group_coordinator.runtime.relay_stream import RelayStream
from ottla_group_coordinator.runtime.waiting_request import UNANSWERABLE

log = structlog.get_logger("requests")


def take_guarded(stream: RelayStream, frame_id: int, take: Callable[[], None]) -> None:
    """Take a request; one that cannot be taken is answered with `UNANSWERABLE`."""
    try:
        take()
    except (InvalidRequest, KioIndexError) as error:
        log.error("unreadable request", broker=stream.broker_id, error=str(error))
        stream.answer(frame_id, UNANSWERABLE)
    except Exception:  # one request must not cost the stream of all
        log.exception("request failed unexpectedly", broker=stream.broker_id)
        stream.answer(frame_id, UNANSWERABLE)
