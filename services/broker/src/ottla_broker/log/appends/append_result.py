"""What an append to a log comes to."""

from typing import NamedTuple


class AppendResult(NamedTuple):
    """The place a batch got.

    Attributes:
        base_offset: offset of its first record.
        last_offset: offset of its last record.
        log_append_time_ms: the timestamp it was given, or -1 if it keeps the producer's.
        log_start_offset: the log's start at that time.
        duplicate: the batch was in the log already, and the offsets are those it has there.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
