"""The programs that measure what something costs on the path of a produce, beside a broker without it."""

import argparse
import tempfile
from pathlib import Path
from typing import TypeAlias

from benchmarks import acl_overhead, metrics_overhead, produce_instructions, quota_overhead
from benchmarks.acl_overhead import AclPlan
from benchmarks.metrics_overhead import MetricsPlan
from benchmarks.printing import report, say
from benchmarks.produce_instructions import InstructionsPlan
from benchmarks.quota_overhead import QuotaPlan

Programs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - argparse names it no other way


def add_to(programs: Programs) -> None:
    """Add the programs."""
    metrics = programs.add_parser(
        "metrics", help="metrics on the path of a produce, beside a broker that counts nothing, both started here"
    )
    metrics.set_defaults(run=_run_metrics)
    instructions = programs.add_parser(
        "metrics-instructions", help="the same counted in instructions by Valgrind, which must be installed"
    )
    instructions.set_defaults(run=_run_metrics_instructions)
    acls = programs.add_parser(
        "acls", help="access control lists on the path of a produce, beside a broker without, both started here"
    )
    acls.set_defaults(run=_run_acls)
    acl_instructions = programs.add_parser(
        "acls-instructions", help="the same counted in instructions by Valgrind, which must be installed"
    )
    acl_instructions.set_defaults(run=_run_acl_instructions)
    for each in (acls, acl_instructions):
        each.add_argument("--bindings", type=int, default=AclPlan.bindings, help="(%(default)s)")
    for each in (instructions, acl_instructions):
        each.add_argument("--requests", type=int, default=InstructionsPlan.requests, help="(%(default)s)")
        each.add_argument("--json", action="store_true", help="print JSON instead of a table")
    quotas = programs.add_parser(
        "quotas",
        help="quotas that are not reached on the path of a produce, beside a broker without, both started here",
    )
    quotas.set_defaults(run=_run_quotas)
    for each in (metrics, acls, quotas):
        each.add_argument("--rounds", type=int, default=MetricsPlan.rounds, help="pairs of each case (%(default)s)")
        each.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _run_metrics(chosen: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        report(metrics_overhead.measure(Path(directory), MetricsPlan(rounds=chosen.rounds), say), chosen)


def _run_metrics_instructions(chosen: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        report(produce_instructions.measure_metrics(Path(directory), InstructionsPlan(chosen.requests), say), chosen)


def _run_acl_instructions(chosen: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        plan = InstructionsPlan(chosen.requests, chosen.bindings)
        report(produce_instructions.measure_acls(Path(directory), plan, say), chosen)


def _run_acls(chosen: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        plan = AclPlan(rounds=chosen.rounds, bindings=chosen.bindings)
        report(acl_overhead.measure(Path(directory), plan, say), chosen)


def _run_quotas(chosen: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        report(quota_overhead.measure(Path(directory), QuotaPlan(rounds=chosen.rounds), say), chosen)
