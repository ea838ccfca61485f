"""Which process a process id means."""

import os
import signal
import subprocess

from ottla_operations.local_clusters.process_identity import (
    ProcessIdentity,
    identify,
    is_alive,
    parse_proc_stat,
    send_signal,
)
from tests.support.eventually import eventually


def test_a_name_with_spaces_and_parentheses_does_not_confuse_the_fields():
    line = "42 (a) b (c)) S " + " ".join(str(number) for number in range(4, 30))
    assert parse_proc_stat(line) == ("S", "22")


def test_this_process_is_alive_and_itself():
    own = identify(os.getpid())
    assert own is not None
    assert is_alive(own)


def test_another_process_with_the_same_id_is_neither_alive_nor_signalled():
    recycled = ProcessIdentity(os.getpid(), "another boot/1")
    assert not is_alive(recycled)
    assert not send_signal(recycled, signal.SIGKILL)


def test_a_process_is_signalled_and_counts_as_gone_even_before_it_is_collected():
    child = subprocess.Popen(["sleep", "60"])
    try:
        identity = identify(child.pid)
        assert identity is not None
        assert send_signal(identity, signal.SIGKILL)
        eventually(lambda: not is_alive(identity), "the zombie counts as gone")
    finally:
        child.kill()
        child.wait()
    assert not send_signal(identity, signal.SIGKILL)
