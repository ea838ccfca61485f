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
    "the high watermark moves below min.insync.replicas": 4,
    "additions to the in-sync set that are under way are not counted": 33,
    "logs that have parted are not found out": 25,
    "followers do not cut their logs": 17,
    "recovery points outlive a truncation": 54,
    "followers believe any high watermark": 6,
    "followers take answers of former leaders": 24,
    "old controllers are not fenced": 10,
    "nothing is written between a lost write and its repetition": 10,
    "views are taken for fresh": 7,
    "a watch that has stalled is kept": 7,
    "who leaves counts as registered": 34,
    "leaders are elected outside the in-sync set": 20,
    "wiped directories are not noticed": 20,
    "unclean shutdowns are overlooked": 36,
    "stale broker epochs are accepted": 13,
    "stale proposals are accepted": 14,
    "eligible leaders outlive a change of min.insync.replicas": 10,
    "a restarted leader goes on in its former epoch": 13,
    "a pass goes by its first state": 2,
    "a lost log is not noticed": 2,
    "a reported failure changes nothing": 11,
    "a failed fsync is forgotten by the next start": 6,
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
