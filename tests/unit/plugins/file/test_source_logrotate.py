"""A log that logrotate rotates, by each of its schemes, on a file system that uses inodes again at once."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla_file import FileSource
from ottla_file.births import UNKNOWN_US
from ottla_sdk.conformance import MemoryOffsets, SourceRun
from tests.support.machine.log_rotation import Logrotate, require_reused_inodes

pytestmark = [pytest.mark.requires("logrotate"), pytest.mark.slow]

ROTATIONS = 8
KEPT = 2
_POLLS_MAX = 40
SCHEMES = {
    "rename": "create",
    "copytruncate": "copytruncate",
    "compress": "create\ncompress",
    "delaycompress": "create\ncompress\ndelaycompress",
    "dateext": "create\ndateext\ndateformat -%Y%m%d-%s",
    "dateext of seconds alone": "create\ndateext\ndateformat .%s",
    "copytruncate and compress": "copytruncate\ncompress\ndelaycompress",
}


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every poll look for files: the interval between two looks is over."""
    seconds: Iterator[float] = iter(range(0, 10_000_000, 10))
    monkeypatch.setattr("ottla_file.source.time.monotonic", lambda: float(next(seconds)))


class Story:
    """A log, its rotation, and a source that reads it."""

    def __init__(self, directory: Path, scheme: str, pattern: str) -> None:
        self.directory = directory / "logs"
        self.directory.mkdir()
        require_reused_inodes(self.directory)
        self.log = self.directory / "app.log"
        self.log.touch()
        self.rotation = Logrotate(self.log, f"rotate {KEPT}\nmissingok\n{SCHEMES[scheme]}")
        self.has_seconds = "%s" in SCHEMES[scheme]
        self.written: list[str] = []
        self.read: list[str] = []
        self.offsets = MemoryOffsets()
        self.settings = {"topic": "t", "file.path": str(self.directory / pattern), "file.settle.ms": "0"}
        self.run = self.start()

    def start(self) -> SourceRun:
        run = SourceRun(FileSource, self.settings, offsets=self.offsets)
        run.__enter__()
        run.tasks[0].context.request_stop()  # so that nothing waits
        return run

    def write(self, count: int = 3) -> None:
        with self.log.open("a") as opened:
            for _ in range(count):
                self.written.append(f"line {len(self.written)}")
                opened.write(f"{self.written[-1]}\n")

    def write_torn(self) -> None:
        """Writes a line in two pieces, with a look at the file between."""
        self.written.append(f"line {len(self.written)}")
        first, second = self.written[-1][:4], f"{self.written[-1][4:]}\n"
        with self.log.open("a") as opened:
            opened.write(first)
            opened.flush()
            self.catch_up()
            opened.write(second)

    def rotate(self) -> None:
        if (
            self.has_seconds
        ):  # the names hold the second, and logrotate leaves a file alone that would get a taken one
            rotated = self.directory.glob("app.log?*")
            taken_s = max((int(re.split(r"[-.]", path.name)[-1]) for path in rotated), default=0)
            while _now_s() <= taken_s:
                os.sched_yield()
        self.rotation.rotate()

    def catch_up(self) -> None:
        quiet = 0
        for _ in range(_POLLS_MAX):
            before = len(self.read)
            self.read += [record.value for record in self.run.poll()]
            quiet = quiet + 1 if len(self.read) == before else 0
            if quiet == 4:
                return
        raise AssertionError(f"more and more is read: {self.read[-5:]}")

    def restart(self) -> None:
        self.run.commit()
        self.run.stop()
        self.run = self.start()


def _now_s() -> int:
    """The second that logrotate is certainly in: time(2) may be some milliseconds behind."""
    return int(time.time() - 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_line_is_read_once_and_in_order_whatever_the_scheme(tmp_path: Path, scheme: str) -> None:
    story = Story(tmp_path, scheme, "app.log")
    for _ in range(ROTATIONS):
        story.write()
        story.catch_up()
        story.write()  # the rest is read after the rotation
        story.rotate()
        story.catch_up()
        story.write_torn()
        story.catch_up()
    story.run.stop()
    assert story.read == story.written


@pytest.mark.parametrize(
    "scheme", [name for name, directives in SCHEMES.items() if "create\ncompress" not in directives]
)
def test_every_line_is_read_once_if_tasks_are_away_while_the_log_is_rotated(tmp_path: Path, scheme: str) -> None:
    story = Story(tmp_path, scheme, "app.log")
    for _ in range(ROTATIONS):
        story.write()
        story.catch_up()
        story.write()
        story.run.commit()
        story.run.stop()
        story.rotate()
        story.write()
        story.run = story.start()
        story.catch_up()
        story.write_torn()
        story.catch_up()
    story.run.stop()
    assert story.read == story.written


def rotated_with_restarts(story: Story) -> None:
    for number in range(ROTATIONS):
        story.write()
        story.catch_up()
        story.write()
        story.rotate()
        if number % 2:
            story.restart()
        story.catch_up()
        story.write_torn()
        story.catch_up()
    story.run.stop()
    assert set(story.read) == set(story.written)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_line_is_lost_or_torn_where_the_pattern_matches_rotated_files_too(tmp_path: Path, scheme: str) -> None:
    rotated_with_restarts(Story(tmp_path, scheme, "app.log*"))


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
@pytest.mark.parametrize("scheme", ["rename", "copytruncate", "delaycompress", "copytruncate and compress"])
def test_no_line_is_lost_or_torn_where_nobody_knows_when_files_were_born(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, pattern: str
) -> None:
    for module in ("discovery", "byte_streams"):
        monkeypatch.setattr(f"ottla_file.{module}.birth_us", lambda _file, _inode: UNKNOWN_US)
    rotated_with_restarts(Story(tmp_path, scheme, pattern))


def test_lines_that_are_all_alike_are_read_although_the_inode_was_used_before(tmp_path: Path) -> None:
    """Neither size nor content tells the new file from the one that had the inode: its birth does."""
    story = Story(tmp_path, "rename", "app.log")
    count = 0
    for _ in range(ROTATIONS):
        story.restart()
        with story.log.open("a") as opened:
            opened.writelines(["tick\n"] * 10)
        count += 10
        story.catch_up()
        story.rotate()
        with story.log.open("a") as opened:
            opened.writelines(["tick\n"] * 20)
        count += 20
        story.catch_up()
    story.run.stop()
    assert len(story.read) == count


def test_a_removed_file_whose_offset_is_committed_again_does_not_cost_its_successor_anything(tmp_path: Path) -> None:
    require_reused_inodes(tmp_path)
    incoming = tmp_path / "in.txt"
    incoming.write_text("old line\n" * 5)
    settings = {"topic": "t", "file.path": str(incoming), "file.settle.ms": "0", "file.follow": "false"}
    with SourceRun(FileSource, {**settings, "file.done": "delete"}) as run:
        run.tasks[0].context.request_stop()
        run.read(5)
        old = list(run.all_records)
        run.commit(old)
        run.poll()
        assert not incoming.exists()
        incoming.write_text("new line\n")
        run.read(6)
        run.commit(old)  # the former file's, once more
        run.poll()
        run.poll()
        assert incoming.read_text() == "new line\n"
        run.commit()
        run.poll()
        assert not incoming.exists()
