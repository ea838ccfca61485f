"""What a worker has to run, given its assignment and the cluster's configuration."""

from dataclasses import replace

from ottla_connect.connector_states import TargetState
from ottla_connect.herder.reconciliation import work_for
from ottla_connect.ids import TaskId
from ottla_connect.state.config_state import ConfigState, TaskSet

TASK = TaskId("a", 0)
CONFIG = {"connector.class": "Source"}
STATE = ConfigState(
    connectors={"a": CONFIG},
    target_states={"a": TargetState.STARTED},
    task_counts={"a": 1},
    task_sets={"a": TaskSet(configs={TASK: {"n": "0"}}, connector_config=CONFIG)},
    generations={"a": 7},
)


def test_a_task_that_writes_in_transactions_is_started_again_with_each_generation_of_tasks() -> None:
    later = replace(STATE, generations={"a": 9})

    def works(*, transactional: bool) -> list[object]:
        return [
            dict(work_for(frozenset(), frozenset({TASK}), state, is_transactional=lambda _: transactional))[TASK]
            for state in (STATE, later)
        ]

    one, other = works(transactional=True)
    assert one != other
    one, other = works(transactional=False)
    assert one == other, "its settings are the same"
