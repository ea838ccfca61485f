"""Random histories of a log that is written, rotated and read, with tasks that stop and start: no line is lost."""

import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla_file import FileSource
from ottla_sdk.conformance import MemoryOffsets, SourceRun

STEPS = 60


class History:
    """A log, and a source that reads it as `pattern`; `read` has what was read, with repetitions."""

    def __init__(self, directory: Path, pattern: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.log = directory / "app.log"
        self.log.touch()
        self.written: list[str] = []
        self.read: list[str] = []
        self.offsets = MemoryOffsets()
        self.settings = {"topic": "t", "file.path": str(directory / pattern), "file.settle.ms": "0"}
        self.run = self.start()

    def start(self) -> SourceRun:
        run = SourceRun(FileSource, {**self.settings, "file.batch.rows.max": "3"}, offsets=self.offsets)
        run.__enter__()
        run.tasks[0].context.request_stop()  # so that nothing waits
        return run

    def write(self) -> None:
        lines = [f"line {len(self.written) + number}" for number in range(self.random.randint(1, 5))]
        self.written += lines
        with self.log.open("a") as opened:
            opened.writelines(f"{line}\n" for line in lines)

    def rename(self) -> None:
        self.shift()
        self.log.rename(self.log.with_name("app.log.1"))
        self.log.touch()

    def copy_and_empty(self) -> None:
        self.shift()
        self.log.with_name("app.log.1").write_bytes(self.log.read_bytes())
        os.truncate(self.log, 0)

    def shift(self) -> None:
        rotated = sorted(self.log.parent.glob("app.log.*"), key=lambda path: -int(path.suffix[1:]))
        for path in rotated:
            path.rename(path.with_name(f"app.log.{int(path.suffix[1:]) + 1}"))

    def poll(self) -> None:
        self.read += [record.value for record in self.run.poll()]

    def catch_up(self) -> None:
        quiet = 0
        while quiet < 5:
            before = len(self.read)
            self.poll()
            quiet = quiet + 1 if len(self.read) == before else 0

    def restart(self) -> None:
        """Start anew behind some of the records that the task has returned."""
        records = self.run.all_records
        self.run.commit(records[: self.random.randint(0, len(records))])
        self.run.stop()
        self.run = self.start()


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds: Iterator[float] = itertools.count(0.0, 10.0)
    monkeypatch.setattr("ottla_file.source.time.monotonic", lambda: next(seconds))


@pytest.mark.parametrize("seed", range(6))
def test_no_line_is_lost_however_often_the_log_is_renamed(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, "app.log*", seed)
    for _ in range(STEPS):
        step = history.random.choices(
            [history.write, history.rename, history.poll, history.restart], weights=[4, 2, 4, 1]
        )[0]
        step()
    history.catch_up()
    history.run.stop()

    assert sorted(set(history.read)) == sorted(history.written)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rotate", [History.rename, History.copy_and_empty])
def test_each_line_is_read_once_and_in_order_if_rotations_are_seen_one_by_one(
    tmp_path: Path, seed: int, rotate: Callable[[History], None]
) -> None:
    history = History(tmp_path, "app.log", seed)
    history.write()
    history.catch_up()  # a file that rotates before anybody has seen it is none that the pattern matches
    for _ in range(STEPS // 3):
        history.write()
        is_away = history.random.random() < 0.3
        if is_away:
            history.run.commit()
            history.run.stop()
        if history.random.random() < 0.6:
            rotate(history)
        history.write()
        if is_away:
            history.run = history.start()
        history.catch_up()
    history.run.stop()

    assert history.read == history.written
