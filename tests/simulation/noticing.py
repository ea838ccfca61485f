"""How each broken rule is noticed: by which seed, in what trouble, or in a history of its own (`histories.py`)."""

from collections.abc import Collection, Mapping

from tests.simulation.cluster import SimulationFailed, simulate
from tests.simulation.histories import HISTORIES, play

TROUBLE_THAT_SHOWS: Mapping[str, tuple[str, ...]] = {
    "recovery points outlive a truncation": ("isolate", "kill_broker"),
    "followers believe any high watermark": ("isolate", "kill_broker"),
    "nothing is written between a lost write and its repetition": (
        "lose_answers_of_etcd",
        "create_or_delete_busy_topic",
    ),
    "who leaves counts as registered": ("shut_down_broker", "lose_answers_of_etcd"),
    "unclean shutdowns are overlooked": ("cut_power",),
    "stale proposals are accepted": ("isolate", "kill_broker", "elect_preferred_leader"),
    "eligible leaders outlive a change of min.insync.replicas": ("change_min_insync_replicas", "kill_broker"),
    "a lost log is not noticed": ("lose_log",),
    "a reported failure changes nothing": ("fail_fsync",),
    "a failed fsync is forgotten by the next start": ("fail_fsync",),
    "a reported loss changes nothing": ("lose_log",),
}
"""What has to go wrong (see `Faults`) for a breach to show, where that seldom happens in all the other trouble."""

SEEDS_THAT_NOTICED: Mapping[str, int] = {
    "the high watermark moves below min.insync.replicas": 2,
    "additions to the in-sync set that are under way are not counted": 73,
    "logs that have parted are not found out": 6,
    "followers do not cut their logs": 17,
    "recovery points outlive a truncation": 19,
    "followers believe any high watermark": 6,
    "followers take answers of former leaders": 16,
    "old controllers are not fenced": 6,
    "nothing is written between a lost write and its repetition": 0,
    "views are taken for fresh": 4,
    "a watch that has stalled is kept": 0,
    "who leaves counts as registered": 4,
    "leaders are elected outside the in-sync set": 16,
    "wiped directories are not noticed": 42,
    "unclean shutdowns are overlooked": 40,
    "stale broker epochs are accepted": 2,
    "stale proposals are accepted": 32,
    "eligible leaders outlive a change of min.insync.replicas": 32,
    "a restarted leader goes on in its former epoch": 34,
    "a pass goes by its first state": 2,
    "a lost log is not noticed": 0,
    "a reported failure changes nothing": 2,
    "a failed fsync is forgotten by the next start": 26,
    "a reported loss changes nothing": 5,
}
"""Where to look first for what few seeds notice. Any change of the simulation moves it, and only costs time."""


def failure(seed: int, often: Collection[str] = (), rule: str = "") -> SimulationFailed | None:
    """Return how a seed failed, if it did; see `SimulatedCluster`."""
    try:
        simulate(seed, often, rule)
    except SimulationFailed as failed:
        return failed
    return None


def failure_of_history(name: str, seed: int, rule: str = "") -> SimulationFailed | None:
    """Return how a history failed, if it did; `rule` is the one that is broken meanwhile."""
    try:
        play(name, seed, rule)
    except SimulationFailed as failed:
        return failed
    return None


def failure_that_shows(rule: str, first_seed: int, seeds_max: int) -> SimulationFailed | None:
    """Return how the breach of a rule was noticed, if it was. The rule is broken by the caller.

    A breach may also have a run come to no end, as where the same is written again and again. That alone is returned
    only where no seed shows more.
    """
    if rule in HISTORIES:
        return failure_of_history(rule, first_seed, rule)
    seeds = [*range(first_seed, first_seed + seeds_max)]
    if rule in SEEDS_THAT_NOTICED:
        seeds.insert(0, SEEDS_THAT_NOTICED[rule])
    endless: SimulationFailed | None = None
    for seed in seeds:
        found = failure(seed, TROUBLE_THAT_SHOWS.get(rule, ()), rule)
        if found is not None and found.is_violation:
            return found
        endless = endless or found
    return endless
