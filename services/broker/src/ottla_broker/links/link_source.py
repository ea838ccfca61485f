"""A connection to a link's source, made anew when the link says something else of it."""

import asyncio
from collections.abc import Mapping

from ottla_broker.links.link_settings import Resolve
from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.security import ClientSecurity
from ottla_core.cluster.state.model import Link
from ottla_core.errors import ConfigurationError


class LinkSource:
    """Connects to the source of one link.

    Args:
        resolve: puts secrets in the place of references, in a thread.
        client_id: by which the source counts this broker.
    """

    def __init__(self, resolve: Resolve, *, client_id: str) -> None:
        self._resolve = resolve
        self._client_id = client_id
        self._cluster: AsyncCluster | None = None
        self._made_by: tuple[tuple[str, ...], Mapping[str, str]] | None = None

    async def connected(self, link: Link) -> AsyncCluster:
        """Return the source, as the link's settings say.

        Raises:
            ConfigurationError: they cannot be used.
        """
        wanted = link.bootstrap_servers, dict(link.settings)
        if self._cluster is None or wanted != self._made_by:
            await self.close()
            addresses = [host_port(each) for each in link.bootstrap_servers]
            security = ClientSecurity.of(await asyncio.to_thread(self._resolve, link.settings))
            self._cluster, self._made_by = (
                AsyncCluster(addresses, security=security, client_id=self._client_id),
                wanted,
            )
        return self._cluster

    async def close(self) -> None:
        """Close the connection."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            await cluster.close()


def host_port(address: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT.

    Raises:
        ConfigurationError: it is malformed.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigurationError(f"bootstrap servers: {address} is not HOST:PORT")
    return host.strip("[]"), int(port)
