"""Pieces of log files that cannot be sent: a failing disk is told of, and a peer that has gone is not."""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from ottla_broker.channel import PlainChannel
from ottla_broker.unsent_responses import UnsentResponses
from tests.support.broker.partition_logs import append, open_log


def raising(code: int) -> OSError:
    return OSError(code, os.strerror(code))


@pytest.fixture
def responses() -> Iterator[UnsentResponses]:
    """Those of a plain connection, of which nobody reads the other end."""
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        yield UnsentResponses(PlainChannel(near))


def test_a_log_fails_when_the_disk_refuses_it_in_the_middle_of_an_answer(
    responses: UnsentResponses, tmp_path: Path
) -> None:
    log = open_log(tmp_path)
    append(log, b"v" * 1000)
    piece = log.read(0, max_bytes=10_000, end_offset=1, at_least_one_batch=True)
    assert piece is not None
    told: list[str | None] = []
    log.when_failed(lambda: told.append(log.failure))
    responses.add([b"head", piece])
    refused = raising(errno.EIO)
    with (
        patch.object(os, "sendfile", side_effect=refused),
        patch.object(os, "pread", side_effect=refused),
        pytest.raises(OSError, match="Input/output error"),
    ):
        responses.send()
    assert len(told) == 1
    assert "a read failed" in str(told[0])


@pytest.mark.parametrize("code", [errno.EPIPE, errno.ECONNRESET, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.EIO])
def test_a_peer_that_has_gone_is_no_fault_of_the_disk(responses: UnsentResponses, tmp_path: Path, code: int) -> None:
    log = open_log(tmp_path)
    append(log, b"v" * 1000)
    piece = log.read(0, max_bytes=10_000, end_offset=1, at_least_one_batch=True)
    assert piece is not None
    responses.add([piece])
    with patch.object(os, "sendfile", side_effect=raising(code)), pytest.raises(OSError, match=os.strerror(code)):
        responses.send()
    assert log.failure is None


def test_a_log_that_is_closed_meanwhile_does_not_fail(responses: UnsentResponses, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"v" * 1000)
    piece = log.read(0, max_bytes=10_000, end_offset=1, at_least_one_batch=True)
    assert piece is not None
    responses.add([piece])
    log.close()
    refused = raising(errno.EIO)
    with (
        patch.object(os, "sendfile", side_effect=refused),
        patch.object(os, "pread", side_effect=refused),
        pytest.raises(OSError, match="Input/output error"),
    ):
        responses.send()
    assert log.failure is None
