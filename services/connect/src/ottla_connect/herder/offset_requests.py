"""Reads and changes the offsets of a connector (KIP-875): a source's are the worker's, a sink's its consumer group's.

A connector has a say in what they are changed to, and may keep offsets of its own; its code is asked in a process,
before the change is carried out.
"""

from collections.abc import Awaitable
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

ALTERED = "The offsets for this connector have been altered successfully"
RESET = "The offsets for this connector have been reset successfully"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRequest:
    """A change to which the connector has consented.

    Attributes:
        connector: whose offsets.
        offsets: what they become; None removes one.
        removes_all: whether all are to be removed, which are those in `offsets`.
    """

    connector: ConnectorInfo
    offsets: ConnectorOffsets
    removes_all: bool


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
        await self._require_consent(connector, offsets)
        return OffsetRequest(connector=connector, offsets=offsets, removes_all=False)

    async def removal(self, connector: ConnectorInfo) -> OffsetRequest:
        """Return the request to remove all offsets.

        Raises:
            BadRequest: the connector does not want it.
            RequestError: they cannot be read.
        """
        removals = _removals(await self.read(connector))
        await self._require_consent(connector, removals)
        return OffsetRequest(connector=connector, offsets=removals, removes_all=True)

    async def is_current(self, request: OffsetRequest) -> bool:
        """Return whether a connector has consented to what a request would do now.

        Raises:
            RequestError: the offsets cannot be read.
        """
        return not request.removes_all or _removals(await self.read(request.connector)) == request.offsets

    async def carry_out(self, request: OffsetRequest) -> str:
        """Change offsets; returns the message for the user.

        Raises:
            RequestError: they cannot be stored.
        """
        connector = request.connector
        if connector.type is not ConnectorType.SINK:
            await self._change(connector, self._stores.offsets.write(connector.name, request.offsets))
        elif request.removes_all:
            await self._change(connector, self._group(connector).delete())
        else:
            await self._change(connector, self._group(connector).alter(parse_sink(request.offsets)))
        return RESET if request.removes_all else ALTERED

    def _group(self, connector: ConnectorInfo) -> SinkOffsets:
        settings = connector.config
        group_id = sink_group_id(connector.name, settings, self._config)
        return SinkOffsets(self._config, group_id, admin_overrides(settings))

    async def _require_consent(self, connector: ConnectorInfo, offsets: ConnectorOffsets) -> None:
        problems = await self._validation.check_offsets(connector.name, connector.config, offsets)
        if problems:
            raise BadRequest(f"The connector refuses these offsets: {'; '.join(problems)}")

    async def _change(self, connector: ConnectorInfo, change: Awaitable[None]) -> None:
        try:
            await change
        except (LogError, SinkOffsetsError) as error:
            raise RequestError(f"The offsets of connector {connector.name} could not be changed: {error}") from None


def _removals(offsets: ConnectorOffsets) -> ConnectorOffsets:
    return [(partition, None) for partition, _ in offsets]
