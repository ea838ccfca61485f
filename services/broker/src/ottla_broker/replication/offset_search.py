"""Where a follower goes on when the leader has nothing at the offset that it asks for.

Either its log has fallen out of the leader's: everything up to the leader's start was deleted there, and this
replica begins again at that start. Or its log is longer than the leader's, which was elected without being in sync
(`unclean.leader.election.enable`): it is cut at the leader's end. The leader is asked for both ends of its log.

Source: Kafka's AbstractFetcherThread.fetchOffsetAndTruncate; KIP-405 for leaders that keep part of a log elsewhere.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

import structlog
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v9.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from ottla_broker.partition import Partition
from ottla_broker.replication.truncation import cut_log, restart_log
from ottla_core.errors import CodedError, InvalidResponse

LIST_OFFSETS_KEY: Final = 2
LIST_OFFSETS_VERSION: Final = 9
LATEST: Final = -1
EARLIEST_LOCAL: Final = -4

logger = structlog.get_logger("replication")


class LeaderConnection(Protocol):
    """A connection to the leader."""

    async def ask(self, api_key: int, version: int, message: Any) -> Any:
        """Return the decoded answer to a request."""


async def find_common_offset(
    connection: LeaderConnection, partition: Partition, now_ms: Callable[[], int], is_followed: Callable[[], bool]
) -> bool:
    """Make a replica's log end where the leader's log has something, and return whether that changed it.

    Args:
        connection: to the leader.
        partition: the replica.
        now_ms: the clock.
        is_followed: whether the partition is still to be fetched from this leader; if not, nothing is changed.

    Raises:
        KafkaError: the leader refuses to say, or the disk failed.
        ConnectionLostError: the leader does not answer.
    """
    leader_epoch = partition.state.leader_epoch
    leader_end = await _ask(connection, partition, LATEST, leader_epoch)
    if not is_followed():  # its topic may be gone, and the leader epoch does not tell
        return False
    end_offset = partition.log.log_end_offset
    if leader_end < end_offset:
        await cut_log(partition, leader_end, leader_epoch=leader_epoch, end_offset=end_offset, now_ms=now_ms)
        _report("cut a log that is longer than the leader's", partition, end_offset)
        return True
    leader_start = await _ask(connection, partition, EARLIEST_LOCAL, leader_epoch)
    end_offset = partition.log.log_end_offset
    if not is_followed() or leader_start <= end_offset:
        return False
    await restart_log(partition, leader_start, leader_epoch=leader_epoch, end_offset=end_offset, now_ms=now_ms)
    _report("began a log anew that has fallen out of the leader's", partition, end_offset)
    return True


async def _ask(connection: LeaderConnection, partition: Partition, timestamp: int, leader_epoch: int) -> int:
    topic, index = partition.topic_partition
    wanted = ListOffsetsPartition(
        partition_index=i32(index), current_leader_epoch=i32(leader_epoch), timestamp=i64(timestamp)
    )
    request = ListOffsetsRequest(
        replica_id=BrokerId(partition.broker_id),
        isolation_level=i8(0),
        topics=(ListOffsetsTopic(name=TopicName(topic), partitions=(wanted,)),),
    )
    response = await connection.ask(LIST_OFFSETS_KEY, LIST_OFFSETS_VERSION, request)
    answers = [answer for answered in response.topics for answer in answered.partitions]
    if len(answers) != 1:
        raise InvalidResponse(f"asked for an offset of one partition, got those of {len(answers)}")
    if answers[0].error_code is not ErrorCode.none:
        raise CodedError(answers[0].error_code, f"the leader answered {answers[0].error_code.name}")
    if answers[0].offset < 0:
        raise InvalidResponse(f"the leader says that its log reaches to offset {answers[0].offset}")
    return int(answers[0].offset)


def _report(what: str, partition: Partition, former_end_offset: int) -> None:
    logger.warning(
        what,
        partition=str(partition.topic_partition),
        former_end_offset=former_end_offset,
        end_offset=partition.log.log_end_offset,
        leader_epoch=partition.state.leader_epoch,
    )
