"""What a trial tells to run it again is what was asked for, and options without a meaning are refused."""

import shlex
from pathlib import Path

import pytest

from tests.faults.__main__ import read_options
from tests.faults.fault import Kind
from tests.faults.mirrors import mirror_trial
from tests.faults.plan import Plan
from tests.faults.trial import TrialPlan, command_of

NOWHERE = Path("nowhere")
PROGRAM = ["python", "-m", "tests.faults"]


def arguments_of(command: str) -> list[str]:
    words = shlex.split(command)
    assert words[:3] == PROGRAM
    return words[3:]


def test_a_trial_with_certificates_is_run_again_with_certificates() -> None:
    plan = TrialPlan(seed=1, directory=NOWHERE, secure=True, loopback=True, factor=2, java=True)
    options = read_options(arguments_of(command_of(plan)))
    assert options.secure
    assert options.loopback
    assert options.java
    assert options.factor == 2


def test_a_plain_trial_needs_no_options() -> None:
    assert arguments_of(command_of(TrialPlan(seed=1, directory=NOWHERE))) == []


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_trial_of_mirrors_is_run_again_as_it_was(exactly_once: bool) -> None:
    plan = Plan(seed=1, directory=NOWHERE, secure=True, exactly_once=exactly_once)
    options = read_options(arguments_of(mirror_trial.command_of(plan)))
    assert options.mirror
    assert options.secure
    assert options.exactly_once is exactly_once


def test_kinds_with_spaces_are_one_word_each() -> None:
    kinds = frozenset({Kind.FULL_DISK, Kind.KILL})
    options = read_options(arguments_of(Plan(seed=1, directory=NOWHERE, kinds=kinds).command("--transactions")))
    assert options.transactions
    assert frozenset(options.kinds) == kinds


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--exactly-once"], "needs --mirror"),
        (["--transactions", "--exactly-once"], "needs --mirror"),
        (["--mirror", "--transactions"], "not allowed with argument --mirror"),
        (["--mirror", "--java"], "no Java clients"),
        (["--transactions", "--java"], "no Java clients"),
        (["--transactions", "--factor", "2"], "fixed numbers"),
    ],
)
def test_options_of_other_trials_are_refused(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        read_options(arguments)
    assert refused.value.code == 2
    assert reason in capsys.readouterr().err
