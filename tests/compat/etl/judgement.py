"""What became of the records that an ETL was given: which were lost, which came twice, and why.

The sink's records say which reading of which worker they come from; the workers' notes say when each partition was
assigned, read and committed. A repeat is *explained* if its partition had been assigned before any commit beyond the
record was acknowledged: the record's commit was refused, came too late, or was not asked for yet. A record that is
read again though its commit was acknowledged before, or twice under one assignment, or that stands twice in the sink
though it was read once, is *unexplained*: a defect of the cluster or of the client.
"""

import bisect
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

NOT_COMMITTED = "not committed yet"
LIBRDKAFKA = "KafkaError{code="
LATE = "its commit was acknowledged only after the partition had been assigned anew"


class Origin(NamedTuple):
    """A record of the source."""

    partition: int
    offset: int


class Copy(NamedTuple):
    """A record of the sink: which reading of which worker it comes from."""

    worker: str
    reading: int
    origin: Origin
    value: str

    @classmethod
    def parse(cls, text: str) -> "Copy":
        worker, reading, partition, offset, value = text.split(" ", 4)
        return cls(worker, int(reading), Origin(int(partition), int(offset)), value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A partition that was assigned to a worker at a time."""

    worker: str
    partition: int
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a worker asked the group to remember of a partition, and the outcome.

    Attributes:
        granted_s: when it was acknowledged; None if it was not.
        refusal: the client's words, where it was refused.
    """

    worker: str
    partition: int
    offset: int
    asked_s: float
    granted_s: float | None = None
    refusal: str | None = None


@dataclass(slots=True)
class History:
    """What the workers of one group noted.

    Attributes:
        claims: in the order of time; a new client of a worker begins with none.
        commits: in no order.
        read_s: when each reading of each worker was noted.
        published_s: when a batch had been written, in the order of time.
        failures: what clients could not cope with.
    """

    claims: list[Claim] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    read_s: dict[tuple[str, int], float] = field(default_factory=dict)
    published_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def assignments(self) -> int:
        """How often a worker was told of partitions, at their times."""
        return len({(claim.worker, claim.since_s) for claim in self.claims})

    @property
    def refusals(self) -> Counter[str]:
        """Commits that were refused, by the first words of the refusal."""
        return Counter(_kind(each.refusal) for each in self.commits if each.refusal is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of all records.

    Attributes:
        records: of the source.
        lost: those of the source that are not in the sink.
        wrong: of the sink, with another value than they should have.
        explained: how many records came once more, by the reason.
        unexplained: a sentence for each.
        longest_pause_s: the longest time in which no worker of the group finished writing a batch.
    """

    records: int
    lost: tuple[Origin, ...]
    wrong: tuple[Copy, ...]
    explained: Mapping[str, int]
    unexplained: tuple[str, ...]
    longest_pause_s: float


def history_of(notes: Mapping[str, Iterable[str]]) -> History:
    """What workers noted, by their names, each a sequence of JSON lines."""
    history = History()
    for worker, lines in notes.items():
        _take(history, worker, [json.loads(line) for line in lines])
    history.claims.sort(key=lambda claim: claim.since_s)
    history.published_s.sort()
    return history


def judged(source: Mapping[Origin, str], sink: Sequence[str], history: History) -> Verdict:
    """Judge a finished run.

    Args:
        source: every record's value.
        sink: the values of all records, in any order.
        history: what the workers noted.
    """
    copies: dict[Origin, list[Copy]] = defaultdict(list)
    for text in sink:
        copy = Copy.parse(text)
        copies[copy.origin].append(copy)
    explained: Counter[str] = Counter()
    unexplained: list[str] = []
    for origin, those in sorted(copies.items()):
        if len(those) > 1:
            _explain(origin, those, history, explained, unexplained)
    return Verdict(
        records=len(source),
        lost=tuple(sorted(source.keys() - copies.keys())),
        wrong=tuple(
            copy for those in copies.values() for copy in those if copy.value != source.get(copy.origin, "").upper()
        ),
        explained=explained,
        unexplained=tuple(unexplained),
        longest_pause_s=max((later - earlier for earlier, later in pairwise(history.published_s)), default=0.0),
    )


def _take(history: History, worker: str, events: list[dict[str, Any]]) -> None:
    asked_s = 0.0
    for event in events:
        at_s = event["at_s"]
        match event["event"]:
            case "assigned":
                history.claims += [Claim(worker=worker, partition=each, since_s=at_s) for each in event["partitions"]]
            case "read":
                history.read_s[worker, event["reading"]] = at_s
            case "published":
                history.published_s.append(at_s)
            case "commit asked":
                asked_s = at_s
            case "committed" | "commit refused" as outcome:
                granted_s = at_s if outcome == "committed" else None
                history.commits += [
                    Commit(
                        worker=worker,
                        partition=int(partition),
                        offset=offset,
                        asked_s=asked_s,
                        granted_s=granted_s,
                        refusal=event.get("error"),
                    )
                    for partition, offset in event["offsets"].items()
                ]
            case "failed":
                history.failures.append(f"{worker}: {event['error']}")


def _explain(
    origin: Origin, copies: list[Copy], history: History, explained: Counter[str], unexplained: list[str]
) -> None:
    """Say of every copy but the first why it is there."""
    by_reading = Counter((copy.worker, copy.reading) for copy in copies)
    unexplained += [
        f"{origin}: stands {count} times in the sink, of one reading by {worker}"
        for (worker, _), count in by_reading.items()
        if count > 1
    ]
    claimed: set[Claim | None] = set()
    for worker, reading in sorted(by_reading, key=lambda each: history.read_s[each]):
        claim = _claim_of(history, worker, origin.partition, history.read_s[worker, reading])
        if claim in claimed:
            unexplained.append(f"{origin}: {worker} read it twice under one assignment")
        elif claimed:
            _explain_reading(origin, claim, history, explained, unexplained)
        claimed.add(claim)


def _explain_reading(
    origin: Origin, claim: Claim | None, history: History, explained: Counter[str], unexplained: list[str]
) -> None:
    if claim is None:
        unexplained.append(f"{origin}: was read by a worker to which its partition was not assigned")
        return
    covering = [
        each
        for each in history.commits
        if each.partition == origin.partition and each.offset > origin.offset and each.asked_s < claim.since_s
    ]
    before = [each for each in covering if each.granted_s is not None and each.granted_s <= claim.since_s]
    refusals = [each.refusal for each in covering if each.refusal is not None]
    if before:
        first = before[0]
        unexplained.append(
            f"{origin}: {claim.worker} was given the partition at {claim.since_s:.3f} and read it "
            f"though {first.worker} had got {first.offset} acknowledged at {first.granted_s:.3f}"
        )
    elif refusals:
        explained[_kind(refusals[0])] += 1
    else:
        explained[LATE if covering else NOT_COMMITTED] += 1


def _claim_of(history: History, worker: str, partition: int, at_s: float) -> Claim | None:
    """The last assignment of a partition to a worker before a time."""
    until = bisect.bisect_right(history.claims, at_s, key=lambda claim: claim.since_s)
    mine = (each for each in reversed(history.claims[:until]) if (each.worker, each.partition) == (worker, partition))
    return next(mine, None)


def _kind(refusal: str | None) -> str:
    """A refusal without what differs from case to case."""
    text = refusal or ""
    if LIBRDKAFKA in text:
        return text.partition(LIBRDKAFKA)[2].partition(",")[0]
    return text.partition(":")[0].rpartition(".")[2]
