"""Opens `AsyncCluster`s for tests, without TLS or login."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.security import ClientSecurity


@asynccontextmanager
async def opened_cluster(bootstrap: str) -> AsyncIterator[AsyncCluster]:
    """Yields the cluster at these addresses (`host:port`, separated by commas)."""
    pairs = [(host, int(port)) for host, _, port in (each.rpartition(":") for each in bootstrap.split(","))]
    cluster = AsyncCluster(pairs, security=ClientSecurity(), client_id="test")
    try:
        yield cluster
    finally:
        await cluster.close()
