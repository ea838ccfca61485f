"""What a worker runs: connectors and tasks, as one value with the operations of sets. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from ottla_connect.ids import TaskId


@dataclass(frozen=True, slots=True)
class Work:
    """A set of connectors and tasks.

    Attributes:
        connectors: names of connectors, whose own instances run.
        tasks: tasks, which need not be those of the connectors.
    """

    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()

    def __or__(self, other: "Work") -> "Work":
        return Work(self.connectors | other.connectors, self.tasks | other.tasks)

    def __and__(self, other: "Work") -> "Work":
        return Work(self.connectors & other.connectors, self.tasks & other.tasks)

    def __sub__(self, other: "Work") -> "Work":
        return Work(self.connectors - other.connectors, self.tasks - other.tasks)

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def __len__(self) -> int:
        return len(self.connectors) + len(self.tasks)

    def __str__(self) -> str:
        """Return names for a log line, such as ``flights flights-0 flights-1``; ``nothing`` if it is empty."""
        return " ".join([*sorted(self.connectors), *(str(task) for task in sorted(self.tasks))]) or "nothing"


NO_WORK = Work()


def union(works: Iterable[Work]) -> Work:
    """Return everything that is in any of them."""
    connectors: set[str] = set()
    tasks: set[TaskId] = set()
    for work in works:
        connectors |= work.connectors
        tasks |= work.tasks
    return Work(frozenset(connectors), frozenset(tasks))
