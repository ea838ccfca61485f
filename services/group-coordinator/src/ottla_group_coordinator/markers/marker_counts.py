"""What is counted of markers: plain integers, which metrics read when somebody asks. Pure."""

from dataclasses import dataclass


@dataclass(slots=True)
class MarkerCounts:
    """Counts since the start of the process.

    Attributes:
        written: markers that partitions have, one for each partition of a transaction.
        repeated: markers that were not written, and sent again.
        dropped: markers of partitions that are gone.
    """

    written: int = 0
    repeated: int = 0
    dropped: int = 0
