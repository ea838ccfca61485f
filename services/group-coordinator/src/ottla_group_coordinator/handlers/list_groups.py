"""ListGroups: the groups of this shard.

`shard_listing` puts the answers of this process's shards together, a broker those of all coordinators.

Source: `GroupMetadataManager.listGroups` in Kafka.
"""

from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse
from kio.schema.types import GroupId

from ottla_core.wire.conversion import message_of
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Answer with the groups in the states and of the types asked for, in any case of letters; empty means any.

    A state or a type that does not exist is no error; no group has it.
    """
    message: ListGroupsRequest = request.newest()
    states = {state.lower().strip() for state in message.states_filter}
    types = {type_.lower() for type_ in message.types_filter}
    groups = tuple(
        ListedGroup(
            group_id=GroupId(group.group_id),
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.type.value,
        )
        for group in shard.groups.values()
        if (not states or group.state_name.lower() in states) and (not types or group.type.value in types)
    )
    turn.answer(request.token, message_of(ListGroupsResponse, groups=groups))
