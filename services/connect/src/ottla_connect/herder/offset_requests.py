"""Reads and changes the offsets of a connector (KIP-875): a source's are the worker's, a sink's its consumer group's.

A connector has a say in what they are changed to, and may keep offsets of its own; its code is asked in a process,
before the change is carried out.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ottla_connect.config import WorkerConfig
from ottla_connect.herder.api import ConnectorInfo, ConnectorOffsets, ConnectorType
from ottla_connect.herder.connector_offsets import (
    admin_overrides,
    check_overrides,
    check_source,
    parse_sink,
    sink_document,
    sink_group_id,
)
from ottla_connect.herder.validation import Validation
from ottla_connect.processes.host import ChildProcess
from ottla_connect.processes.messages import Lease
from ottla_connect.state.keyed_log import LogError
from ottla_connect.state.sink_offsets import SinkOffsets, SinkOffsetsError
from ottla_connect.state.stores import Stores
from ottla_core.background import start_awaited
from ottla_core.rest.errors import BadRequest, Conflict, RequestError

ALTERED = "The offsets for this connector have been altered successfully"
PERMIT_INTERVAL_MAX_S = 0.5
STOPPED_LEADING = "This worker stopped to lead while the offsets were changed; the request can be repeated"
RESET = "The offsets for this connector have been reset successfully"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRequest:
    """A change to which the connector has consented.

    Attributes:
        connector: whose offsets.
        offsets: what they become; None removes one.
        removed: where all are to be removed, those of them that are a source's or a consumer group's, and not kept
            in a sink's target; None where they are to be set.
    """

    connector: ConnectorInfo
    offsets: ConnectorOffsets
    removed: ConnectorOffsets | None


class OffsetRequests:
    """Carries out the requests about offsets; whether the connector is stopped is checked before.

    Args:
        config: the worker's settings.
        stores: the offsets of sources.
        validation: asks plugin code.
        leased_until_s: returns until when (CLOCK_BOOTTIME) nobody else can lead, if this worker leads.
    """

    def __init__(
        self,
        config: WorkerConfig,
        *,
        stores: Stores,
        validation: Validation,
        leased_until_s: Callable[[], float],
    ) -> None:
        self._config = config
        self._stores = stores
        self._validation = validation
        self._leased_until_s = leased_until_s
        self._in_targets: set[asyncio.Task[None]] = set()

    async def read(self, connector: ConnectorInfo) -> ConnectorOffsets:
        """Return a connector's offsets.

        Raises:
            RequestError: they cannot be read.
        """
        try:
            if connector.type is ConnectorType.SINK:
                return sink_document(await self._group(connector).read())
            return await self._stores.offsets.all(connector.name)
        except (LogError, SinkOffsetsError) as error:
            raise RequestError(f"The offsets of connector {connector.name} cannot be read: {error}") from None

    async def alteration(self, connector: ConnectorInfo, offsets: ConnectorOffsets) -> OffsetRequest:
        """Return the request to set offsets.

        Raises:
            BadRequest: they are of the wrong form, or the connector does not want them.
        """
        if not offsets:
            raise BadRequest("There are no offsets to set")
        if connector.type is ConnectorType.SINK:
            parse_sink(offsets)
        else:
            check_source(offsets)
        await self._consented(connector, offsets, removes_all=False)
        return OffsetRequest(connector=connector, offsets=offsets, removed=None)

    async def removal(self, connector: ConnectorInfo) -> OffsetRequest:
        """Return the request to remove all offsets.

        Raises:
            BadRequest: the connector does not want it.
            RequestError: they cannot be read.
        """
        removed = _removals(await self.read(connector))
        offsets = await self._consented(connector, removed, removes_all=True)
        return OffsetRequest(connector=connector, offsets=offsets, removed=removed)

    async def is_current(self, request: OffsetRequest) -> bool:
        """Return whether a connector has consented to what a request would do now.

        Raises:
            RequestError: the offsets cannot be read.
        """
        return request.removed is None or _removals(await self.read(request.connector)) == request.removed

    async def carry_out(self, request: OffsetRequest, permit: Callable[[], object]) -> str:
        """Change offsets; returns the message for the user.

        Args:
            request: the connector has consented to it.
            permit: raises what forbids it, such as that another worker may lead; called again before every write, and
                while a sink's own code writes, whose process has no longer a lease than it was given then.

        Raises:
            RequestError: they cannot be stored.
        """
        connector = request.connector
        if connector.type is not ConnectorType.SINK:
            permit()
            await self._change(connector, self._stores.offsets.write(connector.name, request.offsets))
            return ALTERED if request.removed is None else RESET
        await self._change_in_target(request, permit)
        permit()
        if request.removed is not None:
            await self._change(connector, self._group(connector, permit).delete())
            return RESET
        await self._change(connector, self._group(connector, permit).alter(parse_sink(request.offsets)))
        return ALTERED

    async def end_changes(self) -> None:
        """End what changes targets, and return when its processes have ended: another worker will lead."""
        changes = set(self._in_targets)
        for change in changes:
            change.cancel()
        if changes:
            await asyncio.wait(changes)

    async def _change_in_target(self, request: OffsetRequest, permit: Callable[[], object]) -> None:
        """Have a sink change what it keeps, as long as that is permitted.

        Its process writes while it has a lease, and ends by itself without one, as this worker may be paused or cut
        off. It has ended when this returns or raises, so whoever gets the connector's lock next comes after it.
        """
        connector = request.connector
        process: ChildProcess | None = None

        def grant() -> None:
            permit()
            if process is not None:
                process.send(Lease(until_s=self._leased_until_s()))

        def has_started(started: ChildProcess) -> None:
            nonlocal process
            process = started
            grant()

        async def change() -> None:
            grant()
            try:
                await self._validation.change_offsets(
                    connector.name, connector.config, request.offsets, on_started=has_started
                )
            finally:
                if process is not None:
                    await process.gone()

        changing = start_awaited("changing offsets in a target", change())
        self._in_targets.add(changing)
        interval_s = min(self._config.heartbeat_interval_ms / 1000, PERMIT_INTERVAL_MAX_S)
        try:
            while not (await asyncio.wait({changing}, timeout=interval_s))[0]:
                grant()
            if changing.cancelled():
                raise Conflict(STOPPED_LEADING)
            await changing
        finally:
            changing.cancel()
            await asyncio.wait({changing})
            self._in_targets.discard(changing)

    def _group(self, connector: ConnectorInfo, permit: Callable[[], object] = lambda: None) -> SinkOffsets:
        settings = connector.config
        check_overrides(settings, self._config)
        group_id = sink_group_id(connector.name, settings, self._config)
        return SinkOffsets(self._config, group_id, admin_overrides(settings), permit)

    async def _consented(
        self, connector: ConnectorInfo, offsets: ConnectorOffsets, *, removes_all: bool
    ) -> ConnectorOffsets:
        """Return these offsets with those of a sink that it keeps itself, if all are to be removed."""
        checked = await self._validation.check_offsets(
            connector.name, connector.config, offsets, removes_all=removes_all
        )
        if checked.problems:
            raise BadRequest(f"The connector refuses these offsets: {'; '.join(checked.problems)}")
        return checked.offsets

    async def _change(self, connector: ConnectorInfo, change: Awaitable[None]) -> None:
        try:
            await change
        except (LogError, SinkOffsetsError) as error:
            raise RequestError(f"The offsets of connector {connector.name} could not be changed: {error}") from None


def _removals(offsets: ConnectorOffsets) -> ConnectorOffsets:
    return [(partition, None) for partition, _ in offsets]
