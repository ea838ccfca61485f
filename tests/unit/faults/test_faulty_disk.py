"""A disk in trouble refuses or delays what a log does with it, as the control file says, and else does nothing."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults import faulty_disk
from tests.faults.faulty_disk import (
    BROKEN,
    NO_DESCRIPTORS,
    REFUSED,
    SLOW,
    STALLED,
    UNREADABLE,
    UNSYNCED,
    UNWRITTEN,
    Control,
)
from tests.faults.synced_files import drop_unsynced


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The control file, looked at for every call."""
    monkeypatch.setattr(faulty_disk, "LOOK_INTERVAL_S", -1.0)
    return tmp_path / "control"


@pytest.mark.parametrize(
    ("mode", "writes", "opens", "reads"),
    [(BROKEN, False, True, True), (NO_DESCRIPTORS, True, False, True), (UNREADABLE, True, True, False)],
)
def test_a_mode_refuses_its_calls_only(path: Path, mode: str, writes: bool, opens: bool, reads: bool):
    control = Control(str(path))
    path.write_text(f"{mode} 0")
    acts: tuple[tuple[Callable[[], None], bool, int], ...] = (
        (lambda: control.write("log"), writes, errno.EIO),
        (lambda: control.open("log", os.O_RDONLY), opens, errno.EMFILE),
        (lambda: control.read("log"), reads, errno.EIO),
    )
    for act, is_allowed, code in acts:
        if is_allowed:
            act()
        else:
            with pytest.raises(OSError, match="log") as refused:
                act()
            assert refused.value.errno == code


def test_a_refusing_disk_writes_a_part_or_nothing_and_creates_no_file(path: Path):
    control = Control(str(path))
    path.write_text(f"{REFUSED} ENOSPC")
    parts = []
    for _ in range(200):
        with suppress(OSError):
            parts.append(control.part_to_write("log", 100))
    assert 50 < len(parts) < 150
    assert set(parts) == {50}
    with pytest.raises(OSError, match="log") as refused:
        control.part_to_write("log", 1)
    assert refused.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match="log"):
        control.open("log", os.O_WRONLY | os.O_CREAT)
    control.open("log", os.O_RDWR)
    control.fsync("log")


def test_a_slow_disk_delays_a_share_of_the_writes(path: Path, monkeypatch: pytest.MonkeyPatch):
    delays: list[float] = []
    monkeypatch.setattr(faulty_disk, "_sleep", delays.append)
    control = Control(str(path))
    path.write_text(f"{SLOW} 20")
    for _ in range(1000):
        control.write("log")
    assert 50 < len(delays) < 200
    assert 10 < max(delays) <= 20


def test_a_disk_may_refuse_fsyncs_alone(path: Path):
    control = Control(str(path))
    path.write_text(UNSYNCED)
    control.write("log")
    with pytest.raises(OSError, match="log"):
        control.fsync("log")


def test_a_stalled_disk_goes_on_when_that_is_over(path: Path, monkeypatch: pytest.MonkeyPatch):
    control = Control(str(path))
    for mode, call in ((STALLED, control.write), (STALLED, control.read), (UNWRITTEN, control.fsync)):
        path.write_text(mode)
        waits: list[float] = []

        def wait(seconds: float, waits: list[float] = waits) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                path.unlink()

        monkeypatch.setattr(faulty_disk, "_sleep", wait)
        call("log")
        assert len(waits) == 3


def test_without_the_file_all_is_well(path: Path):
    control = Control(str(path))
    path.write_text(BROKEN)
    with pytest.raises(OSError, match="log"):
        control.write("log")
    path.unlink()
    control.write("log")
    control.open("log", os.O_RDONLY)


@pytest.fixture
def wrapped(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where is noted what was lost, with the calls of this process wrapped."""
    for name in ("pwritev", "pwrite", "fsync", "ftruncate", "pread", "preadv", "sendfile", "open"):
        monkeypatch.setattr(os, name, getattr(os, name))
    lost = path.with_name("lost")
    faulty_disk.wrap(Control(str(path)), lost)
    return lost


def test_what_was_written_since_the_last_fsync_is_lost_with_one_that_fails(path: Path, wrapped: Path):
    file, other = path.with_name("file"), path.with_name("other")
    file.write_bytes(b"long ago")
    descriptors = [os.open(each, os.O_RDWR | os.O_CREAT, 0o644) for each in (file, other)]
    for descriptor in descriptors:
        os.pwrite(descriptor, b" synced", 8)
        os.fsync(descriptor)
        os.pwritev(descriptor, [b" and", b" not"], 15)
    os.ftruncate(descriptors[1], 3)
    path.write_text(UNSYNCED)
    with pytest.raises(OSError):  # noqa: PT011 - the descriptor's number is all that it names
        os.fsync(descriptors[1])
    path.unlink()
    for descriptor in descriptors:
        os.close(descriptor)
    assert drop_unsynced(wrapped) == 8
    assert file.read_bytes() == b"long ago synced"
    assert other.stat().st_size == 3
    assert drop_unsynced(wrapped) == 0


def test_what_took_a_lost_file_s_place_stays(path: Path, wrapped: Path):
    file, following = path.with_name("file"), path.with_name("following")
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(descriptor, b"not synced", 0)
    path.write_text(UNSYNCED)
    with pytest.raises(OSError):  # noqa: PT011 - the descriptor's number is all that it names
        os.fsync(descriptor)
    path.unlink()
    os.close(descriptor)
    following.write_bytes(b"another file")
    following.replace(file)
    assert drop_unsynced(wrapped) == 0
    assert file.read_bytes() == b"another file"


@pytest.mark.usefixtures("wrapped")
def test_wrapped_calls_look_first_and_then_do_their_work(path: Path):
    file = path.with_name("file")
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)
    assert os.pwritev(descriptor, [b"a", b"b"], 0) == 2
    path.write_text(f"{BROKEN} 0")
    with pytest.raises(OSError):  # noqa: PT011 - the descriptor's number is all that it names
        os.fsync(descriptor)
    os.close(descriptor)
    assert file.read_bytes() == b"ab"
