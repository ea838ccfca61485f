"""DescribeLogDirs (key 35): this broker's log directories, their disks, and the size of each partition there.

A partition that is being moved to another directory is shown in both; the copy is the one with the future key.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.log.store.log_store import DirectoryDescription
from ottla_broker.long_responses import respond_in_thread
from ottla_broker.outcome import Outcome, Parts
from ottla_core.slices import in_slices, started
from ottla_core.topic_partition import TopicPartition


def handle(broker: Broker, request: Request) -> Outcome:
    """Answer for the wanted partitions, or for all."""
    return started(_handle(broker, request))


async def _handle(broker: Broker, request: Request) -> Parts:
    wanted = _wanted_partitions(request.newest().topics)
    results, count = [], 0
    for directory in broker.store.describe():
        described = await in_slices(_described(directory, wanted))
        results.append(_result(directory, described))
        count += len(described)
    response = DescribeLogDirsResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results=tuple(results))
    return await respond_in_thread(request, response, count)


def _wanted_partitions(topics: Any) -> Mapping[str, Set[int]] | None:
    return None if topics is None else {topic.topic: set(topic.partitions) for topic in topics}


def _describe(
    name: TopicPartition, size_bytes: int, offset_lag: int, *, is_future: bool = False
) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=i32(name.partition),
        partition_size=i64(size_bytes),
        offset_lag=i64(offset_lag),
        is_future_key=is_future,
    )


def _described(
    directory: DirectoryDescription, wanted: Mapping[str, Set[int]] | None
) -> Iterator[tuple[str, DescribeLogDirsPartition]]:
    """Yield the wanted partitions of a directory, with the names of their topics."""
    for name, size_bytes in directory.partition_sizes.items():
        if _is_wanted(name, wanted):
            yield name.topic, _describe(name, size_bytes, 0)
    for name, copy in directory.futures.items():
        if _is_wanted(name, wanted):
            yield name.topic, _describe(name, copy.size_bytes, copy.offset_lag, is_future=True)


def _is_wanted(name: TopicPartition, wanted: Mapping[str, Set[int]] | None) -> bool:
    return wanted is None or name.partition in wanted.get(name.topic, ())


def _result(
    directory: DirectoryDescription, described: Iterable[tuple[str, DescribeLogDirsPartition]]
) -> DescribeLogDirsResult:
    partitions: defaultdict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for topic, partition in described:
        partitions[topic].append(partition)
    return DescribeLogDirsResult(
        error_code=ErrorCode.kafka_storage_error if directory.error else ErrorCode.none,
        log_dir=str(directory.path),
        topics=tuple(
            DescribeLogDirsTopic(name=TopicName(topic), partitions=tuple(of_topic))
            for topic, of_topic in partitions.items()
        ),
        total_bytes=i64(directory.total_bytes),
        usable_bytes=i64(directory.usable_bytes),
    )
