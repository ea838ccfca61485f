"""A process that changes the offsets in a target does so while it has a lease."""

import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from ottla_connect.processes.messages import ChangeOffsets, Lease, OffsetsChanged, Stop, encode
from ottla_connect.task.channel import Channel
from ottla_connect.task.lease_watch import EXIT_UNLEASED
from ottla_connect.task.offset_change import change_offsets
from ottla_core.clock import boot_time_s
from ottla_sdk.runtime.redaction import Redaction
from ottla_sql import SqlSink
from tests.support.eventually import eventually

LONG_S, SHORT_S = 60.0, 0.2


class Target:
    """A database with an offset of 1."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "target.db"
        with closing(self.connected()) as connection:
            connection.execute(
                "CREATE TABLE progress (connector, topic, 'partition' INTEGER, next_offset INTEGER, topic_id)"
            )
            connection.execute("INSERT INTO progress VALUES ('c', 't', 0, 1, NULL)")

    def connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)

    def offset(self) -> int:
        with closing(self.connected()) as connection:
            ((offset,),) = connection.execute("SELECT next_offset FROM progress").fetchall()
            return int(offset)

    def change(self, offset: int, path: Path | None = None) -> ChangeOffsets:
        settings = {
            "name": "c",
            "connector.class": "ottla_sql.SqlSink",
            "topics": "t",
            "connection.url": f"sqlite:///{path or self.path}",
            "offsets.table": "progress",
        }
        pair = ({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": offset})
        return ChangeOffsets(connector="c", settings=settings, worker={}, offsets=[pair])


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path)


class Asked:
    """A change under way, and its worker's end of the channel."""

    def __init__(self, purpose: ChangeOffsets, pool: ThreadPoolExecutor, end: Callable[[int], object]) -> None:
        self.worker, theirs = socket.socketpair()
        self.process = theirs
        self._answer = pool.submit(change_offsets, Channel(theirs), Redaction(), purpose, end=end)

    def grant(self, seconds: float) -> None:
        self.worker.sendall(encode(Lease(until_s=boot_time_s() + seconds)))

    def answer(self) -> OffsetsChanged:
        return self._answer.result(LONG_S)


@pytest.fixture
def asked() -> Iterator[Callable[..., Asked]]:
    changes: list[Asked] = []
    with ThreadPoolExecutor() as pool:

        def ask(purpose: ChangeOffsets, end: Callable[[int], object] = lambda _: None) -> Asked:
            changes.append(Asked(purpose, pool, end))
            return changes[-1]

        yield ask
        for each in changes:
            each.worker.close()
            each.process.close()


def test_offsets_are_changed_with_a_lease(target, asked):
    change = asked(target.change(5))
    change.grant(LONG_S)
    assert change.answer().error is None
    assert target.offset() == 5


def test_a_target_that_is_away_is_told(target, tmp_path, asked):
    change = asked(target.change(5, tmp_path / "no" / "such.db"))
    change.grant(LONG_S)
    assert "cannot be changed" in (change.answer().error or "")


def test_nothing_is_begun_without_a_lease(target, asked, monkeypatch):
    monkeypatch.setattr(SqlSink, "change_offsets", lambda *_: pytest.fail("was asked to change offsets"))
    change = asked(target.change(5))
    change.grant(-SHORT_S)
    change.worker.sendall(encode(Stop()))
    assert "NotPermitted" in (change.answer().error or "")
    assert target.offset() == 1


def test_a_process_ends_with_its_lease_and_commits_nothing_after_it(target, asked, monkeypatch):
    ended, begun, set_offsets = [], threading.Event(), SqlSink.change_offsets

    def begin(sink, offsets):
        begun.set()
        set_offsets(sink, offsets)

    monkeypatch.setattr(SqlSink, "change_offsets", begin)
    with closing(target.connected()) as other:
        other.execute("BEGIN IMMEDIATE")

        def end(code):
            ended.append(code)
            if other.in_transaction:
                other.execute("ROLLBACK")  # what the change has waited for; a real process would have ended

        change = asked(target.change(5), end)
        eventually(lambda: change.grant(SHORT_S) or begun.is_set(), "the change has begun")
        error = change.answer().error or ""
    assert ended[0] == EXIT_UNLEASED
    assert "NotPermitted" in error
    assert target.offset() == 1


def test_a_lease_that_is_extended_goes_on(target, asked):
    with closing(target.connected()) as other:
        other.execute("BEGIN IMMEDIATE")
        ended = []
        change = asked(target.change(5), ended.append)
        change.grant(SHORT_S)
        first_until_s = boot_time_s() + SHORT_S
        change.grant(LONG_S)
        eventually(lambda: boot_time_s() > first_until_s, "the first lease is over")
        other.execute("ROLLBACK")
        assert change.answer().error is None
    assert (ended, target.offset()) == ([], 5)
