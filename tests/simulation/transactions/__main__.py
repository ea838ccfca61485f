"""Replay a seed of transactions and print what happened: `python -m tests.simulation.transactions SEED`.

`--rule` breaks a rule of `broken_rules.py`; `--count` goes through so many seeds from that one on and prints those
that fail, with a broken rule the first. The exit code is 1 if one fails.
"""

import argparse
import os
import sys
from contextlib import nullcontext

from tests.simulation.transactions.broken_rules import BROKEN_RULES, OFTEN, VERSIONS
from tests.simulation.transactions.trial import Outcome, TransactionTrial, simulate, surroundings

HASH_SEED = "0"
"""Sets of names are gone through in the order of their hashes, which Python draws anew for each process."""


def main() -> None:
    """Replay one run, or go through many."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.transactions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("seed", type=int)
    parser.add_argument("--rule", choices=BROKEN_RULES, default="", metavar="NAME")
    parser.add_argument("--count", type=int, default=1)
    arguments = parser.parse_args()
    with BROKEN_RULES[arguments.rule]() if arguments.rule else nullcontext():
        if arguments.count > 1:
            seeds = range(arguments.seed, arguments.seed + arguments.count)
            sys.exit(_go_through(seeds, arguments.rule))
        sys.exit(_replay(arguments.seed, arguments.rule))


def _replay(seed: int, rule: str) -> int:
    """Print what happens; return 1 if a rule is violated."""
    with surroundings() as directory:
        trial = TransactionTrial(seed, directory, OFTEN.get(rule, ()), VERSIONS.get(rule))
        violation = ""
        try:
            outcome: object = trial.run()
        except AssertionError as error:
            outcome = violation = _first_line(error)
        print("\n".join(trial.schedule.trace_lines()))
        print(outcome)
        return 1 if violation else 0


def _first_line(error: AssertionError) -> str:
    return (str(error) or repr(error)).splitlines()[0]


def _go_through(seeds: range, rule: str) -> int:
    """Run seeds, with a broken rule until one has failed; return 1 if one has."""
    outcomes: list[Outcome] = []
    failed = 0
    for seed in seeds:
        try:
            outcomes.append(simulate(seed, OFTEN.get(rule, ()), VERSIONS.get(rule)))
        except AssertionError as error:
            failed += 1
            print(_first_line(error), flush=True)
        if rule and failed:
            break
    print(
        f"{len(outcomes) + failed} seeds, {failed} failed; "
        f"{sum(each.transactions for each in outcomes)} transactions, "
        f"{sum(each.committed for each in outcomes)} commits and {sum(each.aborted for each in outcomes)} aborts "
        f"confirmed, {sum(each.faults for each in outcomes)} faults, "
        f"{sum(each.shards_moved for each in outcomes)} shards moved"
    )
    return min(failed, 1)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation.transactions", *sys.argv[1:]])
    main()
