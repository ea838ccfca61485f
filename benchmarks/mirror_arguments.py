"""The options of `python -m benchmarks mirror`, and the plan that they make."""

import argparse

from benchmarks.mirror import CASES, CODECS, MirrorPlan
from benchmarks.mirror_processes import ALL_MIRRORS, CLUSTERS


def add_to(program: argparse.ArgumentParser) -> None:
    """Add the options."""
    program.add_argument("--cases", nargs="+", choices=CASES, default=list(MirrorPlan.cases))
    program.add_argument("--mirrors", nargs="+", choices=ALL_MIRRORS, default=list(MirrorPlan.mirrors))
    program.add_argument("--clusters", choices=CLUSTERS, default=MirrorPlan.clusters, help="both (%(default)s)")
    program.add_argument("--record-bytes", type=int, nargs="+", default=list(MirrorPlan.record_bytes), metavar="N")
    program.add_argument("--codecs", nargs="+", choices=CODECS, default=list(MirrorPlan.codecs))
    program.add_argument("--warm-up-mb", type=int, default=MirrorPlan.warm_up_mb, help="copied before (%(default)s)")
    program.add_argument("--total-mb", type=int, default=MirrorPlan.total_mb, help="measured (%(default)s)")
    program.add_argument("--many-partitions", type=int, default=MirrorPlan.many_partitions, help="(%(default)s)")
    program.add_argument("--watched-s", type=float, default=MirrorPlan.watched_s, metavar="SECONDS")
    program.add_argument("--repetitions", type=int, default=MirrorPlan.repetitions, help="of linked (%(default)s)")


def plan_of(chosen: argparse.Namespace) -> MirrorPlan:
    """Return what the options say."""
    return MirrorPlan(
        cases=chosen.cases,
        mirrors=chosen.mirrors,
        clusters=chosen.clusters,
        record_bytes=chosen.record_bytes,
        codecs=chosen.codecs,
        warm_up_mb=chosen.warm_up_mb,
        total_mb=chosen.total_mb,
        many_partitions=chosen.many_partitions,
        watched_s=chosen.watched_s,
        repetitions=chosen.repetitions,
    )
