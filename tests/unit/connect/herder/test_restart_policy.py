"""When what has failed is started again by itself."""

from dataclasses import replace

from ottla_connect.config import WorkerConfig
from ottla_connect.herder.restart_policy import FailureRow, RestartPolicy
from ottla_connect.processes.messages import Outlook

POLICY = RestartPolicy(attempts_max=4, backoff_s=1.0, backoff_max_s=5.0, reset_s=60.0)


def fail_after(row: FailureRow, run_s: float, outlook: Outlook = Outlook.OPEN) -> float | None:
    row.started(0.0)
    return row.failed(POLICY, run_s, outlook)


def test_each_failure_in_a_row_doubles_the_pause_up_to_the_maximum():
    row = FailureRow()
    assert [fail_after(row, 1.0) for _ in range(4)] == [1.0, 2.0, 4.0, 5.0]


def test_after_the_last_attempt_it_stays_failed():
    row = FailureRow()
    assert [fail_after(row, 1.0) for _ in range(6)][4:] == [None, None]


def test_running_long_enough_begins_a_new_row():
    row = FailureRow()
    for _ in range(4):
        fail_after(row, 1.0)
    assert fail_after(row, 60.0) == 1.0


def test_a_fatal_error_is_not_tried_again():
    assert fail_after(FailureRow(), 1.0, Outlook.FATAL) is None


def test_what_passes_by_itself_is_tried_for_ever_and_counts_for_nothing_else():
    row = FailureRow()
    assert [fail_after(row, 1.0, Outlook.PASSING) for _ in range(20)][-1] == 5.0
    assert [fail_after(row, 1.0) for _ in range(5)] == [5.0] * 4 + [None]


def test_with_no_restarts_allowed_nothing_is_tried_again():
    never = replace(POLICY, attempts_max=0)
    assert [FailureRow().failed(never, 1.0, each) for each in Outlook] == [None] * 3


def test_a_change_of_settings_begins_a_new_row():
    row = FailureRow()
    fail_after(row, 1.0)
    fail_after(row, 1.0)
    row.clear()
    assert fail_after(row, 1.0) == 1.0


def test_a_process_that_never_started_counts_as_a_failure():
    row = FailureRow()
    assert row.failed(POLICY, 1000.0, Outlook.OPEN) == 1.0
    assert row.failed(POLICY, 2000.0, Outlook.OPEN) == 2.0


def test_a_connectors_own_settings_come_before_the_workers():
    worker = WorkerConfig.parse({"task.restart.attempts.max": "7", "task.restart.backoff.ms": "250"})
    policy = RestartPolicy.of(worker, {"task.restart.attempts.max": "0", "task.restart.backoff.ms": "nonsense"})
    assert policy.attempts_max == 0
    assert policy.backoff_s == 0.25
