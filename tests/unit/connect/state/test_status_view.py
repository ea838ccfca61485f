"""Which status is the last word."""

from ottla_connect.connector_states import State, Status
from ottla_connect.ids import TaskId
from ottla_connect.state.status_records import Subject, TopicUse, encode_status, encode_topic_use, key_of
from ottla_connect.state.status_view import StatusView

TASK = TaskId("a", 0)


def status(state: State, worker: str = "w:1", generation: int = 1) -> Status:
    return Status(state=state, worker_id=worker, generation=generation)


def view_of(*records: tuple[Subject, Status | None]) -> StatusView:
    view = StatusView()
    for subject, each in records:
        view.take(key_of(subject), None if each is None else encode_status(each))
    return view


def test_a_late_unassigned_does_not_hide_that_another_worker_runs_a_connector() -> None:
    running = status(State.RUNNING, "w:2", 5)
    assert view_of(("flights", running), ("flights", status(State.UNASSIGNED, "w:1", 4))).status("flights") == running


def test_a_workers_own_unassigned_counts_in_the_same_generation() -> None:
    over = status(State.UNASSIGNED, "w:1", 5)
    assert view_of((TASK, status(State.RUNNING, "w:1", 5)), (TASK, over)).status(TASK) == over


def test_a_late_unassigned_does_not_hide_that_another_worker_runs_the_task() -> None:
    running = status(State.RUNNING, "w:2", 5)
    assert view_of((TASK, running), (TASK, status(State.UNASSIGNED, "w:1", 5))).status(TASK) == running
    assert view_of((TASK, running), (TASK, status(State.UNASSIGNED, "w:1", 4))).status(TASK) == running
    newer = status(State.UNASSIGNED, "w:1", 6)
    assert view_of((TASK, running), (TASK, newer)).status(TASK) == newer
    failed = status(State.FAILED, "w:1", 4)
    assert view_of((TASK, running), (TASK, failed)).status(TASK) == failed


def test_a_safe_write_gives_way_to_another_workers_later_generation_only() -> None:
    view = view_of((TASK, status(State.RUNNING, "w:2", 5)))
    assert not view.may_replace(TASK, status(State.FAILED, "w:1", 4))
    assert view.may_replace(TASK, status(State.FAILED, "w:1", 5))
    assert view.may_replace(TASK, status(State.FAILED, "w:2", 4))
    assert view.may_replace("unknown", status(State.FAILED))


def test_a_tombstone_removes_and_what_is_known_of_a_connector_can_be_listed() -> None:
    view = view_of(
        ("a", status(State.RUNNING)), (TASK, status(State.RUNNING)), (TaskId("a", 1), status(State.FAILED))
    )
    use = TopicUse("a", "t")
    view.take(key_of(use), encode_topic_use(use, 0, 1))
    view.take(key_of(TaskId("a", 1)), None)
    assert list(view.subjects("a")) == ["a", TASK, use]
    assert view.topics("a") == {"t"}
    for subject in list(view.subjects("a")):
        view.take(key_of(subject), None)
    assert list(view.subjects("a")) == []
    assert view.topics("a") == frozenset()
