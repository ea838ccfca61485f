"""DeleteGroups: an administrator removes groups that have no members, with their offsets.

Offsets of open transactions go, too; the transactions go on without them.

A group may have more offsets than can be removed in one turn. Then the rest follows in later turns and the request
is answered in the last. Nobody can use the group meanwhile: a consumer that came back would miss some of its offsets.

Should the coordinator end before the last turn, what is left is a group without members and with fewer offsets. The
client has no answer then, or one that tells it to ask the next coordinator, where the same request removes the rest.

Source: `GroupCoordinatorShard.deleteGroups` in Kafka.
"""

from dataclasses import dataclass

from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId

from ottla_core.errors import KafkaError
from ottla_core.wire.conversion import message_of
from ottla_group_coordinator.errors import GroupIdNotFound
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.offsets.expiry import NEXT_TURN_MS
from ottla_group_coordinator.offsets.tombstones import Tombstones
from ottla_group_coordinator.runtime.turn import Token, Turn
from ottla_group_coordinator.shard_state import ShardState


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Remove the groups, or begin to."""
    group_ids = tuple(dict.fromkeys(request.message.groups_names))
    GroupDeletion(request.token, group_ids, ()).expire(shard, turn)


@dataclass(frozen=True, slots=True, eq=False)
class GroupDeletion:
    """The next part of a request is due.

    Attributes:
        group_ids: all that are to be removed.
        codes: what became of the first of them; the others are still to be looked at.
    """

    token: Token
    group_ids: tuple[GroupId, ...]
    codes: tuple[ErrorCode, ...]

    def expire(self, shard: ShardState, turn: Turn) -> None:
        """Remove what fits into this turn, and answer when nothing is left."""
        tombstones = Tombstones(shard, turn)
        codes = list(self.codes)
        for group_id in self.group_ids[len(codes) :]:
            code = _delete(shard, tombstones, group_id)
            if code is None:
                shard.groups_being_deleted.add(group_id)
                rest = GroupDeletion(self.token, self.group_ids, tuple(codes))
                shard.timers.set(rest, turn.now_ms + NEXT_TURN_MS)
                return
            shard.groups_being_deleted.discard(group_id)
            codes.append(code)
        results = tuple(
            DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id, code in zip(self.group_ids, codes, strict=True)
        )
        turn.answer(self.token, message_of(DeleteGroupsResponse, results=results))


def _delete(shard: ShardState, tombstones: Tombstones, group_id: str) -> ErrorCode | None:
    """Remove a group; return what came of it, or None if there was no room for all of it."""
    group = shard.groups.get(group_id)
    if group is None and group_id in shard.groups_being_deleted:
        return ErrorCode.none  # another request has finished it, or its last offsets have expired
    try:
        if group is None:
            raise GroupIdNotFound(f"there is no group {group_id}")
        group.check_deletable()
    except KafkaError as error:
        return error.code
    offsets, pending = shard.offsets.of_group(group_id), shard.pending_offsets.of_group(group_id)
    if not tombstones.remove_offsets(group_id, tuple(dict.fromkeys((*offsets, *pending)))):
        return None
    return ErrorCode.none if tombstones.remove_group(group) else None
