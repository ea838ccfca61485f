"""What the config topic's records amount to, whole and compacted."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_connect.connector_states import TargetState
from ottla_connect.ids import TaskId
from ottla_connect.state.config_records import (
    RestartRequest,
    SessionKey,
    Write,
    commit_write,
    connector_write,
    decode,
    logger_write,
    restart_write,
    session_key_write,
    target_state_write,
    task_count_write,
    task_write,
)
from ottla_connect.state.config_state import (
    ConfigChange,
    ConfigReplay,
    ConfigState,
    ConnectorChanged,
    ConnectorRemoved,
    LoggerLevelChanged,
    RestartRequested,
    SessionKeyChanged,
    TargetStateChanged,
    TaskConfigsChanged,
)

A0, A1, A2 = (TaskId("a", number) for number in range(3))


def replay(writes: Sequence[Write]) -> ConfigState:
    return replay_with_changes(writes)[0]


def replay_with_changes(writes: Sequence[Write]) -> tuple[ConfigState, list[ConfigChange]]:
    following = ConfigReplay()
    changes = []
    for offset, write in enumerate(writes):
        record = decode(write.key, write.value)
        if record is not None and (change := following.apply(record, offset)) is not None:
            changes.append(change)
    return following.snapshot(), changes


def compacted(writes: Sequence[Write], *, keep_tombstones: bool) -> list[Write]:
    last = {write.key: index for index, write in enumerate(writes)}
    return [
        write
        for index, write in enumerate(writes)
        if last[write.key] == index and (keep_tombstones or write.value is not None)
    ]


def tasks(*numbers: int, version: str = "1") -> list[Write]:
    return [task_write(TaskId("a", number), {"v": version, "n": str(number)}) for number in numbers]


def test_nothing_read_is_offset_minus_one_and_the_offset_is_the_next_records() -> None:
    assert ConfigReplay().snapshot().offset == -1
    assert replay([connector_write("a", {})]).offset == 1


def test_a_connector_begins_started_unless_a_state_came_first() -> None:
    assert replay([connector_write("a", {})]).target_states["a"] is TargetState.STARTED
    state, changes = replay_with_changes(
        [target_state_write("a", TargetState.STOPPED), connector_write("a", {"x": "1"})]
    )
    assert state.target_states["a"] is TargetState.STOPPED
    assert changes == [ConnectorChanged("a")]


def test_tasks_count_from_their_commit_on() -> None:
    writes = [connector_write("a", {"c": "1"}), *tasks(0, 1)]
    assert replay(writes).task_configs("a") == {}
    state, changes = replay_with_changes([*writes, commit_write("a", 2)])
    assert state.task_configs("a") == {A0: {"v": "1", "n": "0"}, A1: {"v": "1", "n": "1"}}
    assert state.task_counts == {"a": 2}
    assert state.applied_connector_config("a") == {"c": "1"}
    assert changes[-1] == TaskConfigsChanged("a")


def test_the_connectors_settings_at_the_commit_are_kept_when_they_change() -> None:
    writes = [connector_write("a", {"c": "1"}), *tasks(0), commit_write("a", 1), connector_write("a", {"c": "2"})]
    state = replay(writes)
    assert state.connectors["a"] == {"c": "2"}
    assert state.applied_connector_config("a") == {"c": "1"}


def test_tasks_that_are_half_written_leave_the_committed_ones_in_force() -> None:
    writes = [connector_write("a", {}), *tasks(0, 1), commit_write("a", 2), *tasks(0, version="2")]
    assert replay(writes).task_configs("a")[A0]["v"] == "1"


def test_a_commit_without_all_its_tasks_makes_the_connector_inconsistent_until_they_are_written_anew() -> None:
    # Kafka's own example: the first writing of task 0 was compacted away, the second was never finished.
    writes = [connector_write("a", {}), *tasks(1), commit_write("a", 2), *tasks(0, version="2")]
    broken = replay(writes)
    assert broken.inconsistent == {"a"}
    assert broken.task_counts == {"a": 0}
    assert broken.task_configs("a") == {}
    mended = replay([*writes, *tasks(0, 1, version="3"), commit_write("a", 2)])
    assert mended.inconsistent == frozenset()
    assert [config["v"] for config in mended.task_configs("a").values()] == ["3", "3"]


def test_fewer_tasks_than_before_leave_no_settings_of_the_others() -> None:
    writes = [connector_write("a", {}), *tasks(0, 1, 2), commit_write("a", 3), *tasks(0), commit_write("a", 1)]
    assert list(replay(writes).task_configs("a")) == [A0]
    assert list(replay(compacted(writes, keep_tombstones=False)).task_configs("a")) == [A0]
    none = replay([*writes, commit_write("a", 0)])
    assert none.task_counts == {"a": 0}
    assert none.inconsistent == frozenset()


def test_a_removed_connector_leaves_nothing() -> None:
    writes = [
        connector_write("a", {}),
        *tasks(0),
        commit_write("a", 1),
        connector_write("a", None),
        target_state_write("a", None),
    ]
    state, changes = replay_with_changes(writes)
    assert state == ConfigState(offset=len(writes))
    assert changes[-1] == ConnectorRemoved("a")


def test_tasks_of_a_connector_whose_tombstone_was_compacted_away_do_not_come_back() -> None:
    writes = [*tasks(0), commit_write("a", 1), connector_write("a", {"new": "1"})]
    state = replay(writes)
    assert state.task_counts == {}
    assert state.task_configs("a") == {}


def test_new_tasks_are_to_be_fenced_off_from_former_ones_until_it_is_taken_down() -> None:
    made = [connector_write("a", {}), *tasks(0, 1), commit_write("a", 2)]
    assert replay(made).unfenced == {"a"}
    fenced = [*made, task_count_write("a", 2)]
    assert replay(fenced).unfenced == frozenset()
    assert replay(fenced).fenced_counts == {"a": 2}
    again = replay([*fenced, *tasks(0), commit_write("a", 1)])
    assert again.unfenced == {"a"}
    assert again.fenced_counts == {"a": 2}, "so many of the former generation may still write"
    assert again.generations["a"] > replay(fenced).generations["a"]


def test_how_many_tasks_a_deleted_connector_had_is_known_if_its_name_comes_again() -> None:
    made = [connector_write("a", {}), *tasks(0, 1), commit_write("a", 2), task_count_write("a", 2)]
    deleted = [*made, connector_write("a", None), target_state_write("a", None)]
    assert replay(deleted).fenced_counts == {"a": 2}
    again = replay([*deleted, connector_write("a", {}), *tasks(0), commit_write("a", 1)])
    assert (again.fenced_counts, again.unfenced) == ({"a": 2}, {"a"})


def test_a_target_state_without_its_record_is_started_while_the_connector_is_there() -> None:
    writes = [connector_write("a", {}), target_state_write("a", TargetState.PAUSED), target_state_write("a", None)]
    assert replay(writes).target_states == {"a": TargetState.STARTED}


def test_a_target_state_is_told_when_it_changes() -> None:
    writes = [connector_write("a", {}), target_state_write("a", TargetState.STARTED)]
    assert replay_with_changes(writes)[1] == [ConnectorChanged("a")]
    paused = [*writes, target_state_write("a", TargetState.PAUSED)]
    assert replay_with_changes(paused)[1] == [ConnectorChanged("a"), TargetStateChanged("a")]


def test_restarts_keys_and_levels_are_told() -> None:
    request = RestartRequest(connector="a", include_tasks=True, only_failed=True)
    key = SessionKey(key=b"k", algorithm="HmacSHA256", created_ms=1)
    state, changes = replay_with_changes([restart_write(request), session_key_write(key), logger_write("l", "INFO")])
    assert changes == [RestartRequested(request), SessionKeyChanged(), LoggerLevelChanged("l", "INFO")]
    assert state.session_key == key
    assert state.logger_levels == {"l": "INFO"}


def test_a_snapshot_does_not_change_with_what_is_read_later() -> None:
    following = ConfigReplay()
    record = decode(*connector_write("a", {}))
    assert record is not None
    before = following.snapshot()
    following.apply(record, 0)
    assert before.connectors == {}
    assert following.snapshot().connectors == {"a": {}}


# What workers write, an operation at a time; a leader may die within one, which leaves its first records only.

NAMES = st.sampled_from(["a", "b"])


@st.composite
def operations(draw: st.DrawFn) -> list[Write]:
    name, version = draw(NAMES), str(draw(st.integers(0, 9)))
    kind = draw(st.sampled_from(["configure", "tasks", "remove", "state"]))
    if kind == "configure":
        writes = [connector_write(name, {"v": version})]
    elif kind == "tasks":
        count = draw(st.integers(0, 3))
        writes = [task_write(TaskId(name, number), {"v": version}) for number in range(count)]
        writes.append(commit_write(name, count))
    elif kind == "remove":
        writes = [connector_write(name, None), target_state_write(name, None)]
    else:
        writes = [target_state_write(name, draw(st.sampled_from(TargetState)))]
    return writes[: draw(st.integers(1, len(writes)))] if draw(st.integers(0, 4)) == 0 else writes


LOGS = st.lists(operations(), max_size=25).map(lambda each: [write for operation in each for write in operation])


@settings(max_examples=60)
@given(LOGS)
def test_any_log_gives_a_consistent_state(writes: list[Write]) -> None:
    state = replay(writes)
    for name in state.connectors:
        configs = state.task_configs(name)
        assert list(configs) == [TaskId(name, number) for number in range(state.task_counts.get(name, 0))]
        assert len({config["v"] for config in configs.values()}) <= 1, "tasks of two writings are mixed"
        assert name in state.target_states
    assert state.task_sets.keys() | state.inconsistent <= state.connectors.keys()


@settings(max_examples=60)
@given(LOGS, st.booleans())
def test_a_compacted_log_gives_the_same_but_for_tasks_that_have_to_be_written_anew(
    writes: list[Write], keep_tombstones: bool
) -> None:
    whole, rest = replay(writes), replay(compacted(writes, keep_tombstones=keep_tombstones))
    assert rest.connectors == whole.connectors
    assert {name: rest.target_states[name] for name in rest.connectors} == {
        name: whole.target_states[name] for name in whole.connectors
    }
    for name in whole.connectors:
        assert rest.task_configs(name) in (whole.task_configs(name), {}), "old tasks have come back"
        if rest.task_configs(name) != whole.task_configs(name):
            assert rest.task_counts.get(name, 0) == 0


@settings(max_examples=60)
@given(LOGS, st.integers(0, 100))
def test_a_log_compacted_in_its_beginning_only_goes_on_as_the_whole_one_would(writes: list[Write], cut: int) -> None:
    head, tail = writes[:cut], writes[cut:]
    whole, rest = replay(writes), replay([*compacted(head, keep_tombstones=True), *tail])
    assert rest.connectors == whole.connectors
    for name in whole.connectors:
        assert rest.task_configs(name) in (whole.task_configs(name), {})


@settings(max_examples=60)
@given(LOGS, NAMES, st.integers(0, 3))
def test_after_a_whole_writing_of_tasks_compaction_changes_nothing(
    writes: list[Write], name: str, count: int
) -> None:
    fresh = [task_write(TaskId(name, number), {"v": "fresh"}) for number in range(count)]
    log = [*writes, connector_write(name, {"v": "fresh"}), *fresh, commit_write(name, count)]
    whole, rest = replay(log), replay(compacted(log, keep_tombstones=False))
    assert len(whole.task_configs(name)) == count
    assert rest.task_configs(name) == whole.task_configs(name)
    assert rest.applied_connector_config(name) == whole.applied_connector_config(name) == {"v": "fresh"}
