"""A client's request about groups, as the rules take it. Pure."""

from dataclasses import dataclass
from typing import Any

from ottla_core.wire.group_responses import DELETE_GROUPS, OFFSET_DELETE, OFFSET_FETCH
from ottla_core.wire.messages import message_codec
from ottla_core.wire.transaction_responses import WRITE_TXN_MARKERS
from ottla_group_coordinator.runtime.turn import Token

_TELL_WHAT_IS_STORED = frozenset({OFFSET_FETCH, WRITE_TXN_MARKERS, OFFSET_DELETE, DELETE_GROUPS})
"""Reads, and changes of which the answer may be that there is nothing to change."""


@dataclass(slots=True, kw_only=True)  # frozen ones cost a microsecond more to make, and one is made per request
class GroupRequest:
    """A client's request.

    Attributes:
        token: whom to answer.
        message: kio's class of the version that was sent.
        only_forward: of an OffsetCommit, that no offset goes back: what is not behind the present one counts as
            stored.
        sets_all_back: of an OffsetCommit, that it is for all groups of the shard; see `offsets.setting_back`.
        visible_topics: of a ConsumerGroupHeartbeat, the topics that the member may describe among those that its
            regular expression matches; None where it may describe all, or has none.
        verification_guard: of a TxnOffsetCommit, the guard that the shard has answered before, or None.
        partition: of a WriteTxnMarkers, the partition that the shard is.
    """

    token: Token
    api_key: int
    api_version: int
    client_id: str
    client_host: str
    message: Any
    only_forward: bool = False
    sets_all_back: bool = False
    visible_topics: frozenset[str] | None = None
    verification_guard: int | None = None
    partition: int | None = None

    @property
    def tells_what_is_stored(self) -> bool:
        """Whether the answer would be wrong if another owner of the shard had stored something since."""
        return self.api_key in _TELL_WHAT_IS_STORED or self.sets_all_back or self.only_forward

    def newest(self) -> Any:
        """Return the message in kio's newest class; what the version lacks takes the schema's defaults.

        Where versions differ in more than fields (OffsetCommit and OffsetFetch of topic ids, OffsetFetch and
        LeaveGroup of one group or member), handlers look at `message` itself.
        """
        return message_codec(self.api_key, self.api_version).upgrade_request(self.message)
