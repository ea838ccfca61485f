"""Values that recur in responses which are read by hand. Pure."""

from functools import lru_cache
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

TOPIC_IDS_KEPT_MAX: Final = 10_000


@lru_cache(TOPIC_IDS_KEPT_MAX)
def topic_id_of(raw: bytes) -> UUID:
    """Return the id; making one costs as much as all the rest of a partition without records."""
    return UUID(bytes=raw)


def error_code_of(number: int) -> ErrorCode:
    """Return an error code; one that Kafka does not have yet is `unknown_server_error`."""
    if number == 0:
        return ErrorCode.none
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.unknown_server_error
