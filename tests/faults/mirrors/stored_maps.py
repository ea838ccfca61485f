"""The maps of offsets that workers have stored at the target, read as a worker would that takes over."""

import asyncio
from collections.abc import Iterable

from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.offsets.map_topic import MapTopic, map_topic_name
from ottla_mirror.offsets.offset_map import OffsetMap
from tests.faults.topics import SOURCE
from tests.support.clients.client_cluster import opened_cluster


def read_maps(bootstrap: str, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], OffsetMap]:
    """The maps of those partitions of which there is one."""
    return asyncio.run(_read(bootstrap, list(partitions)))


async def _read(bootstrap: str, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], OffsetMap]:
    async with opened_cluster(bootstrap) as cluster:
        maps = MapTopic(InternalTopic(cluster, map_topic_name(SOURCE), replication_factor=None))
        await maps.start()
        copies = {partition: maps.copy(*partition) for partition in partitions}
    return {partition: copy.map for partition, copy in copies.items() if copy is not None}
