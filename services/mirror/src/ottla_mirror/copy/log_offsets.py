"""Where the logs of partitions begin and end, asked of their leaders for many at once (ListOffsets)."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.wire.conversion import message_of

EARLIEST: Final = -2
LATEST: Final = -1
TIMEOUT_S: Final = 15.0

Partition = tuple[str, int]
"""A topic's name and a partition's number."""


async def list_offsets(
    cluster: AsyncCluster, leaders: Mapping[Partition, int], timestamp: int
) -> dict[Partition, int | str]:
    """Return the offset of each partition, or why it is not known.

    Args:
        cluster: whom to ask.
        leaders: the partitions, with the broker to ask.
        timestamp: `EARLIEST` or `LATEST`, which is the high watermark.
    """
    by_leader: dict[int, list[Partition]] = {}
    for partition, leader in leaders.items():
        by_leader.setdefault(leader, []).append(partition)
    asked = [_ask(cluster, leader, partitions, timestamp) for leader, partitions in by_leader.items()]
    found: dict[Partition, int | str] = {}
    for answer in await asyncio.gather(*asked):
        found.update(answer)
    return found


async def _ask(
    cluster: AsyncCluster, leader: int, partitions: Collection[Partition], timestamp: int
) -> dict[Partition, int | str]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    request = message_of(
        ListOffsetsRequest,
        replica_id=-1,
        isolation_level=0,
        topics=tuple(
            message_of(
                ListOffsetsTopic,
                name=topic,
                partitions=tuple(
                    message_of(
                        ListOffsetsPartition, partition_index=number, current_leader_epoch=-1, timestamp=timestamp
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in topics.items()
        ),
    )
    try:
        response = await cluster.ask_broker(leader, request, timeout_s=TIMEOUT_S)
    except (Unreachable, AuthenticationFailed, UnsupportedByBroker) as error:
        return dict.fromkeys(partitions, str(error))
    found: dict[Partition, int | str] = dict.fromkeys(partitions, "the broker does not say it")
    for topic in response.topics:
        for each in topic.partitions:
            is_known = each.error_code is ErrorCode.none
            found[topic.name, int(each.partition_index)] = int(each.offset) if is_known else each.error_code.name
    return found
