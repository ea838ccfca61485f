"""When a sink task's offsets are committed."""

import pytest

from ottla_connect.task.sink.commit_schedule import CommitSchedule


@pytest.fixture
def schedule() -> CommitSchedule:
    return CommitSchedule(interval_s=60.0, timeout_s=5.0, now_s=100.0)


def test_the_first_commit_comes_soon_after_the_first_records_and_later_ones_at_intervals(schedule):
    assert not schedule.is_due(100.9)
    assert schedule.is_due(101.0)
    schedule.begin(101.0, has_offsets=False)
    assert schedule.is_due(102.0)
    schedule.begin(102.0, has_offsets=True)
    assert not schedule.is_due(161.9)
    assert schedule.is_due(162.0)


def test_an_interval_that_is_shorter_than_the_first_one_holds_from_the_start():
    assert CommitSchedule(interval_s=0.2, timeout_s=5.0, now_s=100.0).is_due(100.2)


def test_a_commit_that_is_asked_for_is_due_at_once_and_only_once(schedule):
    schedule.ask()
    assert schedule.is_due(100.0)
    schedule.begin(100.0, has_offsets=True)
    assert not schedule.is_due(100.0)


def test_no_commit_is_due_while_one_is_under_way(schedule):
    schedule.sent(100.0)
    schedule.ask()
    assert not schedule.is_due(104.0)
    assert schedule.answered() == 100.0
    assert schedule.is_due(104.0)


def test_a_commit_without_an_answer_is_given_up(schedule):
    schedule.sent(100.0)
    schedule.ask()
    assert not schedule.give_up_late(104.9)
    assert schedule.give_up_late(105.0)
    assert schedule.is_due(105.0)
    assert schedule.answered() is None, "an answer that comes later is nobody's"
