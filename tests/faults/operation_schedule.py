"""What operators do in a trial, drawn from its seed: the same seed always gives the same operations. Pure.

Operations come one after the other and overlap, independent of the faults, so that each meets a cluster in any state.
Two rules keep to what Kafka's guarantee covers: a partition never has fewer replicas than `min.insync.replicas`, and
that is not lowered to one where a broker loses data, which could be the only one that has a record.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tests.faults.fault import BROKER, OPERATIONS, Fault, Kind, Members, id_of

FIRST_OPERATION_S = 1.0
PAUSE_S = (0.5, 4.0)
REPLICAS_MIN = 2
BIG_TOPIC_PARTITIONS = (50, 150, 400)
LIVES = 3
"""How many topics of an operator's own there may be."""

DURATIONS_S: dict[Kind, tuple[float, float]] = {
    Kind.REASSIGN: (0.0, 8.0),
    Kind.CANCEL: (0.0, 3.0),
    Kind.SHUFFLE: (0.0, 2.0),
    Kind.FACTOR: (1.0, 8.0),
    Kind.BIG_TOPIC: (0.0, 10.0),
    Kind.SETTINGS: (1.0, 8.0),
    Kind.ELECT: (1.0, 4.0),
    Kind.LIFE: (5.0, 20.0),
}
WEIGHTS: dict[Kind, int] = {
    Kind.REASSIGN: 6,
    Kind.CANCEL: 3,
    Kind.SHUFFLE: 2,
    Kind.FACTOR: 3,
    Kind.BIG_TOPIC: 1,
    Kind.SETTINGS: 4,
    Kind.ELECT: 2,
    Kind.LIFE: 5,
}
SETTINGS = (
    "min.insync.replicas=1",
    "min.insync.replicas=3",
    "segment.bytes=131072",
    "segment.ms=1000",
    "index.interval.bytes=64",
    "flush.messages=1",
    "compression.type=zstd",
    "compression.type=uncompressed",
    "message.timestamp.type=LogAppendTime",
    "retention.ms=604800000",
    "leader.replication.throttled.replicas=*",
)
RISKY_BESIDE_LOSSES = frozenset({"min.insync.replicas=1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operated:
    """What operators work on.

    Attributes:
        topics: of the load.
        partitions: how many each of them has.
        factor: how many replicas each partition has.
        unclean_topic: whose leaders may be elected outside the in-sync set now and then; its records may be lost.
    """

    topics: Sequence[str]
    partitions: int
    factor: int
    unclean_topic: str | None = None


def draw_operations(
    seed: int, members: Members, operated: Operated, *, seconds: float, kinds: Collection[Kind], losses: bool
) -> Iterator[Fault]:
    """Yields the operations of a seed in the order of their beginning.

    Args:
        seed: decides everything.
        members: which processes there are.
        operated: what there is to work on.
        seconds: when the last one must have begun to be undone.
        kinds: what may be done.
        losses: whether a broker loses data in this trial.
    """
    choices = [kind for kind in Kind if kind in kinds and kind in OPERATIONS]
    if not choices:
        return
    chance = random.Random(f"operations of {seed}")
    begin_s = FIRST_OPERATION_S
    number = 0
    while begin_s < seconds - 1:
        kind = chance.choices(choices, [WEIGHTS[choice] for choice in choices])[0]
        until_s = min(begin_s + chance.uniform(*DURATIONS_S[kind]), seconds)
        target, wanted = _draw(chance, kind, members, operated, number=number, losses=losses)
        yield Fault(kind=kind, targets=(target,), from_s=round(begin_s, 1), until_s=round(until_s, 1), wanted=wanted)
        number += 1
        begin_s += chance.uniform(*PAUSE_S)


def _draw(
    chance: random.Random, kind: Kind, members: Members, operated: Operated, *, number: int, losses: bool
) -> tuple[str, str]:
    """Draws what is worked on, and what is wanted."""
    topics = [*operated.topics, *filter(None, [operated.unclean_topic])]
    topic = chance.choice(topics)
    partition = f"{topic}-{chance.randrange(operated.partitions)}"
    brokers = [id_of(name) for name in members.of(BROKER)]
    match kind:
        case Kind.REASSIGN | Kind.CANCEL:
            return partition, _ids(chance.sample(brokers, min(operated.factor, len(brokers))))
        case Kind.SHUFFLE:
            return partition, str(chance.choice(BIG_TOPIC_PARTITIONS))
        case Kind.FACTOR:
            return topic, str(chance.randint(REPLICAS_MIN, len(brokers)))
        case Kind.BIG_TOPIC:
            return f"big-{number}", f"{chance.choice(BIG_TOPIC_PARTITIONS)} partitions"
        case Kind.SETTINGS:
            if topic == operated.unclean_topic and chance.random() < 0.7:
                return topic, "unclean.leader.election.enable=true"
            possible = [each for each in SETTINGS if not (losses and each in RISKY_BESIDE_LOSSES)]
            return topic, chance.choice(possible)
        case Kind.ELECT:
            return "all partitions", ""
        case _:
            return f"life-{chance.randrange(LIVES)}", str(chance.randrange(1 << 16))


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
