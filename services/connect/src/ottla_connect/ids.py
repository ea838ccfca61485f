"""Names of the things that a worker runs. Pure."""

from typing import NamedTuple


class TaskId(NamedTuple):
    """A task of a connector; prints as in Kafka Connect, such as ``flights-0``.

    Attributes:
        connector: the connector's name.
        task: the task's number, from 0.
    """

    connector: str
    task: int

    def __str__(self) -> str:
        """Return ``CONNECTOR-NUMBER``."""
        return f"{self.connector}-{self.task}"


def transactional_id(group_id: str, task: TaskId) -> str:
    """Return under which id a source task writes in transactions (Kafka's Worker.taskTransactionalId)."""
    return f"{group_id}-{task}"
