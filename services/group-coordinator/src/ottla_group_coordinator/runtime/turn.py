"""One turn of a shard: an event comes in; records to store and answers to give go out.

The records of a turn are stored together or not at all, and none of its answers leaves before they are stored.
What an answer tells is therefore always safe. An answer is given to a *token*: the shell's name for a request that
waits. A request may be answered in a later turn than its own (a JoinGroup waits for the other members).
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kio.static.protocol import Entity

from ottla_core.wire.group_responses import OFFSET_FETCH
from ottla_core.wire.messages import message_codec
from ottla_group_coordinator.records import RecordKey, RecordValue

Token = Hashable


class CoordinatorRecord(NamedTuple):
    """A record of ``__consumer_offsets``; no value is a tombstone."""

    key: RecordKey
    value: RecordValue | None


class Answer(NamedTuple):
    """A response for the request that waits under `token`; a message of any version of its class."""

    token: Token
    response: Entity


@dataclass(slots=True, kw_only=True)  # frozen ones cost a microsecond more to make, and one is made per request
class GroupRequest:
    """A client's request.

    Attributes:
        token: whom to answer.
        message: kio's class of the version that was sent.
        only_forward: of an OffsetCommit, that no offset goes back: what is not behind the present one counts as
            stored.
        sets_all_back: of an OffsetCommit, that it is for all groups of the shard; see `offsets.setting_back`.
    """

    token: Token
    api_key: int
    api_version: int
    client_id: str
    client_host: str
    message: Any
    only_forward: bool = False
    sets_all_back: bool = False

    @property
    def tells_what_is_stored(self) -> bool:
        """Whether the answer would be wrong if another owner of the shard had stored something since."""
        return self.api_key == OFFSET_FETCH or self.sets_all_back

    def newest(self) -> Any:
        """Return the message in kio's newest class; what the version lacks takes the schema's defaults.

        Where versions differ in more than fields (OffsetCommit and OffsetFetch of topic ids, OffsetFetch and
        LeaveGroup of one group or member), handlers look at `message` itself.
        """
        return message_codec(self.api_key, self.api_version).upgrade_request(self.message)


class Rebalance(NamedTuple):
    """A rebalance that counts from this turn on; how long it took in milliseconds is known in classic groups only."""

    protocol: str
    took_ms: int | None


@dataclass(slots=True)
class Turn:
    """What comes of one event.

    Attributes:
        now_ms: when it happens, as deadlines are counted.
        timestamp_ms: when it happens in milliseconds since the epoch, as records say; see `shard_time`.
        rebalances: of classic groups those that are complete, of consumer groups those that begin.
    """

    now_ms: int
    timestamp_ms: int
    records: list[CoordinatorRecord] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    rebalances: tuple[Rebalance, ...] = ()

    def answer(self, token: Token, response: Entity) -> None:
        """Answer a waiting request."""
        self.answers.append(Answer(token, response))
