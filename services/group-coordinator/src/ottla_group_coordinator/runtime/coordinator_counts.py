"""What a coordinator counts while it works: plain integers, which metrics read when somebody asks. Pure."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class CoordinatorCounts:
    """Counts since the start of the process.

    Attributes:
        requests: requests of clients, by API key.
        refused: requests that were refused before any rule was asked, by the name of the error.
        appends: rounds whose records were stored.
        append_batches: batches that these took.
        append_bytes: their size.
        append_s: time from sending a round's records to knowing that they are stored.
        append_timeouts: rounds that were not stored within `offsets.commit.timeout.ms`.
        loads: shards that were loaded.
        load_s: time that took, the waiting for others included.
        loaded_records: records that were replayed.
        unreadable_records: records that were passed over because they are damaged.
        failures: shards that had to be loaded again because of a bug.
    """

    requests: Counter[int] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    appends: int = 0
    append_batches: int = 0
    append_bytes: int = 0
    append_s: float = 0.0
    append_timeouts: int = 0
    loads: int = 0
    load_s: float = 0.0
    loaded_records: int = 0
    unreadable_records: int = 0
    failures: int = 0
