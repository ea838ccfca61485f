"""DeleteRecords (key 21): move a partition's log start offset forward, on every live replica.

The followers hear of it with their next fetch. The answer waits for those that are alive or in sync, so that no
election brings back what was deleted, and names the smallest start offset over them. A broker whose registration has
ended stays in sync, and may be elected once it is back, until the controller has removed it.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Outcome, Parts
from ottla_broker.partition import Partition
from ottla_core.errors import InvalidTopic, KafkaError, OffsetOutOfRange, PolicyViolation, RequestTimedOut
from ottla_core.shards import INTERNAL_TOPICS

HIGH_WATERMARK = -1
UNKNOWN = -1
LOOK_AGAIN_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class _Deleted:
    """A partition whose log starts at `offset` here."""

    partition: Partition
    offset: int

    def low_watermark(self, broker: Broker) -> int:
        """Return the smallest start offset over the replicas that are alive or in sync.

        Raises:
            NotLeaderOrFollower: this broker leads no longer.
        """
        leader = self.partition.leader
        if leader is None:
            raise self.partition.not_leader()
        others = (
            progress.log_start_offset
            for broker_id, progress in leader.followers.items()
            if broker_id in broker.state.brokers or broker_id in self.partition.state.isr
        )
        return min((self.partition.log.log_start_offset, *others))


_Outcome = _Deleted | KafkaError
_Outcomes = list[tuple[str, list[tuple[int, _Outcome]]]]


def handle(broker: Broker, request: Request) -> Outcome:
    """Delete here at once, and answer when the live followers have deleted as well or the time is up."""
    message = request.newest()
    outcomes = [
        (topic.name, [(wanted.partition_index, _delete(broker, topic.name, wanted)) for wanted in topic.partitions])
        for topic in message.topics
    ]
    deleted = [each for _, partitions in outcomes for _, each in partitions if isinstance(each, _Deleted)]
    if all(_is_everywhere(broker, each) for each in deleted):
        return _answer(broker, request, outcomes)
    return _answer_later(broker, request, outcomes, deleted, message.timeout.total_seconds() - request.elapsed_s)


def _delete(broker: Broker, topic: str, wanted: Any) -> _Outcome:
    try:
        if topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"records of the internal topic {topic} cannot be deleted")
        partition = broker.partitions.leader_of(topic, wanted.partition_index)
        partition.check_takes_writes()
        log = partition.log
        if log.config.cleanup_policy == {"compact"}:
            raise PolicyViolation(
                f"{partition.topic_partition} has cleanup.policy=compact, so its records are deleted by key only"
            )
        offset = log.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= log.high_watermark:
            raise OffsetOutOfRange(f"{partition.topic_partition} ends at {log.high_watermark}, before {offset}")
        start_offset = log.delete_records_before(offset)
    except KafkaError as refused:
        return refused
    partition.tell_change()
    return _Deleted(partition, start_offset)


def _is_everywhere(broker: Broker, deleted: _Deleted) -> bool:
    """Return whether there is nothing to wait for."""
    return deleted.partition.leader is None or deleted.low_watermark(broker) >= deleted.offset


async def _answer_later(
    broker: Broker, request: Request, outcomes: _Outcomes, deleted: list[_Deleted], timeout_s: float
) -> Parts:
    try:
        async with asyncio.timeout(timeout_s):
            # That a follower has moved its start is told to nobody, and nothing is worth a subscription here.
            while not all(_is_everywhere(broker, each) for each in deleted):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
    except TimeoutError:
        pass  # the partitions that are not done are answered so
    return _answer(broker, request, outcomes)


def _answer(broker: Broker, request: Request, outcomes: _Outcomes) -> Parts:
    topics = tuple(
        DeleteRecordsTopicResult(
            name=TopicName(topic),
            partitions=tuple(_result(broker, index, outcome) for index, outcome in partitions),
        )
        for topic, partitions in outcomes
    )
    return request.respond(DeleteRecordsResponse(throttle_time=NO_THROTTLE, topics=topics))


def _result(broker: Broker, index: int, outcome: _Outcome) -> DeleteRecordsPartitionResult:
    error, low_watermark = ErrorCode.none, UNKNOWN
    try:
        if isinstance(outcome, KafkaError):
            raise outcome
        low_watermark = outcome.low_watermark(broker)
        if low_watermark < outcome.offset:
            raise RequestTimedOut(f"not every replica of {outcome.partition.topic_partition} has deleted in time")
    except KafkaError as refused:
        error = refused.code
    return DeleteRecordsPartitionResult(
        partition_index=i32(index), low_watermark=i64(low_watermark), error_code=error
    )
