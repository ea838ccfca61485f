"""Which of a connector and its tasks a restart request means (KIP-745). Pure."""

from collections.abc import Callable
from dataclasses import replace

from ottla_connect.connector_states import State, Status
from ottla_connect.herder.api import ConnectorStatus
from ottla_connect.herder.reconciliation import UnitId
from ottla_connect.ids import TaskId


def as_it_is_here(status: ConnectorStatus, has_failed: Callable[[UnitId], bool | None]) -> ConnectorStatus:
    """Return a connector's status with what its worker itself knows, which may not have come back to it yet.

    Args:
        status: as it was read.
        has_failed: whether what runs here has failed; None for what does not.
    """

    def known(unit: UnitId, one: Status) -> Status:
        failed = has_failed(unit)
        if failed is None or failed == (one.state is State.FAILED):
            return one
        return replace(one, state=State.FAILED if failed else State.RUNNING)

    return replace(
        status,
        connector=known(status.name, status.connector),
        tasks={number: known(TaskId(status.name, number), task) for number, task in status.tasks.items()},
    )


def restart_plan(status: ConnectorStatus, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
    """Return a connector's status as it is when its restart begins.

    Args:
        status: as it is now.
        include_tasks: whether tasks are meant as well.
        only_failed: whether only what has failed is meant.

    Returns:
        The same, with `RESTARTING` for whatever is to be restarted.
    """

    def begun(one: Status) -> Status:
        meant = not only_failed or one.state is State.FAILED
        return replace(one, state=State.RESTARTING, trace="") if meant else one

    return replace(
        status,
        connector=begun(status.connector),
        tasks={number: begun(task) if include_tasks else task for number, task in status.tasks.items()},
    )
