"""Source offsets are committed behind their records, never before."""

import pytest

from ottla_connect.task.control import PendingCommit
from ottla_connect.task.measures import TaskMeasures
from ottla_connect.task.source.commits import SourceCommits
from ottla_connect.task.source.in_flight import CommittableOffset


class FakeControl:
    def __init__(self):
        self.leased = True
        self.commits = []
        self.answer_at_once = False

    def commit_offsets(self, offsets):
        pending = PendingCommit(len(self.commits))
        self.commits.append((pending, {each.partition["p"]: each.offset["o"] for each in offsets}))
        pending.done = self.answer_at_once
        return pending

    def answer(self, error=None):
        pending = self.commits[-1][0]
        pending.error, pending.done = error, True

    def await_commit(self, pending, timeout_s):
        return pending.done

    def forget_commit(self, pending):
        self.forgotten = pending


class Parts:
    def __init__(self, monkeypatch):
        self.now_s = 1000.0
        monkeypatch.setattr("ottla_connect.task.source.commits.time.monotonic", lambda: self.now_s)
        self.control = FakeControl()
        self.told = []
        self.safe = {}
        self.measures = TaskMeasures("source")
        self.commits = SourceCommits(
            task=self,
            control=self.control,
            measures=self.measures,
            take=self.take,
            interval_s=60.0,
            timeout_s=5.0,
        )

    def take(self):
        taken, self.safe = self.safe, {}
        return taken

    def committed(self, offsets):
        self.told.append({each.partition["p"]: each.offset["o"] for each in offsets})

    def is_safe(self, partition, offset):
        self.safe[str(partition)] = CommittableOffset({"p": partition}, {"o": offset})

    def after(self, seconds):
        self.now_s += seconds
        self.commits.advance()

    @property
    def asked(self):
        return [offsets for _, offsets in self.control.commits]


@pytest.fixture
def parts(monkeypatch):
    return Parts(monkeypatch)


def test_the_first_offsets_are_committed_soon_and_the_others_every_interval(parts):
    parts.after(30)
    parts.is_safe(0, 1)
    parts.after(1)
    assert parts.asked == [{0: 1}]
    parts.control.answer()
    parts.is_safe(0, 2)
    parts.after(59)
    assert len(parts.asked) == 1
    parts.is_safe(1, 5)
    parts.after(1)
    assert parts.asked[1:] == [{0: 2, 1: 5}]


def test_the_task_is_told_once_they_are_stored(parts):
    parts.is_safe(0, 1)
    parts.after(60)
    assert parts.told == []
    parts.control.answer()
    parts.after(0.1)
    assert parts.told == [{0: 1}]
    parts.after(60)
    assert len(parts.asked) == 1


def test_one_commit_waits_for_the_one_before(parts):
    parts.is_safe(0, 1)
    parts.after(60)
    parts.is_safe(0, 2)
    parts.now_s += 4
    parts.commits._due_s = parts.now_s
    parts.after(0)
    assert parts.asked == [{0: 1}]
    parts.control.answer()
    parts.after(0)
    assert parts.asked == [{0: 1}, {0: 2}]


@pytest.mark.parametrize("error", ["not stored", None])
def test_what_was_not_stored_comes_with_the_next_commit(parts, error):
    parts.is_safe(0, 1)
    parts.is_safe(1, 1)
    parts.after(60)
    parts.is_safe(0, 2)
    if error:
        parts.control.answer(error)
    parts.after(60)
    assert parts.asked == [{0: 1, 1: 1}, {0: 2, 1: 1}]
    assert parts.told == []
    assert parts.measures.commit_failures == 1


def test_nothing_is_committed_without_a_lease(parts):
    parts.is_safe(0, 1)
    parts.control.leased = False
    parts.after(60)
    assert not parts.commits.finish(1.0)
    assert parts.asked == []


def test_the_end_commits_what_is_left(parts):
    parts.control.answer_at_once = True
    parts.is_safe(0, 9)
    assert parts.commits.finish(1.0)
    assert (parts.asked, parts.told) == ([{0: 9}], [{0: 9}])


def test_the_end_says_if_offsets_are_not_stored(parts):
    parts.is_safe(0, 9)
    assert not parts.commits.finish(1.0)


def test_a_task_that_fails_to_take_note_goes_on(parts, caplog):
    def fail(offsets):
        raise ValueError("cannot acknowledge")

    parts.committed = fail
    parts.control.answer_at_once = True
    parts.is_safe(0, 9)
    assert parts.commits.finish(1.0)
    assert "cannot acknowledge" in caplog.text
