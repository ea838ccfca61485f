"""Random histories of a sink task: rebalances, leases, pauses, seeks, failures; no record is ever missed.

The target keeps what it is given in a buffer until `pre_commit`. So an offset may be committed only when all records
before it are out of the buffer; a target that keeps its own offsets has its task seek there at each assignment. In
the end nothing fails any more, and all records must be in the target. A failure shows its history; the seed is the
test's number.
"""

import random

import pytest

from ottla_connect.task.sink.actions import (
    CommitOffsets,
    Convert,
    OpenPartitions,
    Pause,
    PreCommit,
    Put,
    Read,
    Resume,
    Seek,
)
from ottla_sdk import TopicPartition
from tests.unit.connect.task.sink.sink_scene import ScriptedMessage, SinkScene, named, partition, valued

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0))
LOG_END = 12
TURNS_MAX = 60
QUIET_TURNS = 60


class Simulation(SinkScene):
    """A scene with a log, a consumer, a group that stores offsets, and a target."""

    def __init__(self, seed: int, *, keeps_offsets: bool) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.keeps_offsets = keeps_offsets
        self.quiet = False
        self.subscribed = True
        self.position: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.stored_offsets = dict.fromkeys(PARTITIONS, 0)
        self.buffered: dict[TopicPartition, set[int]] = {each: set() for each in PARTITIONS}
        self.written: dict[TopicPartition, set[int]] = {each: set() for each in PARTITIONS}
        self.unanswered: list[tuple[CommitOffsets, bool]] = []

    def happens(self, probability: float) -> bool:
        return not self.quiet and self.chance.random() < probability

    def play(self) -> None:
        paused = False
        for _ in range(self.chance.randint(10, TURNS_MAX)):
            paused ^= self.happens(0.1)
            self.leased = self.happens(0.5) or (self.leased and not self.happens(0.1))
            self.on_turn("unleased" if not self.leased else "paused" if paused else "")
        self.quiet = self.leased = True
        for _ in range(QUIET_TURNS):
            self.now_s += 10.0
            self.on_resume(*map(name, PARTITIONS))
            self.on_request_commit()
            self.on_turn()
        assert self.written == {each: set(range(LOG_END)) for each in PARTITIONS}
        assert self.keeps_offsets or self.stored_offsets == dict.fromkeys(PARTITIONS, LOG_END)

    # The consumer and its group.

    def on_turn(self, kind: str = "") -> None:
        self.subscribed = kind != "unleased"
        super().on_turn(kind)

    def read(self, action: Read) -> None:
        self.now_s += self.chance.choice((0.0, 0.1, action.timeout_s, 1.0, 6.0))
        self.answer_commit()
        self.rebalance()
        self.messages = [
            *filter(None, (self.next_message() for _ in range(self.chance.randint(0, action.count_max))))
        ]
        super().read(action)

    def next_message(self) -> ScriptedMessage | None:
        # Some messages are on their way already when their partition is paused.
        found = [each for each in sorted(self.machine.assignment) if each not in self.paused or self.happens(0.1)]
        found = [each for each in found if self.position[each] < LOG_END]
        if not found:
            return None
        place = self.chance.choice(found)
        self.position[place] += 1
        return ScriptedMessage(place, self.position[place] - 1)

    def rebalance(self) -> None:
        assigned = sorted(self.machine.assignment)
        if gone := [each for each in assigned if not self.subscribed or self.happens(0.05)]:
            (self.on_lose if self.chance.random() < 0.3 else self.on_revoke)(*map(name, gone))
            for each in gone:
                self.buffered[each].clear()
        missing = [each for each in PARTITIONS if each not in assigned]
        if new := [each for each in missing if self.subscribed and (self.quiet or self.happens(0.3))]:
            self.on_assign(*map(name, new))

    def on_assign(self, *words: str) -> None:
        super().on_assign(*words)
        for each in map(partition, words):
            self.position[each] = self.begun.get(each, self.stored_offsets[each])
            self.paused.discard(each)
            if self.machine.must_pause(each):
                self.paused.add(each)

    def only_show(self, action) -> None:
        super().only_show(action)
        match action:
            case Pause():
                self.paused.update(action.partitions)
            case Resume():
                self.paused.difference_update(action.partitions)
            case Seek():
                self.position.update(action.offsets)

    def commit(self, action: CommitOffsets) -> None:
        assert self.leased, "nothing is committed without a lease"
        fails = self.happens(0.1)
        if not fails:
            self.store(action)
        if not action.wait:
            self.unanswered.append((action, fails))
        elif fails:
            self.on_refuse()
        super().commit(action)

    def store(self, action: CommitOffsets) -> None:
        for place, offset in action.offsets.items():
            missed = set(range(offset)) - self.written[place]
            assert self.keeps_offsets or not missed, f"{valued({place: offset})} is committed, not written: {missed}"
            self.stored_offsets[place] = offset

    def answer_commit(self) -> None:
        if self.unanswered and (self.quiet or self.happens(0.4)):
            action, fails = self.unanswered.pop(0)
            if fails:
                self.on_commit_failed()
            else:
                self.on_committed(*valued(action.offsets).split())

    # The task and its target.

    def asks(self) -> None:
        """Something that a task may ask for at any time."""
        if self.happens(0.1):
            self.ask_again(self.chance.choice(PARTITIONS))
        if self.happens(0.05):
            self.on_pause(name(self.chance.choice(PARTITIONS)))
        if self.happens(0.1):
            self.on_resume(name(self.chance.choice(PARTITIONS)))
        if self.happens(0.2):
            self.on_request_commit()
        if self.happens(0.03):
            self.leased = False

    def ask_again(self, place: TopicPartition) -> None:
        """Records that are written count as not written any more: they must come again."""
        if place in self.machine.assignment:
            first = 0 if self.keeps_offsets else self.stored_offsets[place]
            offset = self.chance.randint(min(first, self.written_end(place)), self.written_end(place))
            for offsets in (self.buffered, self.written):
                offsets[place] = {each for each in offsets[place] if each < offset}
            self.on_seek(f"{name(place)}={offset}")
            self.lines.append(f"seek {name(place)}={offset}")

    def written_end(self, place: TopicPartition) -> int:
        return next(each for each in range(LOG_END + 1) if each not in self.written[place])

    def open(self, action: OpenPartitions) -> None:
        super().open(action)
        if self.keeps_offsets:
            self.on_seek(*(f"{name(each)}={self.written_end(each)}" for each in action.partitions))
        self.asks()

    def convert(self, action: Convert) -> None:
        self.leased &= not self.happens(0.05)
        super().convert(action)

    def put(self, action: Put) -> None:
        assert self.leased, "nothing is put without a lease"
        for each in action.records:
            assert each.origin in self.machine.assignment, f"{each.origin} is not assigned"
        if self.happens(0.15):
            self.on_fail("put")
        else:
            for each in action.records:
                self.buffered[each.origin].add(each.offset)
            self.asks()
        super().put(action)

    def pre_commit(self, action: PreCommit) -> None:
        self.allowed = {}
        for place, offered in action.offered.items():
            offset = offered if self.quiet else self.chance.randint(min(self.stored_offsets[place], offered), offered)
            self.allowed[place] = offset
        if self.happens(0.15):
            self.on_fail("pre_commit")
            for place in action.partitions:
                self.buffered[place].clear()
        else:
            for place, offset in self.allowed.items():
                ready = {each for each in self.buffered[place] if each < offset}
                self.written[place] |= ready
                self.buffered[place] -= ready
            self.asks()
        super().pre_commit(action)


def name(place: TopicPartition) -> str:
    return named([place])


@pytest.mark.parametrize("keeps_offsets", [False, True], ids=["committed_offsets", "own_offsets"])
@pytest.mark.parametrize("seed", range(150))
def test_no_record_is_missed_whatever_happens(seed: int, keeps_offsets: bool) -> None:
    simulation = Simulation(seed, keeps_offsets=keeps_offsets)
    try:
        simulation.play()
    except AssertionError:
        print(*simulation.lines, sep="\n")
        raise
