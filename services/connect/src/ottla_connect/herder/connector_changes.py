"""Changes the settings and states of connectors, and their offsets: one request about a connector after the other.

Kafka Connect runs such requests on a single thread (DistributedHerder). Here each one decides and writes under its
connector's lock, on the leading worker, after it has read the configuration topic to its end, so that nothing that
anybody has written before is overlooked. Questions to plugin code take too long for that. They are asked before,
about a state that is compared again under the lock; where it is another by then, they are asked again. Whether this
worker still leads is looked at once more before every single write.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from ottla_connect.connector_states import TargetState
from ottla_connect.group.view import Assignment
from ottla_connect.herder.api import ConnectorInfo, ConnectorOffsets, ConnectorStatus, ConnectorType
from ottla_connect.herder.name_locks import NameLocks
from ottla_connect.herder.offset_requests import OffsetRequest, OffsetRequests
from ottla_connect.herder.restarts import restart_plan
from ottla_connect.herder.validation import Validation
from ottla_connect.herder.views import Views
from ottla_connect.state.config_records import RestartRequest
from ottla_connect.state.config_state import ConfigState
from ottla_connect.state.config_store import ConfigStore
from ottla_connect.state.keyed_log import LogError, NotInTime
from ottla_core.rest.errors import BadRequest, Conflict, NotFound, RequestError

NAME_KEY = "name"
ATTEMPTS_MAX = 10
"""So often is plugin code asked about a connector that others change all the time."""
WRITE_WITHIN_S = 30.0
TASKS_END_WITHIN_S = 15.0
"""A change of offsets waits so long for tasks that are still stopping; their worker has them killed by then."""


class ConnectorChanges:
    """Carries out requests that change connectors.

    Args:
        store: the cluster's configuration.
        views: what this worker knows of connectors.
        validation: asks plugin code.
        offsets: reads and changes offsets.
        lead: returns what this worker leads, or raises what refuses the request.
        forget: removes what was said of a deleted connector, and returns when that is stored, or after a while.
        sync_timeout_s: how long the configuration topic may take to be read to its end.
        leads_in_transactions: whether former tasks of sources are to be fenced where that is asked for.
        has_transactional_sources: whether that is also done before offsets of a source are changed.
    """

    def __init__(
        self,
        *,
        store: ConfigStore,
        views: Views,
        validation: Validation,
        offsets: OffsetRequests,
        lead: Callable[[], Assignment],
        forget: Callable[[str], Awaitable[None]],
        sync_timeout_s: float,
        leads_in_transactions: bool = False,
        has_transactional_sources: bool = False,
    ) -> None:
        self._store = store
        self._views = views
        self._validation = validation
        self._offsets = offsets
        self._lead = lead
        self._forget = forget
        self._sync_timeout_s = sync_timeout_s
        self._leads_in_transactions = leads_in_transactions
        self._has_transactional_sources = has_transactional_sources
        self._changing = NameLocks()
        self._patching = NameLocks()
        self._assigned = asyncio.Condition()

    async def on_assigned(self) -> None:
        """Hear that the group has another assignment: tasks that requests wait for may have ended."""
        async with self._assigned:
            self._assigned.notify_all()

    # Settings.

    async def create(self, name: str, config: Mapping[str, str], initial_state: TargetState | None) -> ConnectorInfo:
        """Create a connector.

        Raises:
            Conflict: there is one of this name.
            BadRequest: the settings are wrong.
        """
        self._lead()
        self._require_absent(name)
        named = await self._valid(name, config)
        async with self._leading(name):
            self._require_absent(name)
            await self._write(lambda: self._store.put_connector(name, named, initial_state))
            return self._info(name, named)

    async def put(self, name: str, config: Mapping[str, str]) -> tuple[bool, ConnectorInfo]:
        """Create or change a connector; returns whether it is new.

        Raises:
            BadRequest: the settings are wrong.
        """
        self._lead()
        named = await self._valid(name, config)
        async with self._leading(name):
            is_new = name not in self._state.connectors
            await self._write(lambda: self._store.put_connector(name, named, None))
            return is_new, self._info(name, named)

    async def patch(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Change some settings of a connector; None removes one.

        Raises:
            NotFound: there is no such connector.
            BadRequest: the settings are wrong.
        """
        async with self._patching.of(name):  # or patches would have each other validate anew
            for _ in range(ATTEMPTS_MAX):
                async with self._leading(name):
                    base = self._views.config(name)
                patched = {**base, **patch}
                named = await self._valid(name, {key: text for key, text in patched.items() if text is not None})
                async with self._leading(name):
                    if self._views.config(name) == base:
                        await self._write(lambda named=named: self._store.put_connector(name, named, None))  # type: ignore[misc]
                        return self._info(name, named)
        raise _always_another(name)

    async def delete(self, name: str) -> None:
        """Delete a connector.

        Raises:
            NotFound: there is no such connector.
        """
        async with self._leading(name):
            self._views.config(name)
            await self._write(lambda: self._store.remove_connector(name))
            await self._forget(name)  # under the lock, so that it is not of a successor

    # What runs.

    async def set_target_state(self, name: str, state: TargetState) -> None:
        """Pause, resume (STARTED) or stop a connector.

        Raises:
            NotFound: there is no such connector.
        """
        self._require_known(name)
        async with self._leading(name):
            self._require_known(name)
            if state is TargetState.STOPPED:
                # Tasks go first: a connector that runs without tasks does no harm, a stopped one with tasks would.
                await self._write(lambda: self._store.put_task_configs(name, [], permit=self._lead))
            await self._write(lambda: self._store.put_target_state(name, state))

    async def put_task_configs(
        self, name: str, configs: Sequence[Mapping[str, str]], is_wanted: Callable[[], bool]
    ) -> None:
        """Store what a connector's tasks shall do.

        Raises:
            NotFound: there is no such connector.
            BadRequest: it is stopped.
            Conflict: `is_wanted` says so, as the connector runs elsewhere by now, or wants something else.
        """
        async with self._leading(name):
            self._views.config(name)
            if not is_wanted():
                raise Conflict(f"Connector {name} does not want these tasks any more")
            if configs and self._state.target_states.get(name) is TargetState.STOPPED:
                raise BadRequest(f"Connector {name} is stopped, so it can be given no tasks")
            await self._write(lambda: self._store.put_task_configs(name, configs, permit=self._lead))

    async def restart(self, request: RestartRequest) -> ConnectorStatus:
        """Have a connector and its tasks restarted wherever they run; returns what is planned.

        Raises:
            NotFound: there is no such connector.
        """
        name = request.connector
        async with self._leading(name):
            status = self._views.status(name)
            await self._write(lambda: self._store.put_restart_request(request))
        return restart_plan(status, include_tasks=request.include_tasks, only_failed=request.only_failed)

    async def fence_tasks(self, name: str) -> None:
        """Fence the tasks that a source had before its present ones, if that was not done yet (KIP-618).

        Raises:
            NotFound: there is no such connector.
            BadRequest: it is no source.
            Conflict: this worker, which leads, knows no transactions.
            RequestError: it is not known whether all are fenced.
        """
        if not self._leads_in_transactions:
            raise Conflict(
                "The worker that leads has exactly.once.source.support=disabled; it must be preparing or enabled on "
                "all workers before source tasks can write in transactions"
            )
        async with self._leading(name):
            if self._views.info(name).type is ConnectorType.SINK:
                raise BadRequest(f"Connector {name} is not a source connector")
            await self._fence(name)

    async def _fence(self, name: str) -> None:
        """Under the connector's lock, so that nobody gives it other tasks meanwhile."""
        state = self._state
        if name not in state.unfenced:
            return
        former, tasks = state.fenced_counts.get(name, 0), state.task_counts.get(name, 0)
        if former and not former == tasks == 1:  # a sole task fences its sole predecessor when it begins
            await self._validation.fence_tasks(name, self._views.config(name), former)
            await self._refresh()
            if self._state.generations.get(name) != state.generations.get(name):
                raise Conflict(f"Connector {name} was given other tasks while its former ones were fenced")
        await self._write(lambda: self._store.put_task_count(name, tasks))

    # Offsets.

    async def alter_offsets(self, name: str, offsets: ConnectorOffsets) -> str:
        """Set offsets of a stopped connector; returns the message for the user.

        Raises:
            NotFound: there is no such connector.
            BadRequest: it is not stopped, or the offsets are wrong.
            Conflict: its tasks have not ended yet.
        """

        async def ask(connector: ConnectorInfo) -> OffsetRequest:
            return await self._offsets.alteration(connector, offsets)

        return await self._change_offsets(name, ask)

    async def reset_offsets(self, name: str) -> str:
        """Remove all offsets of a stopped connector; raises and returns as `alter_offsets` does."""
        return await self._change_offsets(name, self._offsets.removal)

    async def _change_offsets(self, name: str, ask: Callable[[ConnectorInfo], Awaitable[OffsetRequest]]) -> str:
        for _ in range(ATTEMPTS_MAX):
            async with self._leading(name):
                connector = self._stopped(name)
            await self._wait_for_tasks_to_end(name)
            request = await ask(connector)
            async with self._leading(name):
                # Under the lock, as whoever resumes the connector starts tasks that go on from the old offsets.
                is_current = await self._offsets.is_current(request)
                if self._stopped(name) == connector and is_current:
                    if self._may_have_tasks(name):
                        raise _still_running(name)
                    if self._has_transactional_sources and connector.type is not ConnectorType.SINK:
                        await self._fence(name)  # or what a paused task commits later would count
                        if not await self._offsets.is_current(request):
                            continue
                    message = await self._offsets.carry_out(request, self._lead)
                    self._lead()  # or another leader may have let tasks begin meanwhile, and has to repeat this
                    return message
        raise _always_another(name)

    def _stopped(self, name: str) -> ConnectorInfo:
        info = self._views.info(name)
        if self._state.target_states.get(name) is not TargetState.STOPPED or self._state.task_counts.get(name, 0):
            raise BadRequest(
                f"Only a stopped connector's offsets can be changed; PUT /connectors/{name}/stop stops it, which may "
                "take a moment"
            )
        return info

    async def _wait_for_tasks_to_end(self, name: str) -> None:
        """Return when no task of a stopped connector can commit any more.

        Raises:
            Conflict: some still can, after a while.
        """
        try:
            async with asyncio.timeout(TASKS_END_WITHIN_S), self._assigned:
                await self._assigned.wait_for(lambda: not self._may_have_tasks(name))
        except TimeoutError:
            raise _still_running(name) from None

    def _may_have_tasks(self, name: str) -> bool:
        """Return whether a worker may still run tasks of a connector that shall have none.

        Workers join a rebalance after what was revoked has stopped. So a task has ended when no worker names it among
        what it holds, in a rebalance after the tasks went. Workers that are no members may not commit any more.
        """
        leads = self._lead()
        is_old = leads.config_offset < self._state.without_tasks_since(name)
        return is_old or any(task.connector == name for task in leads.held.tasks)

    # The same for all.

    @asynccontextmanager
    async def _leading(self, name: str) -> AsyncIterator[None]:
        """Hold a connector's lock, knowing everything that was written; raises what refuses the request."""
        self._lead()
        async with self._changing.of(name):
            await self._refresh()
            yield

    async def _refresh(self) -> None:
        """Read everything that anybody has written, or can have written, before this worker began to lead."""
        try:
            await self._store.claim(self._sync_timeout_s)
            await self._store.refresh(self._sync_timeout_s)
        except LogError as error:
            raise RequestError(f"{error}. The request can be repeated") from None
        self._lead()

    async def _write(self, write: Callable[[], Awaitable[None]]) -> None:
        """Write, and write again what was given up because it took too long, while this worker leads."""
        give_up_s = time.monotonic() + WRITE_WITHIN_S
        while True:
            self._lead()  # what is awaited after this point is the write itself
            try:
                return await write()
            except LogError as error:
                if not isinstance(error, NotInTime) or time.monotonic() > give_up_s:
                    raise RequestError(
                        f"Failed to write to the configuration topic: {error}. The request can be repeated"
                    ) from None

    async def _valid(self, name: str, config: Mapping[str, str]) -> dict[str, str]:
        named = {**config, NAME_KEY: name}
        await self._validation.require_valid(named)
        return named

    def _info(self, name: str, config: Mapping[str, str]) -> ConnectorInfo:
        return ConnectorInfo(
            name=name, config=config, tasks=self._views.tasks(name), type=self._views.type_of(config)
        )

    def _require_known(self, name: str) -> None:
        if name not in self._state.connectors:
            raise NotFound(f"Unknown connector {name}")

    def _require_absent(self, name: str) -> None:
        if name in self._state.connectors:
            raise Conflict(f"Connector {name} already exists")

    @property
    def _state(self) -> ConfigState:
        return self._store.state


def _always_another(name: str) -> Conflict:
    return Conflict(f"Connector {name} was changed by others all the time; try again shortly")


def _still_running(name: str) -> Conflict:
    return Conflict(
        f"Tasks of connector {name} have not ended yet, or the workers are rebalancing; try again shortly"
    )
