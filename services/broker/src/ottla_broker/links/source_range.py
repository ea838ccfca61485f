"""Asking a source's broker where the log of a partition begins and ends, and where one of its leader epochs does."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v9.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from ottla_broker.links.linked_partition import LinkedPartition, SourceRange
from ottla_broker.replica.follower_replica import UNDEFINED_EPOCH
from ottla_core.errors import CodedError

EARLIEST: Final = -2
LATEST: Final = -1
Ask = Callable[[Any], Awaitable[Any]]
"""Sends a request to the broker, and returns its response."""


async def source_range(ask: Ask, linked: LinkedPartition) -> SourceRange:
    """Ask a partition's leader in the source.

    Args:
        ask: asks that broker.
        linked: the partition.

    Raises:
        KafkaError: it refuses.
        Unreachable, AuthenticationFailed, UnsupportedByBroker: it does not answer.
    """
    last_epoch = linked.partition.log.leader_epochs.latest
    epoch, epoch_end_offset = UNDEFINED_EPOCH, -1
    if last_epoch != UNDEFINED_EPOCH:
        epoch, epoch_end_offset = await _end_of_epoch(ask, linked, last_epoch)
    # The end first: what is deleted meanwhile moves the start only.
    end_offset = await _offset(ask, linked, LATEST)
    start_offset = await _offset(ask, linked, EARLIEST)
    return SourceRange(start_offset, end_offset, epoch, epoch_end_offset)


async def _offset(ask: Ask, linked: LinkedPartition, timestamp: int) -> int:
    wanted = ListOffsetsPartition(
        partition_index=i32(linked.topic_partition.partition),
        current_leader_epoch=i32(linked.source_leader_epoch),
        timestamp=i64(timestamp),
    )
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(0),
        topics=(ListOffsetsTopic(name=TopicName(linked.source_topic), partitions=(wanted,)),),
    )
    answer = (await ask(request)).topics[0].partitions[0]
    _check(answer.error_code)
    return int(answer.offset)


async def _end_of_epoch(ask: Ask, linked: LinkedPartition, epoch: int) -> tuple[int, int]:
    wanted = OffsetForLeaderPartition(
        partition=i32(linked.topic_partition.partition),
        current_leader_epoch=i32(linked.source_leader_epoch),
        leader_epoch=i32(epoch),
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=BrokerId(-1),
        topics=(OffsetForLeaderTopic(topic=TopicName(linked.source_topic), partitions=(wanted,)),),
    )
    answer = (await ask(request)).topics[0].partitions[0]
    _check(answer.error_code)
    return int(answer.leader_epoch), int(answer.end_offset)


def _check(error: ErrorCode) -> None:
    if error is not ErrorCode.none:
        raise CodedError(error, f"the source answered {error.name}")
