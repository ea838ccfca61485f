"""Which faults a trial of mirrors brings, drawn from its seed. Pure.

As in other trials, faults come in episodes. They hit the workers, both clusters, and what lies between them. Never
more than one replica's data of a record is in doubt, since no disk loses what it has.
"""

import random
from collections.abc import Callable, Collection

from tests.faults.fault import BROKER, CLIENTS, CONTROLLER, ETCD, Fault, Kind, Link, links_between
from tests.faults.mirrors.mirror_load import worker_names
from tests.faults.mirrors.sites import SOURCE_MEMBERS, TARGET_MEMBERS, all_names
from tests.faults.schedule import DURATIONS_S, RATES_KBIT, Schedule, draw_episodes
from tests.faults.topics import LINKED_TOPICS, RECENT, SOURCE, TARGET, Keeps

WEIGHTS: dict[Kind, int] = {
    Kind.KILL: 7,
    Kind.STOP: 2,
    Kind.PAUSE: 5,
    Kind.CUT: 6,
    Kind.SLOW: 2,
    Kind.FULL_DISK: 2,
    Kind.ELECT: 2,
    Kind.RECREATE: 2,
    Kind.GROW: 1,
    Kind.OVERTAKE: 2,
}
MIRROR_DURATIONS_S = {
    **DURATIONS_S,
    Kind.ELECT: (0.5, 3.0),
    Kind.RECREATE: (1.0, 5.0),
    Kind.GROW: (1.0, 3.0),
    Kind.OVERTAKE: (2.0, 8.0),
}
VICTIMS = (
    (6, worker_names()),
    (6, TARGET_MEMBERS.of(BROKER)),
    (4, SOURCE_MEMBERS.of(BROKER)),
    (1, TARGET_MEMBERS.of(CONTROLLER)),
    (1, SOURCE_MEMBERS.of(CONTROLLER)),
    (2, TARGET_MEMBERS.of(ETCD)),
)
MIRRORING = (*TARGET_MEMBERS.of(BROKER), *worker_names())
"""Who asks the source."""
OVERTAKEN = tuple(topic.name for topic in (RECENT, *LINKED_TOPICS) if topic.keeps is Keeps.NEWEST)


def make_mirror_schedule(seed: int, *, seconds: float, kinds: Collection[Kind] = tuple(Kind)) -> Schedule:
    """Draws the schedule of a seed.

    Args:
        seed: decides everything.
        seconds: when the last fault must be over.
        kinds: what may happen.
    """
    weights = {kind: weight for kind, weight in WEIGHTS.items() if kind in kinds}
    faults = draw_episodes(random.Random(seed), weights, MIRROR_DURATIONS_S, _draw, seconds=seconds)
    return Schedule(tuple(sorted(faults, key=lambda fault: fault.from_s)), seconds)


def _draw(chance: random.Random, kind: Kind, from_s: float, until_s: float) -> Fault:
    if kind is Kind.CUT:
        what, links = chance.choice(CUTS)(chance)
        return Fault(kind=kind, targets=(what,), from_s=from_s, until_s=until_s, links=links)
    if kind is Kind.OVERTAKE:
        links = links_between(MIRRORING, SOURCE_MEMBERS.of(BROKER))
        return Fault(kind=kind, targets=OVERTAKEN, from_s=from_s, until_s=until_s, links=links)
    return Fault(
        kind=kind,
        targets=_draw_targets(chance, kind),
        from_s=from_s,
        until_s=until_s,
        rate_kbit=chance.choice(RATES_KBIT) if kind is Kind.SLOW else 0,
    )


def _draw_targets(chance: random.Random, kind: Kind) -> tuple[str, ...]:
    if kind is Kind.FULL_DISK:
        return (chance.choice(TARGET_MEMBERS.of(BROKER)),)
    if kind is Kind.ELECT:
        return (chance.choice((SOURCE, TARGET)),)
    if kind in (Kind.RECREATE, Kind.GROW):
        return (kind.value,)  # one at a time, as it is always about the same topics
    names = chance.choices([names for _, names in VICTIMS], [weight for weight, _ in VICTIMS])[0]
    if kind is Kind.SLOW:
        return (chance.choice(names),)
    count = min(chance.choices((1, 2, len(names)), (8, 2, 1))[0], len(names))
    return tuple(sorted(chance.sample(names, count)))


Cut = Callable[[random.Random], tuple[str, frozenset[Link]]]


def _sites_apart(_chance: random.Random) -> tuple[str, frozenset[Link]]:
    return f"{SOURCE} from {TARGET} and the workers", links_between(SOURCE_MEMBERS.all, MIRRORING)


def _answers_lost(_chance: random.Random) -> tuple[str, frozenset[Link]]:
    return f"{SOURCE} to {TARGET} and the workers", links_between(SOURCE_MEMBERS.all, MIRRORING, both_ways=False)


def _requests_lost(_chance: random.Random) -> tuple[str, frozenset[Link]]:
    return f"{TARGET} and the workers to {SOURCE}", links_between(MIRRORING, SOURCE_MEMBERS.all, both_ways=False)


def _workers_from_target(chance: random.Random) -> tuple[str, frozenset[Link]]:
    workers = chance.choice([worker_names(), worker_names()[:1]])
    return f"{', '.join(workers)} from {TARGET}", links_between(workers, TARGET_MEMBERS.all)


def _target_to_workers(_chance: random.Random) -> tuple[str, frozenset[Link]]:
    """Batches arrive, and their answers do not."""
    return f"{TARGET} to the workers", links_between(TARGET_MEMBERS.all, worker_names(), both_ways=False)


def _worker_from_everything(chance: random.Random) -> tuple[str, frozenset[Link]]:
    name = chance.choice(worker_names())
    return f"{name} from everything", links_between([name], [*all_names(), CLIENTS])


def _broker_from_everything(chance: random.Random) -> tuple[str, frozenset[Link]]:
    name = chance.choice(TARGET_MEMBERS.of(BROKER))
    return f"{name} from everything", links_between([name], [*all_names(), CLIENTS])


def _broker_from_etcd(chance: random.Random) -> tuple[str, frozenset[Link]]:
    name = chance.choice(TARGET_MEMBERS.of(BROKER))
    return f"{name} from etcd", links_between([name], TARGET_MEMBERS.of(ETCD))


def _broker_from_brokers(chance: random.Random) -> tuple[str, frozenset[Link]]:
    name = chance.choice(TARGET_MEMBERS.of(BROKER))
    return f"{name} from other brokers", links_between([name], TARGET_MEMBERS.of(BROKER))


def _broker_of_source(chance: random.Random) -> tuple[str, frozenset[Link]]:
    name = chance.choice(SOURCE_MEMBERS.of(BROKER))
    return f"{name} from {TARGET} and the workers", links_between([name], MIRRORING)


CUTS: tuple[Cut, ...] = (
    _sites_apart,
    _sites_apart,
    _answers_lost,
    _requests_lost,
    _workers_from_target,
    _target_to_workers,
    _target_to_workers,
    _worker_from_everything,
    _broker_from_everything,
    _broker_from_etcd,
    _broker_from_brokers,
    _broker_of_source,
)
