"""What /proc says about this very process."""

import os
import socket
import time

import pytest

from benchmarks.process_stats import (
    CpuTime,
    NoListenerError,
    children,
    cpu_time,
    forget_peak,
    listener_pid,
    peak_mib,
    proportional_mib,
    resident_mib,
    shared_once_mib,
    started_at_s,
)


def test_the_listener_of_a_port_is_found():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert listener_pid(port) == os.getpid()
    with pytest.raises(NoListenerError, match=str(port)):
        listener_pid(port)


def test_cpu_time_grows_with_work_and_can_be_subtracted():
    before = cpu_time(os.getpid())
    deadline_s = time.monotonic() + 10
    while (used := cpu_time(os.getpid()) - before).total_s < 0.02:
        assert time.monotonic() < deadline_s
    assert used.total_s == pytest.approx(used.user_s + used.system_s)
    assert CpuTime(3, 2) - CpuTime(1, 1) == CpuTime(2, 1)


def test_memory_and_start_are_plausible():
    assert 5 < resident_mib(os.getpid()) < 10_000
    assert 0 < started_at_s(os.getpid()) <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_peak_that_is_forgotten_begins_anew():
    bytearray(b"x" * 50_000_000)
    before_mib = peak_mib(os.getpid())
    forget_peak(os.getpid())
    assert peak_mib(os.getpid()) < before_mib - 20


def test_what_processes_share_counts_once():
    parts = 64
    block = bytearray(os.urandom(1024 * 1024) * parts)  # memory that a forked process has in common with this one
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    try:
        assert children(os.getpid()).count(pid) == 1
        alone, both = shared_once_mib([os.getpid()]), shared_once_mib([os.getpid(), pid])
        apart = resident_mib(os.getpid()) + resident_mib(pid)
        assert both > parts, "it has the block"
        assert both < apart - parts * 0.9, "and has it once"
        assert alone < both
        assert proportional_mib(pid) < resident_mib(pid)
    finally:
        os.close(write_end)
        os.waitpid(pid, 0)
        os.close(read_end)
    assert len(block) == parts * 1024 * 1024
