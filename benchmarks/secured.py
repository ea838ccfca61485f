"""The programs that measure logins and encryption, on listeners of brokers that are started here."""

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks import encryption, logins
from benchmarks.encryption import EncryptionPlan
from benchmarks.logins import LoginsPlan
from benchmarks.overheads import Programs
from benchmarks.printing import say
from benchmarks.side_by_side import case_table


def add_to(programs: Programs) -> None:
    """Add the programs."""
    _add_logins(programs)
    _add_encryption(programs)


def _add_logins(programs: Programs) -> None:
    purpose = "connections that are set up, with and without TLS and logins, on brokers that are started here"
    program = programs.add_parser("logins", help=purpose, description=purpose)
    program.set_defaults(run=_run_logins)
    program.add_argument("--connections", type=int, default=LoginsPlan.connections, help="of each kind (%(default)s)")
    program.add_argument("--warm-up", type=int, default=LoginsPlan.warm_up, help="before that (%(default)s)")
    program.add_argument("--threads", type=int, default=LoginsPlan.threads, help="of the client (%(default)s)")
    program.add_argument("--repetitions", type=int, default=LoginsPlan.repetitions, help="(%(default)s)")
    program.add_argument("--kafka", action="store_true", help="also a reference Kafka (needs Java and its jars)")
    program.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _add_encryption(programs: Programs) -> None:
    purpose = (
        "publish and read over TLS, beside the same without it, on brokers of one processor that are started here"
    )
    program = programs.add_parser("encryption", help=purpose, description=purpose)
    program.set_defaults(run=_run_encryption)
    program.add_argument("--total-mb", type=int, default=EncryptionPlan.total_mb, help="of each kind (%(default)s)")
    program.add_argument("--warm-up-mb", type=int, default=EncryptionPlan.warm_up_mb, help="before (%(default)s)")
    program.add_argument("--repetitions", type=int, default=EncryptionPlan.repetitions, help="(%(default)s)")
    program.add_argument("--kafka", action="store_true", help="also a reference Kafka (needs Java and its jars)")
    program.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _run_logins(chosen: argparse.Namespace) -> None:
    plan = LoginsPlan(
        connections=chosen.connections,
        warm_up=chosen.warm_up,
        threads=chosen.threads,
        repetitions=chosen.repetitions,
    )
    names = ["ottla", "kafka"] if chosen.kafka else ["ottla"]
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        found = logins.measure(names, Path(directory), plan, say)
    print(json.dumps(found, indent=2) if chosen.json else case_table(found))


def _run_encryption(chosen: argparse.Namespace) -> None:
    plan = EncryptionPlan(total_mb=chosen.total_mb, warm_up_mb=chosen.warm_up_mb, repetitions=chosen.repetitions)
    names = ["ottla", "kafka"] if chosen.kafka else ["ottla"]
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        found = encryption.measure(names, Path(directory), plan, say)
    print(json.dumps(found, indent=2) if chosen.json else case_table(found))
