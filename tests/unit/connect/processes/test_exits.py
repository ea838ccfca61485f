"""Why a process ended is told in words."""

import os

import pytest

from ottla_connect.processes.exits import exit_reason, memory_reason
from ottla_connect.processes.memory import ProcessMemory, counted_bytes

MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("exit_code", "signal_number", "last_word", "reason"),
    [
        (0, None, "stopped", "stopped"),
        (1, None, "failed", "ended with exit code 1"),
        (0, None, None, "ended without saying why"),
        (None, 11, None, "ended by signal 11 (SIGSEGV)"),
        (None, 40, None, "ended by signal 40 (a real-time signal)"),
    ],
)
def test_an_end_is_named(
    exit_code: int | None, signal_number: int | None, last_word: str | None, reason: str
) -> None:
    assert exit_reason(exit_code, signal_number, last_word=last_word) == reason


def test_memory_is_told_with_its_limit() -> None:
    assert (
        memory_reason(612 * MEBIBYTE - 1, 512 * MEBIBYTE)
        == "used 612 MiB, more than task.memory.max.bytes allows (512 MiB)"
    )


def test_memory_that_is_a_process_s_own_counts() -> None:
    status = b"VmRSS:\t  900 kB\nRssAnon:\t 100 kB\nRssFile:\t 700 kB\nRssShmem:\t  20 kB\nVmSwap:\t   3 kB\n"
    assert counted_bytes(status) == 123 * 1024


def test_a_process_that_has_gone_uses_none() -> None:
    own = ProcessMemory(os.getpid())
    assert (own.used_bytes() or 0) > MEBIBYTE
    own.close()
    assert own.used_bytes() is None
    assert ProcessMemory(2**22 + 1).used_bytes() is None
