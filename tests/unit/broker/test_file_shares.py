"""Sharing out file descriptors."""

import pytest

from ottla_broker.file_shares import RESERVED_FILES, share_files
from ottla_broker.log.segments.segment_file import OPEN_FILES_MAX


@pytest.mark.parametrize("limit", [4, 256, 1024, 65_536, 1_048_576])
def test_logs_and_connections_together_leave_something_for_all_else(limit: int) -> None:
    shares = share_files(limit)
    assert shares.segments >= 1
    assert shares.connections >= limit // 2
    assert limit - shares.segments - shares.connections >= min(RESERVED_FILES, limit // 4)


def test_segments_take_no_more_than_they_need() -> None:
    assert share_files(1_048_576).segments == OPEN_FILES_MAX
