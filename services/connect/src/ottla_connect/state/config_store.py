"""What users and the leading worker decide, kept in the config topic: connectors, their tasks, target states, keys.

Only the leading worker writes connectors and tasks, so that nobody overwrites what another has just decided.
Whatever is written takes effect on every worker, the writing one too, when it is read back; the methods that write
return after that, so that `state` shows it.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import structlog

from ottla_connect.connector_states import TargetState
from ottla_connect.ids import TaskId
from ottla_connect.state.config_records import (
    TASKS_MAX,
    BadRecord,
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
from ottla_connect.state.keyed_log import Entry, KeyedLog, LogError

__all__ = [
    "ConfigChange",
    "ConfigStore",
    "ConnectorChanged",
    "ConnectorRemoved",
    "LoggerLevelChanged",
    "RestartRequest",
    "RestartRequested",
    "SessionKeyChanged",
    "TargetStateChanged",
    "TaskConfigsChanged",
]

WRITE_AND_READ_TIMEOUT_S = 30.0

log = structlog.get_logger("config store")


class LeaderWrites(Protocol):
    """Writes to the config topic, as long as no other worker has claimed that."""

    async def claim(self, timeout_s: float) -> None:
        """Keep all others from writing; does nothing if this one has before.

        Raises:
            LogError: it is not possible, or not in time.
        """

    def relinquish(self) -> None:
        """Claim anew before the next write."""

    async def write(self, writes: Sequence[Write], timeout_s: float) -> None:
        """Write all of these or nothing, in their order.

        Raises:
            LogError: they are not stored, or it is not known whether they are.
        """

    async def close(self) -> None:
        """Write no more."""


class ConfigStore:
    """The cluster's configuration.

    Args:
        records: the config topic.
        leader_writes: writes what only the leading worker may write, so that a former leader cannot any more; None:
            it is written as everything else.
    """

    def __init__(self, records: KeyedLog, leader_writes: LeaderWrites | None = None) -> None:
        self._log = records
        self._leader_writes = leader_writes
        self._replay = ConfigReplay()
        self._on_change: Callable[[ConfigChange], None] | None = None
        self._writing_tasks = asyncio.Lock()

    @property
    def state(self) -> ConfigState:
        """The configuration as far as it was read."""
        return self._replay.snapshot()

    async def start(self, on_change: Callable[[ConfigChange], None]) -> None:
        """Read everything; `on_change` is called for what changes afterwards, when `state` shows it.

        Raises:
            LogError: it cannot be read.
        """
        await self._log.start(self._take)
        self._on_change = on_change

    async def close(self) -> None:
        """Stop reading and writing."""
        self._on_change = None
        if self._leader_writes is not None:
            await self._leader_writes.close()
        await self._log.close()

    async def claim(self, timeout_s: float) -> None:
        """Keep former leaders from writing from now on; to be called by the leader before it reads what there is.

        Raises:
            LogError: that is not possible now.
        """
        if self._leader_writes is not None:
            await self._leader_writes.claim(timeout_s)

    def relinquish(self) -> None:
        """Take note that this worker does not lead any more."""
        if self._leader_writes is not None:
            self._leader_writes.relinquish()

    async def refresh(self, timeout_s: float) -> None:
        """Return when `state` shows everything that was written before this call.

        Raises:
            LogError: it cannot be read, or not in time.
        """
        await self._log.read_to_end(timeout_s)

    async def put_connector(self, name: str, config: Mapping[str, str], target_state: TargetState | None) -> None:
        """Create or change a connector; `target_state` None leaves that as it is, STARTED for a new one.

        Raises:
            LogError: it is not stored, or it is not known whether it is.
        """
        if target_state is None and name not in self.state.connectors and name in self.state.target_states:
            target_state = TargetState.STARTED  # what is there is of a former one whose end was stored in part only
        # The state goes first: a new connector must not run for the moment between the two.
        initial = [target_state_write(name, target_state)] if target_state is not None else []
        await self._write([*initial, connector_write(name, config)])

    async def remove_connector(self, name: str) -> None:
        """Delete a connector; raises as `put_connector` does."""
        await self._write([connector_write(name, None), target_state_write(name, None)])

    async def put_task_configs(
        self, name: str, configs: Sequence[Mapping[str, str]], *, permit: Callable[[], object] = lambda: None
    ) -> None:
        """Set what a connector's tasks do, and how many there are.

        Args:
            name: the connector.
            configs: the settings of its tasks.
            permit: is asked before each of the two writes, and raises what prevents it.

        Raises:
            LogError: it is not stored, or it is not known whether it is.
        """
        if len(configs) > TASKS_MAX:
            raise LogError(f"connector {name} has {len(configs)} tasks, more than {TASKS_MAX}")
        async with self._writing_tasks:  # two sets of tasks must not mix
            deadline = time.monotonic() + WRITE_AND_READ_TIMEOUT_S
            tasks = [task_write(TaskId(name, number), config) for number, config in enumerate(configs)]
            permit()
            await self._write(tasks)
            permit()
            await self._write([commit_write(name, len(configs))], deadline)

    async def put_task_count(self, name: str, tasks: int) -> None:
        """Take down that all tasks of a connector but the present ones are fenced; raises as `put_connector` does."""
        await self._write([task_count_write(name, tasks)])

    async def put_target_state(self, name: str, state: TargetState) -> None:
        """Set what a connector is to be; raises as `put_connector` does."""
        await self._write([target_state_write(name, state)])

    async def put_restart_request(self, request: RestartRequest) -> None:
        """Have a connector restarted, wherever it runs; raises as `put_connector` does."""
        await self._write([restart_write(request)])

    async def put_session_key(self, key: SessionKey) -> None:
        """Give the workers a key to sign requests to each other; raises as `put_connector` does."""
        await self._write([session_key_write(key)])

    async def put_logger_level(self, logger: str, level: str) -> None:
        """Set a logger's level on all workers, as any of them may; raises as `put_connector` does."""
        deadline = time.monotonic() + WRITE_AND_READ_TIMEOUT_S
        await self._log.write([logger_write(logger, level)], WRITE_AND_READ_TIMEOUT_S)
        await self._log.read_to_end(max(deadline - time.monotonic(), 0.0))

    async def _write(self, writes: Sequence[Write], deadline: float | None = None) -> None:
        deadline = deadline if deadline is not None else time.monotonic() + WRITE_AND_READ_TIMEOUT_S
        write = self._log.write if self._leader_writes is None else self._leader_writes.write
        await write(writes, max(deadline - time.monotonic(), 0.0))
        await self._log.read_to_end(max(deadline - time.monotonic(), 0.0))

    def _take(self, entry: Entry) -> None:
        try:
            record = decode(entry.key, entry.value)
        except BadRecord as problem:
            log.warning("a record of the config topic is ignored", offset=entry.offset, reason=str(problem))
            self._replay.skip(entry.offset)
            return
        change = self._replay.apply(record, entry.offset)
        if change is not None and self._on_change is not None:
            self._on_change(change)
