"""DescribeLogDirs (key 35): this broker's log directories, their disks, and the size of each partition there.

A partition that is being moved to another directory is shown in both; the copy is the one with the future key.
"""

from collections import defaultdict
from collections.abc import Mapping, Set
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
from ottla_broker.connection import Parts
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.log.log_store import DirectoryDescription
from ottla_core.topic_partition import TopicPartition


def handle(broker: Broker, request: Request) -> Parts:
    """Answer for the wanted partitions, or for all."""
    wanted = _wanted_partitions(request.newest().topics)
    results = tuple(_encode(directory, wanted) for directory in broker.store.describe())
    return request.respond(
        DescribeLogDirsResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results=results)
    )


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


def _encode(directory: DirectoryDescription, wanted: Mapping[str, Set[int]] | None) -> DescribeLogDirsResult:
    partitions: defaultdict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    held = [(name, _describe(name, size_bytes, 0)) for name, size_bytes in directory.partition_sizes.items()]
    copies = [
        (name, _describe(name, copy.size_bytes, copy.offset_lag, is_future=True))
        for name, copy in directory.futures.items()
    ]
    for name, described in (*held, *copies):
        if wanted is None or name.partition in wanted.get(name.topic, ()):
            partitions[name.topic].append(described)
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
