"""What the group needs to know of the worker, and what it tells it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla_connect.group.work import NO_WORK, Work
from ottla_connect.ids import TaskId

Revoked = Work
"""What a worker must stop: connectors and tasks."""


class GroupView(NamedTuple):
    """What a worker has read of the config topic.

    Attributes:
        config_offset: how far it has read.
        connectors: every connector, and how many tasks it has.
    """

    config_offset: int
    connectors: Mapping[str, int]

    @property
    def work(self) -> Work:
        """Everything that shall run somewhere."""
        tasks = (TaskId(name, number) for name, count in self.connectors.items() for number in range(count))
        return Work(frozenset(self.connectors), frozenset(tasks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a worker is to the group, and all that it shall run.

    Attributes:
        connectors: the connectors whose own instances it runs.
        tasks: the tasks that it runs.
        leader_id: member id of the leader.
        leader_url: where the leader's REST API is.
        is_leader: whether this worker leads.
        generation: the group's generation.
        config_offset: the assignment is made from the config topic up to here.
        member_urls: to the leader: the URLs of all workers, by member id. Empty otherwise.
        connector_urls: to the leader: the URL of the worker that runs a connector. Empty otherwise; a connector that
            is on its way to another worker is missing.
        task_urls: likewise for tasks.
        held: to the leader: all that any worker runs, or may still be stopping; one that has stopped what was revoked
            says so in the next rebalance. Empty otherwise.
    """

    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()
    leader_id: str
    leader_url: str
    is_leader: bool
    generation: int
    config_offset: int
    member_urls: Mapping[str, str] = field(default_factory=dict)
    connector_urls: Mapping[str, str] = field(default_factory=dict)
    task_urls: Mapping[TaskId, str] = field(default_factory=dict)
    held: Work = NO_WORK

    @property
    def work(self) -> Work:
        """Everything that it runs."""
        return Work(self.connectors, self.tasks)


def work_of(assignment: Assignment | None) -> Work:
    """Return what a worker runs; nothing if it is no member."""
    return NO_WORK if assignment is None else assignment.work
