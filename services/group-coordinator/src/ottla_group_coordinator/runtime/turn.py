"""One turn of a shard: an event comes in; records to store and answers to give go out. Pure.

The records of a turn are stored together or not at all, and none of its answers leaves before they are stored.
What an answer tells is therefore always safe. An answer is given to a *token*: the shell's name for a request that
waits. A request may be answered in a later turn than its own (a JoinGroup waits for the other members).

The records of a turn may belong to a producer's transaction, which goes on over many turns. They count once a later
turn has ended it by a marker that commits.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from kio.static.protocol import Entity

from ottla_core.wire.control_records import TransactionMarker

Token = Hashable


class CoordinatorRecord(NamedTuple):
    """A record of a shard, of the types that its `RecordFormat` knows; no value is a tombstone."""

    key: Any
    value: Any | None


class TransactionProducer(NamedTuple):
    """Whose transaction records belong to."""

    id: int
    epoch: int


class VerificationGuard(NamedTuple):
    """In place of a response: the broker is to ask again with it once it has asked the transaction's coordinator."""

    number: int


class Answer(NamedTuple):
    """A response for the request that waits under `token`: a message of any version of its class.

    A request of the process itself may have anything for a response.
    """

    token: Token
    response: Any


class CoordinatorRequest(Protocol):
    """A client's request; each kind of coordinator has a class of its own, which says what else it needs.

    Attributes:
        token: whom to answer.
        message: kio's class of the version that was sent.
    """

    token: Token
    api_key: int
    api_version: int
    message: Any

    @property
    def tells_what_is_stored(self) -> bool:
        """Whether the answer would be wrong if another owner of the shard had stored something since."""


@dataclass(slots=True)
class Turn:
    """What comes of one event.

    Attributes:
        now_ms: when it happens, as deadlines are counted.
        timestamp_ms: when it happens in milliseconds since the epoch, as records say; see `shard_time`.
        counted: what is to be counted once the turn is stored, such as a rebalance.
        effects: what else is to be done once it is stored, in the words of the kind of state machine.
        transaction: the producer of the transaction that all `records` belong to, or None if they count at once.
        tells_what_is_stored: as of a `CoordinatorRequest`, where a request of a former turn is answered.
        markers: the ends of transactions; a turn that has any has no records.
    """

    now_ms: int
    timestamp_ms: int
    records: list[CoordinatorRecord] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    counted: tuple[Any, ...] = ()
    effects: list[Any] = field(default_factory=list)
    transaction: TransactionProducer | None = None
    tells_what_is_stored: bool = False
    markers: list[TransactionMarker] = field(default_factory=list)

    def answer(self, token: Token, response: Entity | VerificationGuard | int) -> None:
        """Answer a waiting request."""
        self.answers.append(Answer(token, response))
