"""The program that measures the console, on a cluster that is started here."""

import argparse
import tempfile
from pathlib import Path

from benchmarks import console
from benchmarks.console import CASES, ConsolePlan
from benchmarks.overheads import Programs
from benchmarks.printing import report, say


def add_to(programs: Programs) -> None:
    """Add the program."""
    purpose = "views, search and SQL of the console, beside kcat and Spark, on a cluster that is started here"
    program = programs.add_parser("console", help=purpose, description=purpose)
    program.set_defaults(run=_run)
    plan = ConsolePlan()
    program.add_argument("--cases", nargs="+", choices=CASES, default=list(plan.cases))
    program.add_argument("--topics", type=int, default=plan.topics, help="in the case views (%(default)s)")
    program.add_argument("--groups", type=int, default=plan.groups, help="likewise (%(default)s)")
    program.add_argument("--messages", type=int, default=plan.messages, help="that are searched (%(default)s)")
    program.add_argument("--large-messages", type=int, default=plan.large_messages, help="(%(default)s)")
    program.add_argument(
        "--hostile-messages", type=int, default=plan.hostile_messages, help="of each kind (%(default)s)"
    )
    program.add_argument(
        "--repetitions",
        type=int,
        default=plan.repetitions,
        help="of each view; of other pages a quarter (%(default)s)",
    )
    program.add_argument("--no-spark", action="store_true", help="have SQL answered by the console alone")
    program.add_argument("--work-dir", type=Path, help="where data goes while it runs; some GB")
    program.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _run(chosen: argparse.Namespace) -> None:
    plan = ConsolePlan(
        cases=chosen.cases,
        topics=chosen.topics,
        groups=chosen.groups,
        messages=chosen.messages,
        repetitions=chosen.repetitions,
        large_messages=chosen.large_messages,
        hostile_messages=chosen.hostile_messages,
        spark=not chosen.no_spark,
    )
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-", dir=chosen.work_dir) as directory:
        report(console.measure(Path(directory), plan, say), chosen)
