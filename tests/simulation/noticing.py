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
    "the high watermark moves below min.insync.replicas": 0,
    "additions to the in-sync set that are under way are not counted": 73,
    "logs that have parted are not found out": 22,
    "followers do not cut their logs": 17,
    "recovery points outlive a truncation": 7,
    "followers believe any high watermark": 8,
    "followers take answers of former leaders": 16,
    "old controllers are not fenced": 6,
    "nothing is written between a lost write and its repetition": 21,
    "views are taken for fresh": 0,
    "a watch that has stalled is kept": 7,
    "who leaves counts as registered": 21,
    "leaders are elected outside the in-sync set": 29,
    "wiped directories are not noticed": 31,
    "unclean shutdowns are overlooked": 3,
    "stale broker epochs are accepted": 203,
    "stale proposals are accepted": 371,
    "eligible leaders outlive a change of min.insync.replicas": 61,
    "a restarted leader goes on in its former epoch": 25,
    "a pass goes by its first state": 16,
    "a lost log is not noticed": 23,
    "a reported failure changes nothing": 4,
    "a failed fsync is forgotten by the next start": 0,
    "a reported loss changes nothing": 4,
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
    """Return how the breach of a rule was noticed, if it was. The rule is broken by the caller."""
    if rule in HISTORIES:
        return failure_of_history(rule, first_seed, rule)
    seeds = [*range(first_seed, first_seed + seeds_max)]
    if rule in SEEDS_THAT_NOTICED:
        seeds.insert(0, SEEDS_THAT_NOTICED[rule])
    often = TROUBLE_THAT_SHOWS.get(rule, ())
    return next((found for seed in seeds if (found := failure(seed, often, rule)) is not None), None)
