"""Markers as they stand in a log: in a segment's file, or in batches that a leader has sent.

A control batch that cannot be read ends nothing. A leader refuses such a one, so it comes from a damaged disk or from
other software; every replica has the same bytes and must draw the same conclusion from them.
"""

import os
from typing import Final

import structlog

from ottla_broker.log.segments.segment import LogSegment
from ottla_core.errors import KafkaError
from ottla_core.wire.control_records import TransactionMarker, read_marker
from ottla_core.wire.record_batch import CONTROL_FLAG, Buffer, RecordBatchHeader

_SIZE_BYTES_MAX: Final = 64 * 1024
"""A control batch that is larger is no marker: one has less than a hundred bytes."""

_logger: Final = structlog.get_logger("log")


def marker_of(batch: Buffer, header: RecordBatchHeader) -> TransactionMarker | None:
    """Return the marker that a whole batch consists of, or None."""
    try:
        return read_marker(batch, header)
    except KafkaError as error:
        _logger.warning("a control batch is no marker and ends no transaction", problem=error.message)
        return None


def marker_in_segment(segment: LogSegment, position: int, header: RecordBatchHeader) -> TransactionMarker | None:
    """Return the marker at a position of a segment, or None if the batch there is none; raises OSError."""
    if not header.attributes & CONTROL_FLAG or header.size_bytes > _SIZE_BYTES_MAX:
        return None
    return marker_of(os.pread(segment.file().fileno(), header.size_bytes, position), header)
