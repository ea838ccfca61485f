"""What a shard of transactions is asked: by clients, and by the process itself about markers."""

from dataclasses import dataclass, field
from typing import Any

from ottla_core.wire.messages import message_codec
from ottla_group_coordinator.runtime.turn import Token
from ottla_group_coordinator.transactions.transaction import Identity

MARKERS_WRITTEN = -1
NUMBER_WANTED = -2
"""In place of an API's key: requests of the process itself."""


@dataclass(slots=True, kw_only=True)
class TransactionRequest:
    """A client's request, or a broker's.

    Attributes:
        token: whom to answer.
        message: kio's class of the version that was sent.
        fresh_producer_id: a producer id that nobody has, for the shard to give away; None if none came along.
        may_wait: whether the shard may answer it later, when the id's last transaction is complete.
        tells_what_is_stored: every answer would be wrong if another owner of the shard had stored something since:
            what an epoch is compared with, whether a partition is in a transaction, whether a transaction has ended.
    """

    token: Token
    api_key: int
    api_version: int
    client_id: str
    message: Any
    fresh_producer_id: int | None = None
    may_wait: bool = field(default=True, init=False)
    tells_what_is_stored: bool = field(default=True, init=False)

    def newest(self) -> Any:
        """Return the message in kio's newest class; AddPartitionsToTxn differs by version in more than fields."""
        return message_codec(self.api_key, self.api_version).upgrade_request(self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfTransaction:
    """Which end of which transaction is meant.

    Attributes:
        identity: what the markers bear; up to transaction version 1 the next transaction may have the same.
        serial: a number that no other end has which this shard has sent markers of. It begins with the ownership
            number, so that it is never that of an end from before the shard was loaded.
    """

    transactional_id: str
    identity: Identity
    serial: tuple[int, int]


@dataclass(slots=True, kw_only=True)
class MarkersWritten:
    """Every partition has its marker, or is gone. Answered with whether the transaction is complete by that."""

    token: Token
    message: EndOfTransaction
    api_key: int = field(default=MARKERS_WRITTEN, init=False)
    api_version: int = field(default=0, init=False)
    tells_what_is_stored: bool = field(default=False, init=False)


@dataclass(slots=True, kw_only=True)
class NumberWanted:
    """Markers need at least this ownership number. Answered with one that is stored, which may be later still.

    The one before may have been refused by a log that has seen a later one; or a marker with it may still be on its
    way although nobody waits for it any more.
    """

    token: Token
    message: int
    api_key: int = field(default=NUMBER_WANTED, init=False)
    api_version: int = field(default=0, init=False)
    tells_what_is_stored: bool = field(default=False, init=False)
