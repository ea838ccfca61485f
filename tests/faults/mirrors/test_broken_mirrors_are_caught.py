"""A trial of mirrors notices when a rule is broken that copies and maps of offsets depend on."""

from pathlib import Path

import pytest

from tests.faults.broken_rules import program
from tests.faults.cluster import PROGRAMS
from tests.faults.fault import BROKER
from tests.faults.mirrors import sites
from tests.faults.mirrors.mirror_trial import run_mirror_trial
from tests.faults.mirrors.sites import MIRROR
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


def trial(directory: Path, schedule: Schedule, **programs: tuple[str, ...]) -> Outcome:
    plan = Plan(
        seed=SEED, directory=directory / "trial", seconds=schedule.seconds, schedule=schedule, programs=programs
    )
    outcome = run_mirror_trial(plan)
    print(outcome.report())
    return outcome


def broken_worker(rule: str) -> dict[str, tuple[str, ...]]:
    return {MIRROR: program(rule, *sites.PROGRAM)}


def test_workers_that_do_not_look_what_the_target_has_copy_twice(tmp_path: Path) -> None:
    outcome = trial(tmp_path, workers_that_crash(), **broken_worker("takeovers-by-the-stored-position"))
    assert any(problem.startswith("twice") for problem in outcome.problems)


def test_workers_that_pass_over_failed_batches_lose_records(tmp_path: Path) -> None:
    outcome = trial(tmp_path, brokers_that_crash(), **broken_worker("failed-batches-are-passed-over"))
    assert any(problem.startswith("lost:") for problem in outcome.problems)


def test_a_map_that_reckons_with_no_stranger_is_wrong(tmp_path: Path) -> None:
    outcome = trial(tmp_path, workers_that_crash(), **broken_worker("maps-without-strangers"))
    assert any("is translated to" in problem for problem in outcome.problems)


def test_groups_with_sampled_offsets_are_noticed(tmp_path: Path) -> None:
    outcome = trial(tmp_path, workers_that_crash(), **broken_worker("offsets-by-samples"))
    assert any("by count it is" in problem for problem in outcome.problems)


def test_linked_partitions_that_skip_what_they_are_behind_lack_records(tmp_path: Path) -> None:
    broken = {BROKER: program("links-go-on-at-the-sources-end", *PROGRAMS[BROKER])}
    outcome = trial(tmp_path, brokers_that_crash(), **broken)
    assert any(problem.startswith("lost:") for problem in outcome.problems)


def test_the_same_schedules_cost_nothing_while_the_rules_hold(tmp_path: Path) -> None:
    first = trial(tmp_path / "workers", workers_that_crash())
    second = trial(tmp_path / "brokers", brokers_that_crash())
    assert not first.problems + second.problems
