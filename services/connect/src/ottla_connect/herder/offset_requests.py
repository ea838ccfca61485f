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
    check_source,
    parse_sink,
    sink_document,
    sink_group_id,
)
from ottla_connect.herder.errors import BadRequest, RequestError
from ottla_connect.herder.validation import Validation
from ottla_connect.state.keyed_log import LogError
from ottla_connect.state.sink_offsets import SinkOffsets, SinkOffsetsError
from ottla_connect.state.stores import Stores
from ottla_core.background import start_awaited

ALTERED = "The offsets for this connector have been altered successfully"
PERMIT_INTERVAL_S = 0.5
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
    """Carries out the requests about offsets; whether the connector is stopped is checked before."""

    def __init__(self, config: WorkerConfig, *, stores: Stores, validation: Validation) -> None:
        self._config = config
        self._stores = stores
        self._validation = validation

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
            permit: raises what forbids it; called again before every write, and while a sink's own code writes.

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
            await self._change(connector, self._group(connector).delete())
            return RESET
        await self._change(connector, self._group(connector).alter(parse_sink(request.offsets)))
        return ALTERED

    async def _change_in_target(self, request: OffsetRequest, permit: Callable[[], object]) -> None:
        """Have a sink change what it keeps, and end its process as soon as that is not permitted any more."""
        connector = request.connector
        permit()
        change = start_awaited(
            "changing offsets in a target",
            self._validation.change_offsets(connector.name, connector.config, request.offsets),
        )
        try:
            while not (await asyncio.wait({change}, timeout=PERMIT_INTERVAL_S))[0]:
                permit()
            await change
        finally:
            change.cancel()
            await asyncio.wait({change})

    def _group(self, connector: ConnectorInfo) -> SinkOffsets:
        settings = connector.config
        group_id = sink_group_id(connector.name, settings, self._config)
        return SinkOffsets(self._config, group_id, admin_overrides(settings))

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
