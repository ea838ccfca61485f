"""OffsetFetch: how far groups have come.

Since version 8 several groups can be asked for at once, each with an error of its own; since version 10 topics are
named by id. What has not been committed is answered with the offset -1 and no error. All that is told is stored.
Where stable offsets are required (KIP-447), one that a transaction is about to change has an error, upon which
consumers come again: who goes on from the present one would consume again what the transaction has consumed.

Source: `KafkaApis.handleOffsetFetchRequest` and `OffsetMetadataManager.fetchOffsets` in Kafka.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from ottla_core.errors import KafkaError
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.group_responses import OFFSET_FETCH
from ottla_group_coordinator.errors import GroupIdNotFound
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.handlers.offset_commit import find_topic
from ottla_group_coordinator.offset_table import NO_OFFSETS
from ottla_group_coordinator.offsets.topic_identity import is_of_former_topic
from ottla_group_coordinator.records import OffsetCommitValue
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

FIRST_WITH_GROUPS = 8
FIRST_WITH_TOPIC_IDS = 10
NO_OFFSET = -1
NO_MEMBER_EPOCH = -1


Offsets = Mapping[tuple[str, int], OffsetCommitValue]


class _ResponseTypes(NamedTuple):
    """kio's classes of one version; `group` is the response's own before there could be several."""

    response: type[Entity]
    group: type[Entity]
    topic: type[Entity]
    partition: type[Entity]


class _Fetch(NamedTuple):
    """What is looked at for one group."""

    shard: ShardState
    group_id: str
    types: _ResponseTypes
    unstable: Collection[tuple[str, int]]


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Answer with the offsets of one group or of several."""
    types = _response_types(request.api_version)
    if request.api_version < FIRST_WITH_GROUPS:
        is_stable = getattr(request.message, "require_stable", False)
        turn.answer(request.token, _group_response(shard, request.message, types, require_stable=is_stable))
        return
    groups = []
    for asked in request.message.groups:
        try:
            require_stable = request.message.require_stable
            groups.append(_group_response(shard, asked, types, require_stable=require_stable))
        except KafkaError as error:
            groups.append(message_of(types.group, group_id=asked.group_id, error_code=error.code))
    turn.answer(request.token, message_of(types.response, groups=tuple(groups)))


def _group_response(shard: ShardState, asked: Any, types: _ResponseTypes, *, require_stable: bool) -> Entity:
    unstable = shard.pending_offsets.of_group(asked.group_id) if require_stable else ()
    fetch = _Fetch(shard, asked.group_id, types, unstable)
    is_known = _check_group(shard, asked)
    topics = _all_topics(fetch, is_known) if asked.topics is None else _topics(fetch, is_known, asked.topics)
    return message_of(types.group, group_id=asked.group_id, topics=tuple(topics))


def _check_group(shard: ShardState, asked: Any) -> bool:
    """Return whether there is such a group.

    Raises:
        KafkaError: the group tells its offsets only to members, and the request is not from one; or it is going.
    """
    shard.check_not_being_deleted(asked.group_id)
    group = shard.groups.get(asked.group_id)
    if group is None:
        return False
    try:
        group.check_offset_fetch(getattr(asked, "member_id", None), getattr(asked, "member_epoch", NO_MEMBER_EPOCH))
    except GroupIdNotFound:
        return False
    return True


def _topics(fetch: _Fetch, is_known: bool, asked_topics: Iterable[Any]) -> Iterator[Entity]:
    offsets = fetch.shard.offsets.of_group(fetch.group_id) if is_known else NO_OFFSETS
    for asked in asked_topics:
        topic_id: UUID | None = getattr(asked, "topic_id", None)
        topic_name: str | None = getattr(asked, "name", None)
        code = ErrorCode.none
        if fetch.types.topic.__version__ >= FIRST_WITH_TOPIC_IDS:
            topic = find_topic(fetch.shard.cluster_state, asked)
            topic_name = None if topic is None else topic.name
            code = ErrorCode.unknown_topic_id if topic is None else ErrorCode.none
        partitions = []
        for index in asked.partition_indexes:
            value = None if topic_name is None else _committed(fetch, offsets, topic_name, index)
            is_unstable = (topic_name, index) in fetch.unstable
            partitions.append(
                _unstable(fetch.types, index) if is_unstable else _partition(fetch.types, index, value, code)
            )
        yield message_of(fetch.types.topic, name=topic_name, topic_id=topic_id, partitions=tuple(partitions))


def _committed(fetch: _Fetch, offsets: Offsets, topic_name: str, index: int) -> OffsetCommitValue | None:
    value = offsets.get((topic_name, index))
    is_former = value is not None and is_of_former_topic(fetch.shard.cluster_state, topic_name, value)
    return None if is_former else value


def _all_topics(fetch: _Fetch, is_known: bool) -> Iterator[Entity]:
    """Yield all topics with offsets; where they are named by id, those that have none are left out."""
    if not is_known:
        return
    state = fetch.shard.cluster_state
    by_id = fetch.types.topic.__version__ >= FIRST_WITH_TOPIC_IDS
    by_topic: dict[str, list[tuple[int, OffsetCommitValue]]] = {}
    for (name, index), value in fetch.shard.offsets.of_group(fetch.group_id).items():
        by_topic.setdefault(name, []).append((index, value))
    for name, committed in by_topic.items():
        topic_id = state.topics[name].id if by_id and name in state.topics else None
        if by_id and topic_id is None:
            continue
        partitions = tuple(
            _unstable(fetch.types, index)
            if (name, index) in fetch.unstable
            else _partition(fetch.types, index, value, ErrorCode.none)
            for index, value in committed
            if not is_of_former_topic(state, name, value)
        )
        if partitions:
            yield message_of(fetch.types.topic, name=name, topic_id=topic_id, partitions=partitions)


def _unstable(types: _ResponseTypes, index: int) -> Entity:
    return _partition(types, index, None, ErrorCode.unstable_offset_commit)


def _partition(types: _ResponseTypes, index: int, value: OffsetCommitValue | None, code: ErrorCode) -> Entity:
    if value is None:
        return message_of(
            types.partition, partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
        )
    return message_of(
        types.partition,
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=code,
    )


@cache
def _response_types(api_version: int) -> _ResponseTypes:
    response = load_response_schema(OFFSET_FETCH, api_version)
    group = item_type(response, "groups") if api_version >= FIRST_WITH_GROUPS else response
    topic = item_type(group, "topics")
    return _ResponseTypes(response, group, topic, item_type(topic, "partitions"))
