"""A process that copies topics of one cluster to another, all partitions, until it is told to end.

Usage: python -m tests.support.mirror.copy_worker SOURCE TARGET TOPIC...
"""

import asyncio
import signal
import sys

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.errors import Unreachable
from ottla_core.client.security import ClientSecurity
from ottla_mirror.copy.copier import Copier
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.map_topic import MapTopic, map_topic_name

RETRY_PAUSE_S = 0.2


def cluster_of(bootstrap: str, name: str = "copy-worker") -> AsyncCluster:
    """A cluster at HOST:PORT,…"""
    addresses = [each.rpartition(":") for each in bootstrap.split(",")]
    return AsyncCluster([(host, int(port)) for host, _, port in addresses], security=ClientSecurity(), client_id=name)


def map_topic_of(target: AsyncCluster) -> MapTopic:
    """The store of what is copied from the cluster `source`; it has to be started."""
    return MapTopic(InternalTopic(target, map_topic_name("source"), replication_factor=None))


async def partitions_of(source: AsyncCluster, topics: list[str]) -> dict[SourcePartition, str]:
    """All partitions of some topics, each to be copied into the topic of the same name."""
    found = (await source.metadata(topics)).topics
    return {
        SourcePartition(topic=name, topic_id=topic.id, partition=number): name
        for name, topic in found.items()
        for number in topic.partitions
    }


async def copy(source_at: str, target_at: str, topics: list[str]) -> None:
    """Copies until SIGTERM."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    source, target, stored_at = cluster_of(source_at), cluster_of(target_at), cluster_of(target_at)
    store = map_topic_of(stored_at)
    while True:
        try:
            await store.start()
            partitions = await partitions_of(source, topics)
            break
        except Unreachable:
            await asyncio.sleep(RETRY_PAUSE_S)  # between two attempts, until the test ends the process
    copier = Copier(source, target, store, CopySettings(save_interval_s=0.3))
    await copier.assign(partitions)
    print("copying", flush=True)
    await ended.wait()
    await copier.close()
    for cluster in (source, target, stored_at):
        await cluster.close()


if __name__ == "__main__":
    asyncio.run(copy(sys.argv[1], sys.argv[2], sys.argv[3:]))
