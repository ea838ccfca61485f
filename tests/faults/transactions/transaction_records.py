"""What the records of the transactional load say of themselves. Pure.

Each record knows its transaction, its position among the transaction's records, and how many these are, so that
nothing else is needed to see whether a transaction is whole. A record that was made of another one names that one as
its origin.
"""

from typing import NamedTuple

from tests.faults.history import Place

_SEPARATOR = "|"
_NO_ORIGIN = "-"


class TransactionId(NamedTuple):
    """The `number`th transaction of one instance of a writer."""

    writer: str
    number: int

    def __str__(self) -> str:
        return f"{self.writer}#{self.number}"


class TransactionRecord(NamedTuple):
    """One record.

    Attributes:
        transaction: to which it belongs.
        position: its place among the records of the transaction, from 0 on.
        total: how many records the transaction has.
        origin: the record of which it was made, if it was made of any.
    """

    transaction: TransactionId
    position: int
    total: int
    origin: Place | None = None

    def __str__(self) -> str:
        return f"{self.transaction} record {self.position} of {self.total}"

    def text(self) -> str:
        """As the value of a record, and in notes."""
        origin = (
            _NO_ORIGIN if self.origin is None else f"{self.origin.topic} {self.origin.partition} {self.origin.offset}"
        )
        writer, number = self.transaction
        return _SEPARATOR.join((writer, str(number), str(self.position), str(self.total), origin))

    def encode(self, payload: bytes = b"") -> bytes:
        """The value of a record; a payload stands behind what is told."""
        return self.text().encode() + _SEPARATOR.encode() + payload


def read_record(value: str | bytes) -> TransactionRecord:
    """What a value says."""
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    writer, number, position, count, origin, *_ = value.split(_SEPARATOR, 5)
    place = None
    if origin != _NO_ORIGIN:
        topic, partition, offset = origin.split(" ")
        place = Place(topic, int(partition), int(offset))
    return TransactionRecord(TransactionId(writer, int(number)), int(position), int(count), place)
