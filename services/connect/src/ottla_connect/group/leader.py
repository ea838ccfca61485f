"""What the leader does in a rebalance: it reads the members' states, and writes an assignment for each. Pure."""

from collections.abc import Mapping

from ottla_connect.group.assignment import Holding, IncrementalAssignor, Plan
from ottla_connect.group.view import GroupView
from ottla_connect.group.work import Work, union
from ottla_connect.group.worker_protocol import (
    CONFIG_MISMATCH,
    MalformedWorkerMessage,
    WorkerAssignment,
    WorkerState,
    decode_state,
    encode_assignment,
)
from ottla_connect.ids import TaskId


class Leader:
    """Plans, for as long as its worker leads, and remembers what it needs for the next plan."""

    def __init__(self, delay_max_ms: int) -> None:
        """Start without memory; `delay_max_ms` is `scheduled.rebalance.max.delay.ms`."""
        self._assignor = IncrementalAssignor(delay_max_ms)
        self._states: dict[str, WorkerState] = {}
        self._plan: Plan | None = None

    def take(self, members: Mapping[str, bytes]) -> list[str]:
        """Take the states of all members, the leader's among them; returns what is wrong with whom.

        Who is no worker is left out and gets no assignment.
        """
        self._states, self._plan, problems = {}, None, []
        for member_id, data in members.items():
            try:
                self._states[member_id] = decode_state(data)
            except MalformedWorkerMessage as error:
                problems.append(f"the member {member_id} is left out, it is no worker: {error}")
        return problems

    @property
    def config_offset(self) -> int:
        """How far the config topic was read by the worker that has read most of it."""
        return max(state.config_offset for state in self._states.values())

    def assignments(
        self,
        view: GroupView,
        *,
        protocol: str,
        leader_id: str,
        generation: int,
        last_generation: int,
        now_ms: int,
    ) -> dict[str, bytes]:
        """Return every member's assignment; one with an error if we have not read what another worker has.

        Args:
            view: what we have read.
            protocol: the one that was chosen for the group.
            leader_id: our member id.
            generation: the present one.
            last_generation: the last one that we have completed.
            now_ms: the time.
        """
        if view.config_offset < self.config_offset:
            refused = WorkerAssignment(error=CONFIG_MISMATCH, leader=leader_id, config_offset=self.config_offset)
            return dict.fromkeys(self._states, encode_assignment(refused, protocol))
        self._plan = plan = self._assignor.plan(
            {each: Holding(url=state.url, work=state.work) for each, state in self._states.items()},
            view.work,
            generation=generation,
            last_generation=last_generation,
            now_ms=now_ms,
        )
        return {
            each: encode_assignment(
                WorkerAssignment(
                    leader=leader_id,
                    leader_url=self._states[leader_id].url,
                    config_offset=view.config_offset,
                    assigned=plan.assigned[each],
                    revoked=plan.revoked[each],
                    delay_ms=plan.delay_ms,
                ),
                protocol,
            )
            for each in self._states
        }

    @property
    def held(self) -> Work:
        """What the workers said that they run when this was planned, and what they were given."""
        given = self._plan.assigned.values() if self._plan is not None else ()
        return union((*(state.work for state in self._states.values()), *given))

    @property
    def member_urls(self) -> dict[str, str]:
        """The URLs of all workers, by member id."""
        return {each: state.url for each, state in self._states.items()}

    @property
    def connector_urls(self) -> dict[str, str]:
        """The URL of the worker that runs a connector, as planned last."""
        holdings = self._plan.holdings.values() if self._plan is not None else ()
        return {name: holding.url for holding in holdings for name in holding.work.connectors}

    @property
    def task_urls(self) -> dict[TaskId, str]:
        """The URL of the worker that runs a task, as planned last."""
        holdings = self._plan.holdings.values() if self._plan is not None else ()
        return {task: holding.url for holding in holdings for task in holding.work.tasks}
