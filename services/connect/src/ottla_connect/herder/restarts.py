"""Which of a connector and its tasks a restart request means (KIP-745)."""

from dataclasses import replace

from ottla_connect.herder.api import ConnectorStatus, State, Status


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
