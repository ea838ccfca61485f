"""The errors that this process has answered, by API: plain integers for a metric to read.

As in Kafka (RequestMetrics' ErrorsPerSec), each topic or partition that a response refuses counts.
"""

from collections import Counter
from collections.abc import Iterable
from threading import Lock

from kio.schema.errors import ErrorCode

from ottla_core.observe.metrics import Reader
from ottla_core.wire.messages import api_name

_errors: Counter[tuple[int, ErrorCode]] = Counter()
_lock = Lock()  # long responses are encoded in threads


def count_error(api_key: int, code: ErrorCode) -> None:
    """Count an error that a client is told."""
    with _lock:
        _errors[api_key, code] += 1


def count_errors(api_key: int, codes: Iterable[ErrorCode]) -> None:
    """Count the errors of a response."""
    for code in codes:
        count_error(api_key, code)


def errors_by_api() -> Reader:
    """Return a reader of the errors so far."""
    return lambda: [
        (count, {"api": api_name(api_key), "error": code.name.upper()})
        for (api_key, code), count in tuple(_errors.items())
    ]
