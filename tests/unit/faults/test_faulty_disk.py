"""A disk in trouble refuses or delays what a log does with it, as the control file says, and else does nothing."""

import errno
import os
from pathlib import Path

import pytest

from tests.faults import faulty_disk
from tests.faults.faulty_disk import BROKEN, NO_DESCRIPTORS, SLOW, STALLED, UNSYNCED, UNWRITTEN, Control


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The control file, looked at for every call."""
    monkeypatch.setattr(faulty_disk, "LOOK_INTERVAL_S", -1.0)
    return tmp_path / "control"


@pytest.mark.parametrize(("mode", "writes", "opens"), [(BROKEN, False, True), (NO_DESCRIPTORS, True, False)])
def test_a_mode_refuses_its_calls_only(path: Path, mode: str, writes: bool, opens: bool):
    control = Control(str(path))
    path.write_text(f"{mode} 0")
    for act, is_allowed, code in ((control.write, writes, errno.EIO), (control.open, opens, errno.EMFILE)):
        if is_allowed:
            act("log")
        else:
            with pytest.raises(OSError, match="log") as refused:
                act("log")
            assert refused.value.errno == code


def test_a_slow_disk_delays_a_share_of_the_writes(path: Path, monkeypatch: pytest.MonkeyPatch):
    delays: list[float] = []
    monkeypatch.setattr(faulty_disk.time, "sleep", delays.append)
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

        monkeypatch.setattr(faulty_disk.time, "sleep", wait)
        call("log")
        assert len(waits) == 3


def test_without_the_file_all_is_well(path: Path):
    control = Control(str(path))
    path.write_text(BROKEN)
    with pytest.raises(OSError, match="log"):
        control.write("log")
    path.unlink()
    control.write("log")
    control.open("log")


def test_wrapped_calls_look_first_and_then_do_their_work(path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("pwritev", "pwrite", "fsync", "pread", "preadv", "open"):
        monkeypatch.setattr(os, name, getattr(os, name))
    faulty_disk.wrap(Control(str(path)))
    file = path.with_name("file")
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)
    assert os.pwritev(descriptor, [b"a", b"b"], 0) == 2
    path.write_text(f"{BROKEN} 0")
    with pytest.raises(OSError):  # noqa: PT011 - the descriptor's number is all that it names
        os.fsync(descriptor)
    os.close(descriptor)
    assert file.read_bytes() == b"ab"
