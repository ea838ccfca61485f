"""What the rules of groups refuse with; each error carries the code that clients understand. Pure."""

from kio.schema.errors import ErrorCode

from ottla_core.errors import KafkaError


class InvalidGroupId(KafkaError):
    """The group id is empty where a name is needed."""

    code = ErrorCode.invalid_group_id


class GroupIdNotFound(KafkaError):
    """There is no such group, or it speaks another protocol than the request."""

    code = ErrorCode.group_id_not_found


class NonEmptyGroup(KafkaError):
    """The group still has members."""

    code = ErrorCode.non_empty_group


class GroupMaxSizeReached(KafkaError):
    """The group has as many members as it may."""

    code = ErrorCode.group_max_size_reached


class UnknownMemberId(KafkaError):
    """The group has no such member."""

    code = ErrorCode.unknown_member_id


class FencedInstanceId(KafkaError):
    """Another member has taken over this `group.instance.id`."""

    code = ErrorCode.fenced_instance_id


class UnreleasedInstanceId(KafkaError):
    """The `group.instance.id` belongs to a member that is still there."""

    code = ErrorCode.unreleased_instance_id


class IllegalGeneration(KafkaError):
    """The request speaks of another generation than the present one."""

    code = ErrorCode.illegal_generation


class RebalanceInProgress(KafkaError):
    """The group is rebalancing; join again."""

    code = ErrorCode.rebalance_in_progress


class InconsistentGroupProtocol(KafkaError):
    """The member offers no protocol that the group's other members know."""

    code = ErrorCode.inconsistent_group_protocol


class InvalidSessionTimeout(KafkaError):
    """The session timeout is outside what the coordinator accepts."""

    code = ErrorCode.invalid_session_timeout


class FencedMemberEpoch(KafkaError):
    """The member's epoch is not the one that the group knows; it must join anew."""

    code = ErrorCode.fenced_member_epoch


class StaleMemberEpoch(KafkaError):
    """The member's epoch is behind; it must heartbeat to learn the present one."""

    code = ErrorCode.stale_member_epoch


class UnsupportedAssignor(KafkaError):
    """The coordinator has no assignor of this name."""

    code = ErrorCode.unsupported_assignor


class InvalidRegularExpression(KafkaError):
    """The subscription's pattern does not compile."""

    code = ErrorCode.invalid_regular_expression


class InvalidCommitOffsetSize(KafkaError):
    """A commit holds more offsets than one record batch can."""

    code = ErrorCode.invalid_commit_offset_size
