"""What a worker has to run, given its assignment and the cluster's configuration. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ottla_connect.connector_states import TargetState
from ottla_connect.ids import TaskId
from ottla_connect.state.config_state import ConfigState

UnitId = str | TaskId
"""A connector, by its name, or a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a connector or task is to be run with; two that are equal but for `paused` need no restart.

    Attributes:
        settings: the connector's or the task's settings.
        connector_settings: for a task, those of its connector when its own were made.
        generation: for a task that writes in transactions, which generation of its connector's tasks it belongs to:
            when there is another, all tasks of the former one are fenced.
        paused: whether it is to rest.
    """

    settings: Mapping[str, str]
    connector_settings: Mapping[str, str]
    generation: int = -1
    paused: bool = field(default=False, compare=False)


def work_for(
    connectors: frozenset[str],
    tasks: frozenset[TaskId],
    config: ConfigState,
    *,
    is_transactional: Callable[[Mapping[str, str]], bool] = lambda _: False,
) -> Iterator[tuple[UnitId, Work]]:
    """Yield what is to run here, of what is assigned; `is_transactional` judges by a connector's settings.

    A stopped connector runs nothing, a paused one only its resting tasks. Tasks whose settings are not completely
    known yet have to wait.
    """
    for name in connectors:
        settings = config.connectors.get(name)
        if settings is not None and config.target_states.get(name) is TargetState.STARTED:
            yield name, Work(settings=settings, connector_settings=settings)
    for task in tasks:
        name = task.connector
        state = config.target_states.get(name)
        if name not in config.connectors or state is TargetState.STOPPED or name in config.inconsistent:
            continue
        settings = config.task_configs(name).get(task)
        if settings is not None:
            applied = config.applied_connector_config(name)
            yield (
                task,
                Work(
                    settings=settings,
                    connector_settings=applied,
                    generation=config.generations.get(name, -1) if is_transactional(applied) else -1,
                    paused=state is TargetState.PAUSED,
                ),
            )
