"""The command line: one program per measurement, and `all`, which is also what runs if none is named."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from confluent_kafka import KafkaException

from benchmarks import (
    catch_up,
    compaction,
    connect,
    connect_idle,
    connect_sql,
    connections,
    console_arguments,
    failover,
    floor,
    latency,
    many_partitions,
    mirror,
    mirror_arguments,
    overheads,
    replication,
    secured,
    small_requests,
    spark,
    spark_cluster,
    sql_start,
    throughput,
    transaction_arguments,
)
from benchmarks.client import BenchmarkFailed, Subject, temporary_topic
from benchmarks.connections import ConnectionsPlan
from benchmarks.footprint import footprint, memory
from benchmarks.group_cases import CASES, GroupPlan
from benchmarks.group_cases import run as run_groups
from benchmarks.printing import report, say
from benchmarks.process_stats import NoListenerError
from benchmarks.side_by_side import Plan, case_table, run
from benchmarks.spark import SparkPlan
from benchmarks.spark_cluster import SparkClusterPlan
from benchmarks.sql_start import SqlStartPlan
from benchmarks.targets import TARGETS, CommandTarget, Target
from benchmarks.throughput import ACKS, Load


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line says, or everything if it says nothing, and return the exit code."""
    chosen = _parser().parse_args((sys.argv[1:] if arguments is None else arguments) or ["all"])
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each start of a service would compile it all again
    run_chosen: Callable[[argparse.Namespace], None] = chosen.run
    try:
        run_chosen(chosen)
    except (BenchmarkFailed, KafkaException, NoListenerError, OSError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures what a broker costs.")
    programs = parser.add_subparsers(required=True, metavar="PROGRAM")

    both = _program(programs, "throughput", "publish, then read the same records back", _run_throughput)
    produce = _program(programs, "produce", "publish as fast as one client can", _run_produce)
    consume = _program(programs, "consume", "read back records that are published first", _run_consume)
    for program in (both, produce, consume):
        program.add_argument("--record-bytes", type=int, default=1000, help="size of each value (%(default)s)")
        program.add_argument("--total-mb", type=int, default=1000, help="megabytes of values (%(default)s)")
        program.add_argument("--acks", choices=ACKS, default="1")
    small = _program(programs, "small", "requests of one 100-byte record", _run_small)
    small.add_argument("--variant", choices=small_requests.VARIANTS, default="pipelined")
    small.add_argument("--requests", type=int, default=50_000)
    latencies = _program(programs, "latency", "time until acknowledged, and until read", _run_latency)
    latencies.add_argument("--rate", type=float, default=500.0, help="records per second (%(default)g)")
    latencies.add_argument("--records", type=int, default=10_000)
    memories = _program(programs, "memory", "idle memory, and what partitions add", _run_memory)
    memories.add_argument("--partitions", type=int, default=1000)
    compactions = _program(programs, "compaction", "shrink a topic, and what others notice of it", _run_compaction)
    compactions.add_argument("--record-bytes", type=int, default=1000, help="size of each value (%(default)s)")
    compactions.add_argument("--total-mb", type=int, default=1000, help="megabytes of values (%(default)s)")

    _add_start(programs)
    _add_groups(programs)
    _add_connections(programs)
    secured.add_to(programs)
    transaction_arguments.add_to(programs)
    _add_failover(programs)
    _add_replication(programs)
    _add_connect(programs)
    _add_connect_sql(programs)
    _add_connect_idle(programs)
    _add_spark(programs)
    _add_spark_cluster(programs)
    overheads.add_to(programs)
    _add_sql_start(programs)
    console_arguments.add_to(programs)
    _add_mirror(programs)
    _add_floor(programs)
    _add_all(programs)
    return parser


Programs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - argparse names it no other way


def _program(
    programs: Programs, name: str, purpose: str, run_program: Callable[[argparse.Namespace], None]
) -> argparse.ArgumentParser:
    """Add a program that measures a broker which runs already."""
    program = programs.add_parser(name, help=purpose, description=purpose)
    program.set_defaults(run=run_program)
    program.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    program.add_argument("--pid", type=int, help="the broker's process (default: whoever listens on the port)")
    program.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return program


def _add_start(programs: Programs) -> None:
    purpose = "start time and memory of a broker that is started here"
    program = programs.add_parser("start", help=purpose, description=purpose)
    program.set_defaults(run=_run_start)
    which = program.add_mutually_exclusive_group(required=True)
    which.add_argument("--target", choices=TARGETS)
    which.add_argument("--command", help="a command that runs a broker in the foreground, on data of its own")
    program.add_argument("--bootstrap", metavar="HOST:PORT", help="where the command's broker answers")
    program.add_argument("--partitions", type=int, default=1000, help="how many to add (%(default)s)")
    program.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _add_groups(programs: Programs) -> None:
    purpose = "consumer groups on a cluster that is started here"
    program = programs.add_parser("groups", help=purpose, description=purpose)
    program.set_defaults(run=_run_groups)
    program.add_argument("--target", choices=("ottla", "kafka"), default=GroupPlan.target)
    program.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    program.add_argument("--members", type=int, default=GroupPlan.members, help="of all groups (%(default)s)")
    program.add_argument("--groups", type=int, default=GroupPlan.groups)
    program.add_argument("--stability-s", type=float, default=GroupPlan.stability_s, metavar="SECONDS")
    program.add_argument("--rebalance-members", type=int, default=GroupPlan.rebalance_members)
    program.add_argument("--offsets", type=int, default=GroupPlan.offsets, help="in the shard to load (%(default)s)")
    program.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _add_replication(programs: Programs) -> None:
    purpose = "acks=all beside acks=1, and the followers' CPU, on three brokers that are started here"
    program = programs.add_parser("replication", help=purpose, description=purpose)
    program.set_defaults(run=_run_replication)
    program.add_argument("--record-bytes", type=int, default=1000, help="size of each value (%(default)s)")
    program.add_argument("--total-mb", type=int, default=500, help="megabytes of values per run (%(default)s)")
    program.add_argument("--repetitions", type=int, default=5, help="of every run (%(default)s)")
    program.add_argument("--kafka", action="store_true", help="also three reference Kafkas (needs Java and its jars)")
    program.add_argument("--json", action="store_true", help="print JSON instead of tables")
    purpose = "thousands of partitions at factor 3, on three brokers that are started here"
    scale = programs.add_parser("partitions", help=purpose, description=purpose)
    scale.set_defaults(run=_run_partitions)
    scale.add_argument("--sizes", nargs="+", type=int, default=[1250, 2500, 5000], help="how many (%(default)s)")
    scale.add_argument("--json", action="store_true", help="print JSON instead of tables")
    purpose = "a follower that has nothing yet, beside sendfile, on two brokers that are started here"
    catching_up = programs.add_parser("catch-up", help=purpose, description=purpose)
    catching_up.set_defaults(run=_run_catch_up)
    catching_up.add_argument("--total-mb", type=int, default=10_000, help="megabytes of values (%(default)s)")
    catching_up.add_argument("--batch-bytes", type=int, default=1_000_000, help="of values (%(default)s)")
    catching_up.add_argument("--partitions", type=int, default=1)
    catching_up.add_argument("--repetitions", type=int, default=1)
    catching_up.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _add_connections(programs: Programs) -> None:
    purpose = "very many connections, of which some are busy, on brokers that are started here"
    program = programs.add_parser("connections", help=purpose, description=purpose)
    program.set_defaults(run=_run_connections)
    program.add_argument("--connections", type=int, default=ConnectionsPlan.connections, help="(%(default)s)")
    program.add_argument("--busy", type=int, default=ConnectionsPlan.busy, help="how many publish (%(default)s)")
    program.add_argument("--rate", type=float, default=ConnectionsPlan.rate_per_s, help="requests/s (%(default)g)")
    program.add_argument("--seconds", type=float, default=ConnectionsPlan.seconds, help="of load (%(default)g)")
    program.add_argument("--repetitions", type=int, default=ConnectionsPlan.repetitions, help="(%(default)s)")
    program.add_argument("--kafka", action="store_true", help="also a reference Kafka (needs Java and its jars)")
    program.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _add_connect(programs: Programs) -> None:
    purpose = "Connect's tasks beside plain loops, with one broker that is started here"
    program = programs.add_parser("connect", help=purpose, description=purpose)
    program.set_defaults(run=_run_connect)
    program.add_argument("--records", type=int, default=1_000_000, help="of each run (%(default)s)")
    program.add_argument("--repetitions", type=int, default=3, help="of every run (%(default)s)")
    program.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _add_connect_sql(programs: Programs) -> None:
    purpose = "the SQL sink beside hand-written inserts, on SQLite and a PostgreSQL that is started here"
    program = programs.add_parser("connect-sql", help=purpose, description=purpose)
    program.set_defaults(run=_run_connect_sql)
    program.add_argument("--rows", type=int, default=100_000, help="of each run (%(default)s)")
    program.add_argument("--repetitions", type=int, default=5, help="of every run (%(default)s)")
    program.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _add_connect_idle(programs: Programs) -> None:
    purpose = "what connectors that have nothing to do cost, with a broker and a worker that are started here"
    program = programs.add_parser("connect-idle", help=purpose, description=purpose)
    program.set_defaults(run=_run_connect_idle)
    program.add_argument("--sizes", type=int, nargs="+", default=[0, 1, 10, 30], help="connectors (0 1 10 30)")
    program.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _add_spark(programs: Programs) -> None:
    purpose = "reading and writing by Spark, beside Spark's own Kafka source, with one broker that is started here"
    program = programs.add_parser("spark", help=purpose, description=purpose)
    program.set_defaults(run=_run_spark)
    program.add_argument("--records", type=int, default=SparkPlan.records, help="of 100 bytes, per run (%(default)s)")
    program.add_argument("--repetitions", type=int, default=SparkPlan.repetitions, help="of every run (%(default)s)")
    program.add_argument("--work-dir", type=Path, help="where data goes while it runs")
    program.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _add_spark_cluster(programs: Programs) -> None:
    purpose = "a Spark pipeline that is bound by Python, on one worker and on two, on a cluster that is started here"
    program = programs.add_parser("spark-cluster", help=purpose, description=purpose)
    program.set_defaults(run=_run_spark_cluster)
    program.add_argument("--records", type=int, default=SparkClusterPlan.records, help="of each run (%(default)s)")
    program.add_argument("--repetitions", type=int, default=SparkClusterPlan.repetitions, help="(%(default)s)")
    program.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _add_sql_start(programs: Programs) -> None:
    purpose = "the time to the first answer of ottla sql, beside a bare PySpark, with one broker that is started here"
    program = programs.add_parser("sql-start", help=purpose, description=purpose)
    program.set_defaults(run=_run_sql_start)
    program.add_argument("--records", type=int, default=SqlStartPlan.records, help="of the topic (%(default)s)")
    program.add_argument("--repetitions", type=int, default=SqlStartPlan.repetitions, help="rounds (%(default)s)")
    program.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _add_mirror(programs: Programs) -> None:
    purpose = (
        "copying topics between two clusters that are started here, beside MirrorMaker 2 (needs Java and its jars)"
    )
    program = programs.add_parser("mirror", help=purpose, description=purpose)
    program.set_defaults(run=_run_mirror)
    mirror_arguments.add_to(program)
    program.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _add_failover(programs: Programs) -> None:
    purpose = "what clients notice when brokers, controllers and etcd die, on a cluster that is started here"
    program = programs.add_parser("failover", help=purpose, description=purpose)
    program.set_defaults(run=_run_failover)
    program.add_argument("--cases", nargs="+", choices=failover.CASES, default=list(failover.CASES))
    program.add_argument("--lease-ttl-ms", type=int, default=6000, help="the session timeout (%(default)s)")
    program.add_argument("--repetitions", type=int, default=20, help="kills and stops of a leader (%(default)s)")
    program.add_argument("--etcd-outage-s", type=float, default=120.0, metavar="SECONDS")
    program.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _add_floor(programs: Programs) -> None:
    purpose = "run the floor until it is stopped; prints its address"
    program = programs.add_parser("floor", help=purpose, description=purpose)
    program.set_defaults(run=lambda chosen: floor.serve(chosen.dir, chosen.port))
    program.add_argument("--dir", type=Path, required=True, help="an existing directory for its files")
    program.add_argument("--port", type=int, default=0)


def _add_all(programs: Programs) -> None:
    purpose = "everything, side by side: the floor and a fresh Ottla"
    program = programs.add_parser("all", help=purpose, description=purpose)
    program.set_defaults(run=_run_all)
    program.add_argument("--kafka", action="store_true", help="also a reference Kafka (needs Java and its jars)")
    program.add_argument("--targets", nargs="+", choices=TARGETS, default=["floor", "ottla"])
    program.add_argument(
        "--beside", type=Path, metavar="DIRECTORY", help="also another checkout of Ottla, set up there"
    )
    program.add_argument("--only", nargs="+", default=[], metavar="CASE", help="cases, by the beginning of the name")
    program.add_argument("--repetitions", type=int, default=Plan.repetitions)
    program.add_argument("--total-mb", type=int, default=Plan.total_mb, help="per repetition (%(default)s)")
    program.add_argument("--requests", type=int, default=Plan.requests, help="per repetition (%(default)s)")
    program.add_argument("--partitions", type=int, default=Plan.partitions)
    program.add_argument("--work-dir", type=Path, help="where data goes while it runs")
    program.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _run_throughput(chosen: argparse.Namespace) -> None:
    subject, load = _subject(chosen), _load(chosen)
    with temporary_topic(subject.bootstrap) as topic:
        produced = throughput.produce(subject, topic, load)
        consumed = throughput.consume(subject, topic, load.records)
    report({"produce": produced, "consume": consumed}, chosen)


def _run_produce(chosen: argparse.Namespace) -> None:
    subject = _subject(chosen)
    with temporary_topic(subject.bootstrap) as topic:
        report({"produce": throughput.produce(subject, topic, _load(chosen))}, chosen)


def _run_consume(chosen: argparse.Namespace) -> None:
    subject, load = _subject(chosen), _load(chosen)
    with temporary_topic(subject.bootstrap) as topic:
        throughput.produce(subject, topic, load)
        report({"consume": throughput.consume(subject, topic, load.records)}, chosen)


def _run_small(chosen: argparse.Namespace) -> None:
    subject = _subject(chosen)
    with temporary_topic(subject.bootstrap) as topic:
        report({chosen.variant: small_requests.VARIANTS[chosen.variant](subject, topic, chosen.requests)}, chosen)


def _run_latency(chosen: argparse.Namespace) -> None:
    subject = _subject(chosen)
    with temporary_topic(subject.bootstrap) as topic:
        found = latency.measure(subject, topic, records=chosen.records, rate_per_s=chosen.rate)
    report({f"at {chosen.rate:g}/s": found}, chosen)


def _run_memory(chosen: argparse.Namespace) -> None:
    report({"memory": memory(_subject(chosen), chosen.partitions)}, chosen)


def _run_compaction(chosen: argparse.Namespace) -> None:
    load = compaction.CompactionLoad(chosen.record_bytes, chosen.total_mb * 1_000_000)
    report({"compaction": compaction.measure(_subject(chosen), load)}, chosen)


def _run_start(chosen: argparse.Namespace) -> None:
    if chosen.command and not chosen.bootstrap:
        raise BenchmarkFailed("--command needs --bootstrap: where that broker answers")
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        target: Target = (
            CommandTarget(chosen.command, chosen.bootstrap)
            if chosen.command
            else TARGETS[chosen.target](Path(directory) / chosen.target)
        )
        partitions = 0 if target.name == "floor" else chosen.partitions
        report({target.name: footprint(target, partitions)}, chosen)


def _run_groups(chosen: argparse.Namespace) -> None:
    plan = GroupPlan(
        target=chosen.target,
        cases=tuple(chosen.cases),
        members=chosen.members,
        groups=chosen.groups,
        stability_s=chosen.stability_s,
        rebalance_members=chosen.rebalance_members,
        offsets=chosen.offsets,
    )
    report(run_groups(plan, say), chosen)


def _run_replication(chosen: argparse.Namespace) -> None:
    plan = replication.ReplicationPlan(
        record_bytes=chosen.record_bytes,
        total_bytes=chosen.total_mb * 1_000_000,
        repetitions=chosen.repetitions,
        kafka=chosen.kafka,
    )
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        report(replication.measure(Path(directory), plan, say), chosen)


def _run_connections(chosen: argparse.Namespace) -> None:
    plan = ConnectionsPlan(
        connections=chosen.connections,
        busy=chosen.busy,
        rate_per_s=chosen.rate,
        seconds=chosen.seconds,
        repetitions=chosen.repetitions,
    )
    makers = {name: TARGETS[name] for name in ("ottla", "kafka") if name == "ottla" or chosen.kafka}
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        found = connections.measure(makers, Path(directory), plan, say)
    print(json.dumps(found, indent=2) if chosen.json else case_table(found))


def _run_partitions(chosen: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        report(many_partitions.measure(Path(directory), chosen.sizes, say), chosen)


def _run_catch_up(chosen: argparse.Namespace) -> None:
    plan = catch_up.CatchUpPlan(
        batch_bytes=chosen.batch_bytes,
        total_bytes=chosen.total_mb * 1_000_000,
        partitions=chosen.partitions,
        repetitions=chosen.repetitions,
    )
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        report(catch_up.measure(Path(directory), plan, say), chosen)


def _run_connect(chosen: argparse.Namespace) -> None:
    plan = connect.ConnectPlan(records=chosen.records, repetitions=chosen.repetitions)
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        report(connect.measure(Path(directory), plan, say), chosen)


def _run_connect_sql(chosen: argparse.Namespace) -> None:
    plan = connect_sql.SqlPlan(rows=chosen.rows, repetitions=chosen.repetitions)
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        report(connect_sql.measure(Path(directory), plan, say), chosen)


def _run_connect_idle(chosen: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        report(connect_idle.measure(Path(directory), chosen.sizes, say), chosen)


def _run_spark_cluster(chosen: argparse.Namespace) -> None:
    plan = SparkClusterPlan(records=chosen.records, repetitions=chosen.repetitions)
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        report(spark_cluster.measure(Path(directory), plan, say), chosen)


def _run_sql_start(chosen: argparse.Namespace) -> None:
    plan = SqlStartPlan(records=chosen.records, repetitions=chosen.repetitions)
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        report(sql_start.measure(Path(directory), plan, say), chosen)


def _run_mirror(chosen: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        report(mirror.measure(Path(directory), mirror_arguments.plan_of(chosen), say), chosen)


def _run_spark(chosen: argparse.Namespace) -> None:
    plan = SparkPlan(records=chosen.records, repetitions=chosen.repetitions)
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-", dir=chosen.work_dir) as directory:
        report(spark.measure(Path(directory), plan, say), chosen)


def _run_failover(chosen: argparse.Namespace) -> None:
    plan = failover.FailoverPlan(
        cases=tuple(chosen.cases),
        lease_ttl_ms=chosen.lease_ttl_ms,
        repetitions=chosen.repetitions,
        etcd_outage_s=chosen.etcd_outage_s,
    )
    report(failover.run(plan, lambda what: print(what, file=sys.stderr, flush=True)), chosen)


def _run_all(chosen: argparse.Namespace) -> None:
    plan = Plan(
        targets=[*chosen.targets, *(["kafka"] if chosen.kafka and "kafka" not in chosen.targets else [])],
        only=chosen.only,
        repetitions=chosen.repetitions,
        total_mb=chosen.total_mb,
        requests=chosen.requests,
        partitions=chosen.partitions,
        directory=chosen.work_dir,
        beside=chosen.beside,
    )
    results = run(plan, say)
    print(json.dumps(results.to_document(plan), indent=2) if chosen.json else results.to_text())


def _subject(chosen: argparse.Namespace) -> Subject:
    return Subject.at(chosen.bootstrap, chosen.pid)


def _load(chosen: argparse.Namespace) -> Load:
    return Load(chosen.record_bytes, chosen.total_mb * 1_000_000, chosen.acks)


if __name__ == "__main__":
    sys.exit(main())
