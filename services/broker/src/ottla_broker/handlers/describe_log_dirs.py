"""DescribeLogDirs (key 35): this broker's log directories, their disks, and the size of each partition there."""

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

NO_LAG = i64(0)


def handle(broker: Broker, request: Request) -> Parts:
    """Answer for the wanted partitions, or for all."""
    wanted = _wanted_partitions(request.newest().topics)
    results = tuple(_encode(directory, wanted) for directory in broker.store.describe())
    return request.respond(
        DescribeLogDirsResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results=results)
    )


def _wanted_partitions(topics: Any) -> Mapping[str, Set[int]] | None:
    return None if topics is None else {topic.topic: set(topic.partitions) for topic in topics}


def _encode(directory: DirectoryDescription, wanted: Mapping[str, Set[int]] | None) -> DescribeLogDirsResult:
    partitions: defaultdict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for name, size_bytes in directory.partition_sizes.items():
        if wanted is None or name.partition in wanted.get(name.topic, ()):
            partitions[name.topic].append(
                DescribeLogDirsPartition(
                    partition_index=i32(name.partition),
                    partition_size=i64(size_bytes),
                    offset_lag=NO_LAG,
                    is_future_key=False,
                )
            )
    return DescribeLogDirsResult(
        error_code=ErrorCode.kafka_storage_error if directory.error else ErrorCode.none,
        log_dir=str(directory.path),
        topics=tuple(
            DescribeLogDirsTopic(name=TopicName(topic), partitions=tuple(described))
            for topic, described in partitions.items()
        ),
        total_bytes=i64(directory.total_bytes),
        usable_bytes=i64(directory.usable_bytes),
    )
