"""Answers are counted when they are complete, each with the moment when its request was due."""

import socket
import struct

import pytest

from benchmarks.client import BenchmarkFailed
from benchmarks.connections import Publisher


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def test_answers_come_in_the_order_of_requests_however_they_are_cut():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        publisher = Publisher(ours)
        publisher.due_s.extend([1.0, 2.0, 3.0])
        stream = framed(b"first") + framed(b"second") + framed(b"third")
        theirs.sendall(stream[:12])
        assert publisher.take_answers() == [(1.0, framed(b"first"))]
        theirs.sendall(stream[12:])
        assert publisher.take_answers() == [(2.0, framed(b"second")), (3.0, framed(b"third"))]
        assert not publisher.due_s


def test_a_connection_that_the_broker_closes_is_a_failure():
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        with pytest.raises(BenchmarkFailed, match="closed"):
            Publisher(ours).take_answers()
