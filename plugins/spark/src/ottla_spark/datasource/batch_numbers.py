"""The number of the batch that a query has written last, and what follows from it. Pure.

Each batch that is written exactly once is one transaction, and in it is a record with the batch's number. The records
are in a compacted topic of one partition, under the transactional id of the query. So whoever begins with a batch
learns whether it is written already, whatever has happened to those who tried before.

A number alone says little where a checkpoint was put back to an earlier state: the query plans another batch of the
same number then. So records also tell batches by their offsets, where the writer knows them.
"""

import json
from dataclasses import dataclass
from enum import Enum

from ottla_sdk import FatalError

VERSION = 1

TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(8 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}
"""Of the topic of numbers: it is read from its beginning, so it has to stay short."""


class NumbersUnusable(FatalError):
    """What is known of a query's batches does not fit the batch that is to be written."""


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """A batch that was committed.

    Attributes:
        number: which one.
        record_count: how many records it had.
        offsets: what tells the offsets that it was planned with from others; empty if they are not known.
    """

    number: int
    record_count: int
    offsets: str = ""

    def to_value(self) -> bytes:
        """Return the value of its record."""
        document = {"version": VERSION, "batch": self.number, "records": self.record_count}
        return json.dumps(document | ({"offsets": self.offsets} if self.offsets else {})).encode()

    @classmethod
    def from_value(cls, value: bytes, place: str) -> "WrittenBatch":
        """Return what a record says.

        Args:
            value: the record's.
            place: where it is, for the message.

        Raises:
            NumbersUnusable: it is none of these, or of a later version.
        """
        try:
            document = json.loads(value)
            version = document["version"]
            found = cls(int(document["batch"]), int(document["records"]), str(document.get("offsets", "")))
        except (ValueError, TypeError, KeyError):
            raise NumbersUnusable(f"{place} has a record that is no number of a batch: {value[:80]!r}") from None
        if version != VERSION:
            raise NumbersUnusable(f"{place} has a record of version {version}; this release reads {VERSION}")
        return found


class Step(Enum):
    """What is to be done with a batch."""

    WRITE = "it is not written yet"
    SKIP = "it is written already"


def next_step(last: WrittenBatch | None, number: int, *, since: int, place: str, offsets: str = "") -> Step:
    """Return what is to be done with a batch.

    Args:
        last: the last one that was committed, as read after everybody who could have written before was shut out.
        number: of the batch.
        since: the first batch that was written exactly once.
        place: where the numbers are, for the message.
        offsets: what tells the batch's offsets from others; empty if they are not known.

    Raises:
        NumbersUnusable: another batch of the number or a later one is written, or numbers are missing: this one may
            be written or not.
    """
    if last is not None and last.number == number:
        if offsets and last.offsets and offsets != last.offsets:
            raise NumbersUnusable(
                f"this is batch {number}, and {place} says that a batch of this number is written, but of other "
                "offsets: the query's checkpoint was put back to an earlier state, or copied. What is written may "
                "lack rows of this batch; bring the later checkpoint back, or begin in another folder"
            )
        return Step.SKIP
    if last is not None and last.number > number:
        raise NumbersUnusable(
            f"this is batch {number}, and {place} says that batch {last.number} is written: another run of the query "
            "has gone on, or its checkpoint was put back to an earlier state"
        )
    if number > since and (last is None or last.number < number - 1):
        known = "no batch" if last is None else f"batch {last.number}"
        raise NumbersUnusable(
            f"this is batch {number}, and {place} says that {known} is the last one written: numbers are missing, so "
            "it is not known whether this batch is written. If the topic was deleted, or the query wrote at least "
            f"once until now, look at what is in the target and write the option exactlyOnceSince={number}; with a "
            "connector, let it run once with delivery.guarantee=at-least-once"
        )
    return Step.WRITE
