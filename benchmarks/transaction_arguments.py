"""The program that measures transactions, on brokers that are started here."""

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks import transactions
from benchmarks.overheads import Programs
from benchmarks.printing import say
from benchmarks.side_by_side import case_table
from benchmarks.transactions import TransactionsPlan


def add_to(programs: Programs) -> None:
    """Add the program."""
    purpose = "transactions of many records and of one, on brokers of one processor that are started here"
    program = programs.add_parser("transactions", help=purpose, description=purpose)
    program.set_defaults(run=_run)
    plan = TransactionsPlan()
    program.add_argument("--records", type=int, nargs="+", default=plan.records, help="of each (100 1)")
    program.add_argument("--producers", type=int, nargs="+", default=plan.producers, help="side by side (1 8)")
    program.add_argument("--seconds", type=float, default=plan.seconds, help="of each kind (%(default)g)")
    program.add_argument("--warm-up-s", type=float, default=plan.warm_up_s, help="before that (%(default)g)")
    program.add_argument("--repetitions", type=int, default=plan.repetitions, help="(%(default)s)")
    program.add_argument("--open-ids", type=int, default=plan.open_ids, help="whose memory is measured (%(default)s)")
    program.add_argument("--kafka", action="store_true", help="also a reference Kafka (needs Java and its jars)")
    program.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _run(chosen: argparse.Namespace) -> None:
    plan = TransactionsPlan(
        records=tuple(chosen.records),
        producers=tuple(chosen.producers),
        seconds=chosen.seconds,
        warm_up_s=chosen.warm_up_s,
        repetitions=chosen.repetitions,
        open_ids=chosen.open_ids,
    )
    names = ["ottla", "kafka"] if chosen.kafka else ["ottla"]
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        found = transactions.measure(names, Path(directory), plan, say)
    print(json.dumps(found, indent=2) if chosen.json else case_table(found))
