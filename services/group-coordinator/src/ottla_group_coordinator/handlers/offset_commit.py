"""OffsetCommit: members, and others where a group has no members, store how far they have come.

Each partition has its own error. Topics and partitions that do not exist are refused before the group is asked;
what the group refuses, it refuses for all partitions that exist. Version 10 names topics by id.

Source: `KafkaApis.handleOffsetCommitRequest` and `OffsetMetadataManager.commitOffset` in Kafka.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from ottla_core.cluster.state.model import ClusterState, Topic
from ottla_core.errors import KafkaError
from ottla_core.wire.conversion import default_values, field_setters, item_type
from ottla_core.wire.group_responses import OFFSET_COMMIT
from ottla_core.wire.record_batch import HEADER_SIZE_BYTES
from ottla_group_coordinator.errors import GroupIdNotFound, IllegalGeneration, InvalidGroupId
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.offsets.setting_back import set_groups_back
from ottla_group_coordinator.offsets.topic_identity import is_of_former_topic
from ottla_group_coordinator.records import NO_UUID, OffsetCommitKey, OffsetCommitValue
from ottla_group_coordinator.records.field_codec import STRING_BYTES_MAX
from ottla_group_coordinator.records.offset_commit import (
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    make_key,
    make_value,
    record_bytes_max,
)
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

FIRST_WITH_GROUP_ID_NOT_FOUND = 9
FIRST_WITH_TOPIC_IDS = 10

STORED_AGAIN_AFTER_MS = 60 * 60 * 1000

_MILLISECOND = timedelta(milliseconds=1)
_NO_RETENTION_MS = -1

Commit = tuple[OffsetCommitKey, OffsetCommitValue]


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Store the offsets that may be stored, and answer."""
    message = request.message
    topics = [(topic, find_topic(shard.cluster_state, topic)) for topic in message.topics]
    if request.sets_all_back:
        _set_all_back(shard, request, topics, turn)
        return
    refusal = ErrorCode.none
    if any(
        existence(topic, partition) is ErrorCode.none for asked, topic in topics for partition in asked.partitions
    ):
        refusal = _refusal(shard, request, turn.now_ms)
    expire_timestamp = _expire_timestamp(message, turn.timestamp_ms)
    commits: list[Commit] = []
    codes: list[list[ErrorCode]] = []
    for asked, topic in topics:
        codes.append([])
        for partition in asked.partitions:
            code = existence(topic, partition) or refusal or metadata_error(shard, partition.committed_metadata)
            codes[-1].append(code)
            if code is ErrorCode.none:
                assert topic is not None
                if request.only_forward and _is_stored(shard, message.group_id, topic, partition, turn.timestamp_ms):
                    continue
                commits.append(commit_of(message.group_id, topic, partition, turn.timestamp_ms, expire_timestamp))
    if size_bytes_max(commits) > shard.settings.batch_bytes_max:
        commits.clear()
        codes = [[code or ErrorCode.invalid_commit_offset_size for code in of_topic] for of_topic in codes]
    for key, value in commits:
        shard.write(turn, key, value)
    turn.answer(request.token, response_writer(OFFSET_COMMIT, request.api_version)(request.message, codes))


def _set_all_back(
    shard: ShardState, request: GroupRequest, topics: "list[tuple[Any, Topic | None]]", turn: Turn
) -> None:
    """Set all groups back as far as this turn has room; who asks is told to come again if that was not all.

    Who asks no longer leads where a later leader epoch is known: another leader may have cut already, and groups
    have read on. A request that is late is refused for the same reason.
    """
    codes = [[_set_back_refusal(topic, each) for each in asked.partitions] for asked, topic in topics]
    ends = {
        (topic.name, partition.partition_index): partition.committed_offset
        for asked, topic in topics
        for partition in asked.partitions
        if topic is not None and _set_back_refusal(topic, partition) is ErrorCode.none
    }
    if not set_groups_back(shard, turn, ends):
        codes = [[code or ErrorCode.request_timed_out for code in of_topic] for of_topic in codes]
    turn.answer(request.token, response_writer(OFFSET_COMMIT, request.api_version)(request.message, codes))


def find_topic(state: ClusterState, asked: Any) -> Topic | None:
    """Return the topic that a request names, or names by id."""
    if hasattr(asked, "name"):
        return state.topics.get(asked.name)
    topic_id: UUID | None = asked.topic_id
    return None if topic_id is None else state.topics_by_id.get(topic_id)


def existence(topic: Topic | None, partition: Any) -> ErrorCode:
    """Return why nothing can be committed for a partition that a request names: there is none."""
    if topic is None:
        by_id = partition.__api_key__ == OFFSET_COMMIT and partition.__version__ >= FIRST_WITH_TOPIC_IDS
        return ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    if not 0 <= partition.partition_index < len(topic.partitions):
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.none


def _set_back_refusal(topic: Topic | None, partition: Any) -> ErrorCode:
    code = existence(topic, partition)
    if topic is None or code is not ErrorCode.none:
        return code
    is_later = topic.partitions[partition.partition_index].leader_epoch > partition.committed_leader_epoch
    return ErrorCode.fenced_leader_epoch if is_later else ErrorCode.none


def _refusal(shard: ShardState, request: GroupRequest, now_ms: int) -> ErrorCode:
    try:
        _check_group(shard, request.message, request.api_version, now_ms)
    except KafkaError as error:
        return error.code
    return ErrorCode.none


def _check_group(shard: ShardState, message: Any, api_version: int, now_ms: int) -> None:
    """See that the group takes the commit; any id is a group's where no member is named."""
    check_group_id(message.group_id)
    group = shard.groups.get(message.group_id)
    generation_or_epoch = message.generation_id_or_member_epoch
    if group is not None:
        instance_id = getattr(message, "group_instance_id", None)
        group.check_commit(message.member_id, instance_id, generation_or_epoch, api_version, now_ms)
    elif generation_or_epoch >= 0:
        raise GroupIdNotFound if api_version >= FIRST_WITH_GROUP_ID_NOT_FOUND else IllegalGeneration


def check_group_id(group_id: str) -> None:
    """See that a group's name fits into records.

    Raises:
        InvalidGroupId: it is too long.
    """
    if len(group_id.encode()) > STRING_BYTES_MAX:
        raise InvalidGroupId(f"a group id has at most {STRING_BYTES_MAX} bytes")


def _is_stored(shard: ShardState, group_id: str, topic: Topic, partition: Any, timestamp_ms: int) -> bool:
    """Return whether a group is not behind an offset that may only take it forward.

    The same offset is stored again now and then: who alone stores a group's offsets keeps them from expiring.
    """
    present = shard.offsets.of_group(group_id).get((topic.name, partition.partition_index))
    if present is None or is_of_former_topic(shard.cluster_state, topic.name, present):
        return False
    if present.offset != partition.committed_offset:
        return bool(present.offset > partition.committed_offset)
    age_ms = timestamp_ms - present.commit_timestamp
    return age_ms < min(STORED_AGAIN_AFTER_MS, shard.settings.offsets_retention_ms // 2)


def metadata_error(shard: ShardState, metadata: str | None) -> ErrorCode:
    """Return why the text beside an offset is refused."""
    length_bytes = len((metadata or "").encode())
    if length_bytes > min(shard.settings.offset_metadata_max_bytes, STRING_BYTES_MAX):
        return ErrorCode.offset_metadata_too_large
    return ErrorCode.none


def _expire_timestamp(message: Any, timestamp_ms: int) -> int:
    """Return when offsets expire by the client's wish, which only old versions can express."""
    retention: timedelta | None = getattr(message, "retention_time", None)
    if retention is None or retention // _MILLISECOND == _NO_RETENTION_MS:
        return NO_TIMESTAMP
    return timestamp_ms + retention // _MILLISECOND


def commit_of(group_id: str, topic: Topic, partition: Any, timestamp_ms: int, expire_timestamp: int) -> Commit:
    """Return the record; one that expires has, in the log, neither a leader epoch nor a topic id."""
    expires = expire_timestamp != NO_TIMESTAMP
    return (
        make_key(group_id, topic.name, partition.partition_index),
        make_value(
            partition.committed_offset,
            NO_LEADER_EPOCH if expires else getattr(partition, "committed_leader_epoch", NO_LEADER_EPOCH),
            partition.committed_metadata or "",
            timestamp_ms,
            expire_timestamp,
            NO_UUID if expires else topic.id,
        ),
    )


def size_bytes_max(commits: list[Commit]) -> int:
    """Return how many bytes a record batch of commits has at most."""
    return HEADER_SIZE_BYTES + sum(record_bytes_max(key.group, key.topic, value.metadata) for key, value in commits)


@cache
def response_writer(api_key: int, api_version: int) -> Callable[[Any, list[list[ErrorCode]]], Entity]:
    """Return what makes the responses to commits, from the request and the code of each partition.

    The class's generated `__init__`s would take three times as long.
    """
    response_type: Any = load_response_schema(api_key, api_version)
    topic_type: Any = item_type(response_type, "topics")
    partition_type: Any = item_type(topic_type, "partitions")
    nothing = {name: value for name, value in default_values(response_type).items() if name != "topics"}
    named_by = "topic_id" if api_key == OFFSET_COMMIT and api_version >= FIRST_WITH_TOPIC_IDS else "name"
    set_topics = field_setters(response_type)["topics"]
    set_default = tuple((field_setters(response_type)[name], value) for name, value in nothing.items())
    set_topic, set_partitions = (field_setters(topic_type)[name] for name in (named_by, "partitions"))
    set_index, set_code = (field_setters(partition_type)[name] for name in ("partition_index", "error_code"))

    def topic_of(asked: Any, of_topic: list[ErrorCode]) -> Any:
        partitions = []
        for each, code in zip(asked.partitions, of_topic, strict=True):
            partition = partition_type.__new__(partition_type)
            set_index(partition, each.partition_index)
            set_code(partition, code)
            partitions.append(partition)
        topic = topic_type.__new__(topic_type)
        set_topic(topic, getattr(asked, named_by))
        set_partitions(topic, tuple(partitions))
        return topic

    def response_of(message: Any, codes: list[list[ErrorCode]]) -> Entity:
        response: Entity = response_type.__new__(response_type)
        for set_field, value in set_default:
            set_field(response, value)
        set_topics(response, tuple(map(topic_of, message.topics, codes)))
        return response

    return response_of
