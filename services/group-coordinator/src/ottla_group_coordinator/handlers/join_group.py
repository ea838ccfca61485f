"""JoinGroup: become a member, or stay one in the next generation; answered when all have joined."""

from datetime import timedelta

from kio.schema.join_group.v9.request import JoinGroupRequest

from ottla_core.errors import InvalidRequest
from ottla_group_coordinator.classic.join import Joining, join
from ottla_group_coordinator.classic.member import MemberProtocol, ParkedRequest
from ottla_group_coordinator.consumer import classic_members
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.errors import InvalidGroupId, InvalidSessionTimeout
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.records.field_codec import STRING_BYTES_MAX
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.settings import GroupSettings
from ottla_group_coordinator.shard_state import ShardState

MILLISECOND = timedelta(milliseconds=1)
UUID_LENGTH = 36


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Take a JoinGroup; it is answered now or when the group's members have joined."""
    joining = read(request, shard.settings)
    group = shard.groups.get(joining.group_id)
    if isinstance(group, ConsumerGroup) and not group.is_empty:
        classic_members.join(shard, turn, group, joining)
    else:
        join(shard, turn, joining)


def read(request: GroupRequest, settings: GroupSettings) -> Joining:
    """Return what a JoinGroup says.

    Raises:
        InvalidGroupId, InvalidSessionTimeout, InvalidRequest: it says what it must not.
    """
    message: JoinGroupRequest = request.newest()
    if not message.group_id:
        raise InvalidGroupId("a group that has members needs a name")
    session_timeout_ms = message.session_timeout // MILLISECOND
    if not settings.min_session_timeout_ms <= session_timeout_ms <= settings.max_session_timeout_ms:
        raise InvalidSessionTimeout(
            f"a session timeout of {session_timeout_ms} ms is not between {settings.min_session_timeout_ms} and "
            f"{settings.max_session_timeout_ms} ms"
        )
    rebalance_timeout_ms = message.rebalance_timeout // MILLISECOND
    joining = Joining(
        parked=ParkedRequest(request.token, request.api_version),
        group_id=message.group_id,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=session_timeout_ms,
        # Version 0 has no such field.
        rebalance_timeout_ms=rebalance_timeout_ms if rebalance_timeout_ms >= 0 else session_timeout_ms,
        protocol_type=message.protocol_type,
        protocols=_without_repetitions(message),
    )
    _check_lengths(joining)
    return joining


def _without_repetitions(message: JoinGroupRequest) -> tuple[MemberProtocol, ...]:
    by_name: dict[str, bytes] = {}
    for protocol in message.protocols:
        by_name.setdefault(protocol.name, protocol.metadata)
    return tuple(MemberProtocol(name, metadata) for name, metadata in by_name.items())


def _check_lengths(joining: Joining) -> None:
    """See that all that ends up in the group's record can be written there."""
    longest = max(
        len(text.encode()) + extra
        for text, extra in (
            (joining.group_id, 0),
            (joining.instance_id or joining.client_id, 1 + UUID_LENGTH),  # the member's id to be
            (joining.protocol_type, 0),
            *((protocol.name, 0) for protocol in joining.protocols),
        )
    )
    if longest > STRING_BYTES_MAX:
        raise InvalidRequest(f"a name of {longest} bytes is longer than {STRING_BYTES_MAX}")
