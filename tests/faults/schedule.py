"""Which faults a trial brings, drawn from its seed: the same seed always gives the same schedule. Pure.

Faults come in episodes of one to three that overlap, and after each episode the cluster has some quiet seconds, so
that progress is possible and the next episode meets a cluster in some state of recovery. Anything goes together,
but for what Kafka's guarantee does not cover with two in-sync replicas, or what says nothing:

- one data directory at most is wiped in a trial, or loses what was not fsynced (two could be all that had a record),
  and never an etcd member's;
- one process suffers one fault of a kind at a time, and is killed, stopped, wiped or paused by one fault at a time.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tests.faults.fault import (
    BROKER,
    CLIENTS,
    CONTROLLER,
    COORDINATOR,
    DISK_FAULTS,
    ETCD,
    LOSSES,
    Fault,
    HostileBehaviour,
    Kind,
    Link,
    Members,
    links_between,
)
from tests.faults.operation_schedule import Operated, draw_operations

FIRST_FAULT_S = 2.0
LAST_QUIET_S = 1.0
QUIET_S = (1.5, 5.0)
OVERLAP_S = 2.5
"""The faults of an episode begin within these seconds."""
LOSSES_MAX = 1
ATTEMPTS_MAX = 50
ROUNDING_S = 0.11
RATES_KBIT = (100, 400, 2000)
JUMPS_S = (-7200, -300, -30, 30, 300, 86_400)
DISK_DELAYS_S = (1, 3, 10, 20)
DISK_ERRORS = ("EIO", "ENOSPC")
HOSTILE_BEHAVIOURS = (1, 3)
"""How many of them at a time."""
EPISODE_SIZES = (1, 1, 2, 2, 3)
EXCLUSIVE = frozenset({Kind.KILL, Kind.STOP, Kind.PAUSE, Kind.WIPE, *DISK_FAULTS})
"""A process suffers one of these at a time."""

DURATIONS_S: dict[Kind, tuple[float, float]] = {
    Kind.KILL: (0.5, 8.0),
    Kind.STOP: (1.0, 6.0),
    Kind.PAUSE: (0.5, 9.0),
    Kind.WIPE: (0.5, 6.0),
    Kind.CUT: (1.0, 10.0),
    Kind.SLOW: (3.0, 10.0),
    Kind.FULL_DISK: (2.0, 8.0),
    Kind.SLOW_DISK: (2.0, 10.0),
    Kind.BROKEN_DISK: (1.0, 6.0),
    Kind.UNSYNCED_DISK: (2.0, 9.0),
    Kind.STALLED_DISK: (1.0, 20.0),
    Kind.REFUSING_DISK: (1.0, 8.0),
    Kind.NO_DESCRIPTORS: (1.0, 6.0),
    Kind.CLOCK: (2.0, 10.0),
    Kind.HOSTILE: (3.0, 10.0),
}
WEIGHTS: dict[Kind, int] = {
    Kind.KILL: 5,
    Kind.STOP: 2,
    Kind.PAUSE: 4,
    Kind.WIPE: 2,
    Kind.CUT: 6,
    Kind.SLOW: 1,
    Kind.FULL_DISK: 1,
    Kind.SLOW_DISK: 1,
    Kind.BROKEN_DISK: 1,
    Kind.UNSYNCED_DISK: 2,
    Kind.STALLED_DISK: 2,
    Kind.REFUSING_DISK: 2,
    Kind.NO_DESCRIPTORS: 1,
    Kind.CLOCK: 1,
    Kind.HOSTILE: 3,
}
BROKERS = (3, 4)
ROLE_WEIGHTS: dict[str, int] = {BROKER: 6, CONTROLLER: 3, COORDINATOR: 2, ETCD: 3}


@dataclass(frozen=True, slots=True)
class Schedule:
    """The faults of a trial in the order of their beginning."""

    faults: tuple[Fault, ...]
    seconds: float

    def __str__(self) -> str:
        """One line per fault."""
        return "\n".join(str(fault) for fault in self.faults)

    def targets_of(self, kind: Kind) -> frozenset[str]:
        """The processes that suffer this at some time."""
        return frozenset(target for fault in self.faults if fault.kind is kind for target in fault.targets)


def make_schedule(
    seed: int,
    members: Members,
    *,
    seconds: float,
    kinds: Collection[Kind] = tuple(Kind),
    operated: Operated | None = None,
) -> Schedule:
    """Draws the schedule of a seed.

    Args:
        seed: decides everything.
        members: which processes there are.
        seconds: when the last fault must be over.
        kinds: what may happen; without root there is less.
        operated: what operators work on, if any do.
    """
    weights = {kind: WEIGHTS[kind] for kind in Kind if kind in kinds and kind in WEIGHTS}

    def draw(chance: random.Random, kind: Kind, from_s: float, until_s: float) -> Fault:
        return _draw(chance, members, kind, from_s, until_s)

    faults = draw_episodes(random.Random(seed), weights, DURATIONS_S, draw, seconds=seconds)
    if operated is not None:
        losses = any(fault.kind in LOSSES for fault in faults)
        faults += draw_operations(seed, members, operated, seconds=seconds, kinds=kinds, losses=losses)
    return Schedule(tuple(sorted(faults, key=lambda fault: fault.from_s)), seconds)


Draw = Callable[[random.Random, Kind, float, float], Fault]
"""Draws a fault of a kind from one moment to another."""
Durations = Mapping[Kind, tuple[float, float]]
"""How long a fault lasts at least and at most, in seconds."""


def draw_episodes(
    chance: random.Random, weights: Mapping[Kind, int], durations_s: Durations, draw: Draw, *, seconds: float
) -> list[Fault]:
    """Draws episodes until the time is over.

    Args:
        chance: what is drawn from.
        weights: what may happen, and how often.
        durations_s: how long.
        draw: draws what else there is to a fault.
        seconds: when the last fault must be over.
    """
    faults: list[Fault] = []
    begin_s = FIRST_FAULT_S
    while weights and begin_s + OVERLAP_S < seconds - LAST_QUIET_S:
        for _ in range(chance.choice(EPISODE_SIZES)):
            fault = _possible_fault(chance, weights, durations_s, draw, faults, begin_s=begin_s, seconds=seconds)
            if fault is not None:
                faults.append(fault)
        begin_s = max([begin_s, *(fault.until_s for fault in faults)]) + chance.uniform(*QUIET_S)
    return faults


def is_allowed(fault: Fault, others: Sequence[Fault]) -> bool:
    """Whether the rules above let a fault happen beside the others of its trial."""
    if fault.kind in LOSSES and sum(other.kind in LOSSES for other in others) >= LOSSES_MAX:
        return False
    return not any(_clash(fault, other) for other in others if fault.overlaps(other))


def _clash(fault: Fault, other: Fault) -> bool:
    if set(fault.targets).isdisjoint(other.targets):
        return False
    return fault.kind is other.kind or (fault.kind in EXCLUSIVE and other.kind in EXCLUSIVE)


def _possible_fault(
    chance: random.Random,
    weights: Mapping[Kind, int],
    durations_s: Durations,
    draw: Draw,
    others: Sequence[Fault],
    *,
    begin_s: float,
    seconds: float,
) -> Fault | None:
    """A fault of an episode; None if none was found that the others leave room for."""
    for _ in range(ATTEMPTS_MAX):
        kind = chance.choices(list(weights), list(weights.values()))[0]
        from_s = round(begin_s + chance.uniform(0, OVERLAP_S), 1)
        until_s = round(from_s + chance.uniform(*durations_s[kind]), 1)
        fault = draw(chance, kind, from_s, min(until_s, round(seconds - LAST_QUIET_S, 1)))
        long_enough = fault.until_s - fault.from_s >= durations_s[kind][0] - ROUNDING_S
        if long_enough and is_allowed(fault, others):
            return fault
    return None


def _draw(chance: random.Random, members: Members, kind: Kind, from_s: float, until_s: float) -> Fault:
    if kind is Kind.CUT:
        what, links = chance.choice(CUTS)(chance, members)
        return Fault(kind=kind, targets=(what,), from_s=from_s, until_s=until_s, links=links)
    return Fault(
        kind=kind,
        targets=_draw_targets(chance, members, kind),
        from_s=from_s,
        until_s=until_s,
        rate_kbit=chance.choice(RATES_KBIT) if kind is Kind.SLOW else 0,
        jump_s=chance.choice({Kind.CLOCK: JUMPS_S, Kind.SLOW_DISK: DISK_DELAYS_S}.get(kind, (0,))),
        wanted=_draw_wanted(chance, kind),
    )


def _draw_wanted(chance: random.Random, kind: Kind) -> str:
    if kind is Kind.REFUSING_DISK:
        return chance.choice(DISK_ERRORS)
    if kind is Kind.HOSTILE:
        return ", ".join(sorted(chance.sample(list(HostileBehaviour), chance.randint(*HOSTILE_BEHAVIOURS))))
    return ""


def members_of(seed: int) -> Members:
    """Draws how many brokers there are: as many as each partition has replicas, or one more to move them to."""
    return Members(brokers=random.Random(f"members of {seed}").choice(BROKERS))


def _draw_targets(chance: random.Random, members: Members, kind: Kind) -> tuple[str, ...]:
    if kind in (Kind.WIPE, Kind.FULL_DISK, *DISK_FAULTS):
        return (chance.choice(members.of(BROKER)),)
    if kind is Kind.HOSTILE:
        return (CLIENTS,)
    if kind is Kind.CLOCK:
        return (chance.choice(members.services),)  # etcd is a Go program, which asks the kernel itself
    role = chance.choices(list(ROLE_WEIGHTS), list(ROLE_WEIGHTS.values()))[0]
    names = members.of(role)
    if kind is Kind.SLOW:
        return (chance.choice(names),)
    # One process mostly, sometimes two of a role, sometimes all of them.
    count = min(chance.choices((1, 2, len(names)), (8, 2, 1))[0], len(names))
    return tuple(sorted(chance.sample(names, count)))


Cut = Callable[[random.Random, Members], tuple[str, frozenset[Link]]]


def _isolate(chance: random.Random, members: Members) -> tuple[str, frozenset[Link]]:
    name = chance.choice(members.all)
    return f"{name} from everything", links_between([name], [*members.all, CLIENTS])


def _deafen(chance: random.Random, members: Members) -> tuple[str, frozenset[Link]]:
    name = chance.choice(members.all)
    return f"everything to {name}", links_between([*members.all, CLIENTS], [name], both_ways=False)


def _mute(chance: random.Random, members: Members) -> tuple[str, frozenset[Link]]:
    name = chance.choice(members.all)
    return f"{name} to everything", links_between([name], [*members.all, CLIENTS], both_ways=False)


def _split_brokers(chance: random.Random, members: Members) -> tuple[str, frozenset[Link]]:
    name = chance.choice(members.of(BROKER))
    one_way = chance.random() < 0.4
    arrow = "to" if one_way else "from"
    return f"{name} {arrow} other brokers", links_between([name], members.of(BROKER), both_ways=not one_way)


def _pair_of_brokers(chance: random.Random, members: Members) -> tuple[str, frozenset[Link]]:
    one, other = chance.sample(members.of(BROKER), 2)
    return f"{one} from {other}", links_between([one], [other])


def _away_from_etcd(chance: random.Random, members: Members) -> tuple[str, frozenset[Link]]:
    name = chance.choice(members.services)
    return f"{name} from etcd", links_between([name], members.of(ETCD))


def _away_from_controllers(chance: random.Random, members: Members) -> tuple[str, frozenset[Link]]:
    name = chance.choice(members.of(BROKER))
    return f"{name} from controllers", links_between([name], members.of(CONTROLLER))


def _away_from_coordinators(chance: random.Random, members: Members) -> tuple[str, frozenset[Link]]:
    name = chance.choice(members.of(COORDINATOR))
    return f"{name} from brokers", links_between([name], members.of(BROKER))


def _away_from_clients(chance: random.Random, members: Members) -> tuple[str, frozenset[Link]]:
    name = chance.choice(members.of(BROKER))
    return f"{name} from {CLIENTS}", links_between([name], [CLIENTS])


def _in_halves(chance: random.Random, members: Members) -> tuple[str, frozenset[Link]]:
    names = [*members.all, CLIENTS]
    chance.shuffle(names)
    half = len(names) // 2
    return f"{', '.join(sorted(names[:half]))} from the rest", links_between(names[:half], names[half:])


CUTS: tuple[Cut, ...] = (
    _isolate,
    _isolate,
    _deafen,
    _mute,
    _split_brokers,
    _split_brokers,
    _pair_of_brokers,
    _away_from_etcd,
    _away_from_etcd,
    _away_from_controllers,
    _away_from_coordinators,
    _away_from_clients,
    _in_halves,
)
