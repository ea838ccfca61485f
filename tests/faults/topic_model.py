"""What a topic with a single writer must hold, from what that writer was told. Pure.

Every value is written once, so whatever is found says when it was sent. A request that was never answered may be
carried out at any later time, also after the topic was deleted and created anew, because it names the topic and not
its id; one that was answered, with whatever error, may not.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

NOTHING_COMMITTED = -1


@dataclass(slots=True)
class PartitionModel:
    """One partition in one life of its topic.

    Attributes:
        acknowledged: the values by offset.
        doubtful: values whose request failed or was not answered.
        start: up to where records are deleted, by what was acknowledged.
        start_s: when that was acknowledged.
        start_asked: up to where they may be deleted.
        committed: the last offset whose commit was acknowledged.
        committed_perhaps: offsets whose commit failed or was not answered since.
    """

    acknowledged: dict[int, bytes] = field(default_factory=dict)
    doubtful: set[bytes] = field(default_factory=set)
    start: int = 0
    start_s: float = 0.0
    start_asked: int = 0
    committed: int = NOTHING_COMMITTED
    committed_perhaps: set[int] = field(default_factory=set)

    @property
    def end(self) -> int:
        """The offset behind the last acknowledged record: where the log ends at the earliest."""
        return max(self.acknowledged, default=-1) + 1


@dataclass(slots=True)
class TopicModel:
    """A topic over all its lives.

    Attributes:
        name: its name.
        life: how often it was created.
        exists: whether it was created and not deleted again.
        partitions: of the present life.
        unanswered: values of any life that may be stored late.
        unanswered_commits: likewise offsets.
        unanswered_start: likewise up to where records may be deleted.
    """

    name: str
    life: int = 0
    exists: bool = False
    partitions: list[PartitionModel] = field(default_factory=list)
    unanswered: set[bytes] = field(default_factory=set)
    unanswered_commits: set[int] = field(default_factory=set)
    unanswered_start: int = 0
    _written: int = 0

    def begin_life(self, partitions: int) -> None:
        """It was created: empty, and nobody has committed anything."""
        self.life += 1
        self.exists = True
        self.partitions = [PartitionModel() for _ in range(partitions)]

    def end_life(self) -> None:
        """It was deleted."""
        self.exists = False
        self.partitions = []

    def new_values(self, count: int) -> list[bytes]:
        """Values that were never written."""
        first = self._written
        self._written += count
        return [b"%s life %d value %d" % (self.name.encode(), self.life, first + each) for each in range(count)]

    def content_problems(
        self, index: int, begins_at: int, ends_at: int, found: Sequence[tuple[int, bytes | None]]
    ) -> Iterator[str]:
        """What is wrong with a partition that was read from its beginning to its end.

        Args:
            index: of the partition.
            begins_at: its first offset.
            ends_at: the offset behind its last record.
            found: offsets and values.
        """
        where = f"{self.name}-{index} in its life {self.life}"
        model = self.partitions[index]
        if begins_at > (asked := max(model.start_asked, self.unanswered_start)):
            yield f"{where} begins at {begins_at}; nobody deleted more than what is below {asked}"
        if ends_at < model.end:
            yield f"{where} ends at {ends_at}, below {model.end}, which was acknowledged"
        at_offset = dict(found)
        if [offset for offset, _ in found] != sorted(at_offset):
            yield f"{where} is out of order: {[offset for offset, _ in found]}"
        for offset, written in model.acknowledged.items():
            if offset >= max(begins_at, model.start_asked) and at_offset.get(offset) != written:
                there = at_offset.get(offset)
                yield f"lost: {written!r}, acknowledged in {where} at {offset}; {there!r} stands there"
        for offset, value in found:
            if offset not in model.acknowledged and value not in model.doubtful | self.unanswered:
                yield f"{where} has {value!r} at {offset}, which nobody wrote in this life"

    def offset_problems(self, index: int, told: int, broker: int) -> Iterator[str]:
        """What is wrong with a committed offset as a broker tells it."""
        model = self.partitions[index]
        allowed = {model.committed, *model.committed_perhaps, *self.unanswered_commits}
        if told not in allowed:
            yield (
                f"broker {broker} says that {told} is committed for {self.name}-{index} in its life {self.life};"
                f" that is one of {sorted(allowed)}"
            )


def start_problems(model: PartitionModel, begins_at: int, crashes_s: Iterable[float], durable_s: float) -> str | None:
    """Whether deleted records are back: a log's start may be forgotten if two brokers crash right after a deletion.

    Brokers write down where their logs start from time to time, as Kafka's do, so a crash of all that are left may
    cost a deletion that was acknowledged just before.
    """
    if begins_at >= model.start:
        return None
    soon = sum(model.start_s <= crash_s <= model.start_s + durable_s for crash_s in crashes_s)
    if soon >= 2:
        return None
    return f"begins at {begins_at} again, below {model.start}, up to where records were deleted"
