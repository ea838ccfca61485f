"""Runs trials from the command line: `python -m tests.faults --minutes 60`, or `--seed 7` for one again."""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.faults import network
from tests.faults.fault import Kind
from tests.faults.mirrors.mirror_trial import run_mirror_trial
from tests.faults.plan import Outcome, Plan
from tests.faults.transactions.transaction_trial import TransactionPlan, run_transaction_trial
from tests.faults.trial import FACTOR, TrialPlan, run_trial
from tests.support.reference import kafka_jars

SECONDS_DEFAULT = 55.0
JAVA_SHARE = 0.2
"""Of the seeds, as virtual machines take much of a small one."""


def main() -> int:
    options = read_options(sys.argv[1:])
    for received in (signal.SIGINT, signal.SIGTERM):  # cleans up, even where a shell has SIGINT ignored
        signal.signal(received, signal.default_int_handler)
    directory = options.dir or Path(tempfile.mkdtemp(prefix="ottla-faults-"))
    if reason := network.unavailable_reason():
        print(f"links between processes cannot fail here: {reason}", flush=True)
    begun_s = time.monotonic()
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 24)
    outcomes: list[Outcome] = []
    while not outcomes or time.monotonic() - begun_s < options.minutes * 60:
        seed = first + len(outcomes)
        run = _mirror_trial if options.mirror else _transaction_trial if options.transactions else _trial
        outcome = run(options, seed, directory / f"seed-{seed}")
        outcomes.append(outcome)
        print(outcome.report() if outcome.problems else outcome.summary(), flush=True)
        if not outcome.problems and not options.keep:
            shutil.rmtree(outcome.directory)
    failed = [outcome.seed for outcome in outcomes if outcome.problems]
    took_minutes = (time.monotonic() - begun_s) / 60
    kinds = Counter(str(fault.kind) for outcome in outcomes for fault in outcome.schedule.faults)
    print(f"{kinds.total()} faults: {', '.join(f'{count} {kind}' for kind, count in kinds.most_common())}")
    print(f"{len(outcomes)} seeds in {took_minutes:.1f} minutes, {len(failed)} failed: {failed}")
    return 1 if failed else 0


def _trial(options: argparse.Namespace, seed: int, directory: Path) -> Outcome:
    """A trial of one cluster."""
    return run_trial(
        TrialPlan(
            seed=seed,
            directory=directory,
            seconds=options.seconds,
            kinds=frozenset(options.kinds),
            factor=options.factor or FACTOR,
            loopback=options.loopback,
            secure=options.secure,
            java=options.java or _draws_java(seed),
        )
    )


def _mirror_trial(options: argparse.Namespace, seed: int, directory: Path) -> Outcome:
    """A trial of two clusters, one of which mirrors the other."""
    return run_mirror_trial(
        Plan(
            seed=seed,
            directory=directory,
            seconds=options.seconds,
            kinds=frozenset(options.kinds),
            loopback=options.loopback,
            secure=options.secure,
            exactly_once=options.exactly_once,
        )
    )


def _transaction_trial(options: argparse.Namespace, seed: int, directory: Path) -> Outcome:
    """A trial of one cluster under transactions."""
    return run_transaction_trial(
        TransactionPlan(
            seed=seed,
            directory=directory,
            seconds=options.seconds,
            kinds=frozenset(options.kinds),
            loopback=options.loopback,
            secure=options.secure,
        )
    )


def _draws_java(seed: int) -> bool:
    """Whether Kafka's own clients belong to a seed's load, where they can run."""
    return random.Random(f"Java of {seed}").random() < JAVA_SHARE and kafka_jars.unavailable_reason() is None


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the command line; those that say nothing of the trials asked for are refused.

    Raises:
        SystemExit: with 2, after an error on the standard error stream.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.exactly_once and not options.mirror:
        parser.error("--exactly-once says how mirror workers write: it needs --mirror")
    if options.mirror or options.transactions:
        if options.java:
            parser.error("--java is of trials without --mirror and --transactions: their loads have no Java clients")
        if options.factor is not None:
            parser.error("--factor is of trials without --mirror and --transactions: theirs have fixed numbers")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0, help="begin new seeds until this time is over")
    parser.add_argument("--seed", type=int, help="the first seed (default: drawn); the others follow it")
    parser.add_argument("--seconds", type=float, default=SECONDS_DEFAULT, help="of faults per seed (%(default)g)")
    parser.add_argument("--kinds", type=Kind, nargs="+", default=list(Kind), metavar="KIND", help="what may happen")
    parser.add_argument("--factor", type=int, help=f"replicas of each partition ({FACTOR})")
    parser.add_argument("--loopback", action="store_true", help="without network namespaces")
    parser.add_argument("--java", action="store_true", help="with Kafka's own clients in the load of all seeds")
    of_what = parser.add_mutually_exclusive_group()
    of_what.add_argument("--mirror", action="store_true", help="two clusters, mirror workers and a link between them")
    of_what.add_argument("--transactions", action="store_true", help="transactions rather than single records")
    parser.add_argument("--exactly-once", action="store_true", help="with --mirror: workers write in transactions")
    parser.add_argument(
        "--secure",
        action="store_true",
        help="with certificates between processes, users in etcd, and logins and rights of clients",
    )
    parser.add_argument("--keep", action="store_true", help="keep data and logs of trials without problems, too")
    parser.add_argument("--dir", type=Path, help="where data and logs go")
    return parser


if __name__ == "__main__":
    sys.exit(main())
