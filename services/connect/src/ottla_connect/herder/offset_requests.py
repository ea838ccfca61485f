"""Reads and changes the offsets of a connector (KIP-875): a source's are the worker's, a sink's its consumer group's.

A connector has a say in what they are changed to, and may keep offsets of its own; its code is asked in a process.
"""

from collections.abc import Awaitable

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

    async def alter(self, connector: ConnectorInfo, offsets: ConnectorOffsets) -> str:
        """Set offsets; returns the message for the user.

        Raises:
            BadRequest: they are of the wrong form, or the connector does not want them.
            RequestError: they cannot be stored.
        """
        if not offsets:
            raise BadRequest("There are no offsets to set")
        if connector.type is ConnectorType.SINK:
            parsed = parse_sink(offsets)
            await self._require_consent(connector, offsets)
            await self._change(connector, self._group(connector).alter(parsed))
        else:
            check_source(offsets)
            await self._require_consent(connector, offsets)
            await self._change(connector, self._stores.offsets.write(connector.name, offsets))
        return ALTERED

    async def reset(self, connector: ConnectorInfo) -> str:
        """Remove all offsets; returns the message for the user.

        Raises:
            BadRequest: the connector does not want it.
            RequestError: they cannot be removed.
        """
        removals: ConnectorOffsets = [(partition, None) for partition, _ in await self.read(connector)]
        await self._require_consent(connector, removals)
        if connector.type is ConnectorType.SINK:
            await self._change(connector, self._group(connector).delete())
        else:
            await self._change(connector, self._stores.offsets.remove(connector.name))
        return RESET

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
