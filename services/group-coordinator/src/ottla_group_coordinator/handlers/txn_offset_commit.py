"""TxnOffsetCommit: a transactional producer stores how far it has consumed, to count when its transaction commits.

The first request of a transaction is answered with a guard: the broker has the transaction's coordinator confirm
that it will end the transaction in this shard, too, and asks again. What the guard stands for is looked at in the
turn that writes, so nothing can come between.

Topics and partitions that do not exist are refused before anything else, as for OffsetCommit. Members are checked
(KIP-447) if the request names one; other than for OffsetCommit, a group that rebalances takes the offsets.

Source: `KafkaApis.handleTxnOffsetCommitRequest`, `OffsetMetadataManager.commitTransactionalOffset` and
`CoordinatorRuntime.scheduleTransactionalWriteOperation` in Kafka.
"""

from typing import Any

from kio.schema.errors import ErrorCode

from ottla_core.errors import KafkaError
from ottla_core.wire.transaction_responses import TXN_OFFSET_COMMIT
from ottla_group_coordinator.errors import IllegalGeneration, InvalidGroupId, StaleMemberEpoch
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.handlers.offset_commit import (
    Commit,
    check_group_id,
    commit_of,
    existence,
    find_topic,
    metadata_error,
    response_writer,
    size_bytes_max,
)
from ottla_group_coordinator.offsets.transactions import write_in_transaction
from ottla_group_coordinator.records.offset_commit import NO_TIMESTAMP
from ottla_group_coordinator.runtime.turn import TransactionProducer, Turn, VerificationGuard
from ottla_group_coordinator.shard_state import ShardState

NO_GENERATION = -1


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Store the offsets that may be stored as pending ones, and answer; or answer with a guard.

    Raises:
        InvalidGroupId: the group has no name.
    """
    message = request.message
    if not message.group_id:
        raise InvalidGroupId("offsets are committed for a group with a name")
    topics = [(topic, find_topic(shard.cluster_state, topic)) for topic in message.topics]
    refusal = ErrorCode.none
    producer = TransactionProducer(message.producer_id, message.producer_epoch)
    if any(not existence(topic, partition) for asked, topic in topics for partition in asked.partitions):
        producers = shard.transaction_producers
        if not producers.is_open(producer) and not producers.is_verified(producer, request.verification_guard):
            turn.answer(request.token, VerificationGuard(producers.begin_verification(producer)))
            return
        refusal = _refusal(shard, message, producer, request.api_version, turn.now_ms)
    commits: list[Commit] = []
    codes: list[list[ErrorCode]] = []
    for asked, topic in topics:
        codes.append([])
        for partition in asked.partitions:
            code = existence(topic, partition) or refusal or metadata_error(shard, partition.committed_metadata)
            codes[-1].append(code)
            if code is ErrorCode.none:
                assert topic is not None
                commits.append(commit_of(message.group_id, topic, partition, turn.timestamp_ms, NO_TIMESTAMP))
    if size_bytes_max(commits) > shard.settings.batch_bytes_max:
        commits.clear()
        codes = [[code or ErrorCode.invalid_commit_offset_size for code in of_topic] for of_topic in codes]
    for key, value in commits:
        write_in_transaction(shard, turn, producer, key, value)
    turn.answer(request.token, response_writer(TXN_OFFSET_COMMIT, request.api_version)(message, codes))


def _refusal(
    shard: ShardState, message: Any, producer: TransactionProducer, api_version: int, now_ms: int
) -> ErrorCode:
    try:
        _check_group(shard, message, api_version, now_ms)
        shard.transaction_producers.check_records(producer)
    except StaleMemberEpoch:
        return ErrorCode.illegal_generation  # which transactional producers know
    except KafkaError as error:
        return error.code
    return ErrorCode.none


def _check_group(shard: ShardState, message: Any, api_version: int, now_ms: int) -> None:
    """See that the group takes the offsets; any id is a group's where no generation is named."""
    check_group_id(message.group_id)
    group = shard.groups.get(message.group_id)
    generation_or_epoch = getattr(message, "generation_id", NO_GENERATION)
    if group is not None:
        group.check_commit(
            getattr(message, "member_id", ""),
            getattr(message, "group_instance_id", None),
            generation_or_epoch,
            api_version,
            now_ms,
            in_transaction=True,
        )
    elif generation_or_epoch >= 0:
        raise IllegalGeneration
