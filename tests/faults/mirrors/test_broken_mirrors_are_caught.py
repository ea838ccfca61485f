"""A trial of mirrors notices when a rule is broken that copies and maps of offsets depend on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.broken_rules import program
from tests.faults.cluster import PROGRAMS
from tests.faults.fault import BROKER
from tests.faults.mirrors import sites
from tests.faults.mirrors.mirror_load import MIRROR
from tests.faults.mirrors.mirror_trial import run_mirror_trial
from tests.faults.mirrors.targeted_schedules import (
    brokers_that_crash,
    workers_that_crash,
)
from tests.faults.plan import Outcome, Plan
from tests.faults.schedule import Schedule

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broken_rules,
    pytest.mark.requires("network namespaces"),
]

SEED = 1
TRIALS_MAX = 3
"""Until a broken rule has to be noticed; each with a seed of its own."""


def trial(directory: Path, schedule: Schedule, seed: int = SEED, **programs: tuple[str, ...]) -> Outcome:
    plan = Plan(
        seed=seed, directory=directory / "trial", seconds=schedule.seconds, schedule=schedule, programs=programs
    )
    outcome = run_mirror_trial(plan)
    print(outcome.report())
    return outcome


def is_noticed(
    directory: Path, schedule: Schedule, is_sign: Callable[[str], bool], **programs: tuple[str, ...]
) -> bool:
    """Whether a trial finds a problem that is a sign of the broken rule."""
    for seed in range(SEED, SEED + TRIALS_MAX):
        outcome = trial(directory / f"seed-{seed}", schedule, seed, **programs)
        if any(map(is_sign, outcome.problems)):
            return True
    return False


def broken_worker(rule: str) -> dict[str, tuple[str, ...]]:
    return {MIRROR: program(rule, *sites.PROGRAM)}


def test_workers_that_do_not_look_what_the_target_has_copy_twice(tmp_path: Path) -> None:
    assert is_noticed(
        tmp_path,
        workers_that_crash(),
        lambda problem: problem.startswith("twice"),
        **broken_worker("takeovers-by-the-stored-position"),
    )


def test_workers_that_pass_over_failed_batches_lose_records(tmp_path: Path) -> None:
    assert is_noticed(
        tmp_path,
        brokers_that_crash(),
        lambda problem: problem.startswith("lost:"),
        **broken_worker("failed-batches-are-passed-over"),
    )


def test_a_map_that_reckons_with_no_stranger_is_wrong(tmp_path: Path) -> None:
    assert is_noticed(
        tmp_path,
        workers_that_crash(),
        lambda problem: "is translated to" in problem,
        **broken_worker("maps-without-strangers"),
    )


def test_groups_with_sampled_offsets_are_noticed(tmp_path: Path) -> None:
    assert is_noticed(
        tmp_path,
        workers_that_crash(),
        lambda problem: "by count it is" in problem,
        **broken_worker("offsets-by-samples"),
    )


def test_linked_partitions_that_skip_what_they_are_behind_lack_records(tmp_path: Path) -> None:
    broken = {BROKER: program("links-go-on-at-the-sources-end", *PROGRAMS[BROKER])}
    assert is_noticed(tmp_path, brokers_that_crash(), lambda problem: problem.startswith("lost:"), **broken)


def test_workers_that_copy_aborted_records_show_them(tmp_path: Path) -> None:
    assert is_noticed(
        tmp_path,
        workers_that_crash(),
        lambda problem: problem.startswith("aborted read: west.ledger"),
        **broken_worker("aborted-records-are-copied"),
    )


def test_followers_of_a_source_that_take_all_markers_for_commits_show_aborted_records(tmp_path: Path) -> None:
    broken = {BROKER: program("all-markers-commit", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path,
        workers_that_crash(),
        lambda problem: problem.startswith("aborted read: linked-ledger"),
        **broken,
    )


def test_the_same_schedules_cost_nothing_while_the_rules_hold(tmp_path: Path) -> None:
    first = trial(tmp_path / "workers", workers_that_crash())
    second = trial(tmp_path / "brokers", brokers_that_crash())
    assert not first.problems + second.problems
