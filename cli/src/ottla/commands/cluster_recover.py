"""`ottla cluster recover`: a cluster's state rebuilt in an empty etcd, from what its brokers have on their disks."""

import asyncio
import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.commands.local_options import Directory
from ottla.commands.recover_options import Backup, ClusterName, Config, DryRun, Etcd, WithoutBroker
from ottla.confirmation import Yes, ask_or_refuse
from ottla.kafka_client import Json
from ottla.output import note, print_json
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.recover.merging import RecoveryPlan
    from ottla_core.cluster.state.recovery_facts import BrokerFacts

FactsFiles = Annotated[
    list[Path], typer.Argument(metavar="FACTS…", help="Files that `ottla cluster recover inspect` has written.")
]


def inspect(
    *,
    directories: Annotated[
        list[Path], typer.Argument(metavar="LOG_DIR…", help="All log directories of one broker, as log.dirs says.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FACTS", help="Where to write what was found.")],
    as_json: Json = False,
) -> None:
    """Write down what the log directories of a stopped broker know of its cluster; nothing in them is changed.

    Run it on each broker's host, then bring the files together for [bold]plan[/bold] and [bold]apply[/bold].

    [bold]Examples[/bold]

      ottla cluster recover inspect /var/lib/ottla/data --output broker-1.facts
    """
    from ottla.recover.files import write_private  # noqa: PLC0415
    from ottla_core.cluster.state.recovery_facts import encode_facts  # noqa: PLC0415

    with ExitStack() as held:
        facts = _inspected(directories, held)
    write_private(output, json.dumps(encode_facts(facts)).encode())
    logs = sum(len(each.logs) for each in facts.directories)
    revision = None if facts.copy is None else facts.copy.revision
    if as_json:
        print_json({"broker": facts.broker_id, "cluster_id": facts.cluster_id, "logs": logs, "revision": revision})
        return
    copy = "no copy of the state" if revision is None else f"a copy of the state of revision {revision}"
    print(f"broker {facts.broker_id} of cluster {facts.cluster_id}: {copy}, {counted(logs, 'log')}; wrote {output}")
    for directory in facts.directories:
        if directory.copy_problem is not None:
            note(f"- the copy in {directory.path} may not be the newest: {directory.copy_problem}")


def plan(
    *,
    facts: FactsFiles,
    backup: Backup = None,
    without_broker: WithoutBroker = None,
    cluster_name: ClusterName = None,
    as_json: Json = False,
) -> None:
    """Show what a recovery would write into etcd; needs no etcd, and changes nothing.

    [bold]Examples[/bold]

      ottla cluster recover plan broker-1.facts broker-2.facts broker-3.facts
    """
    from ottla.recover.files import read_facts  # noqa: PLC0415

    _show(_planned(read_facts(facts), backup, without_broker, cluster_name), as_json=as_json)


def apply(
    *,
    facts: FactsFiles,
    etcd: Etcd = None,
    config: Config = None,
    backup: Backup = None,
    without_broker: WithoutBroker = None,
    cluster_name: ClusterName = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Write the state into an empty etcd, after showing the plan; run it again if it was cut short.

    All processes of the cluster have to be stopped, or to have been started on the empty etcd only.

    [bold]Examples[/bold]

      ottla cluster recover apply broker-*.facts --etcd http://10.0.0.5:2379
    """
    from ottla.recover.etcd_access import etcd_settings, named_etcd  # noqa: PLC0415
    from ottla.recover.files import read_facts  # noqa: PLC0415
    from ottla.recover.running import carry_out  # noqa: PLC0415

    if etcd is None and config is None:
        raise UsageProblem("say which etcd: --etcd URL, or --config with the properties file of a service")
    if cluster_name is None and config is not None:
        cluster_name = etcd_settings(etcd, config, None).cluster_name
    found = _planned(read_facts(facts), backup, without_broker, cluster_name)
    _show(found, as_json=as_json)
    if not dry_run:
        ask_or_refuse("Write this state into etcd?", yes=yes, refusal="nothing was written")
    settings = etcd_settings(etcd, config, found.cluster_name)
    asyncio.run(carry_out(found, named_etcd(settings), dry_run=dry_run))
    if not dry_run:
        note(f"wrote {counted(len(found.entries), 'key')}; start the cluster's processes now")


def local(
    *,
    directory: Directory = None,
    backup: Backup = None,
    without_broker: WithoutBroker = None,
    new_etcd: Annotated[
        bool,
        typer.Option("--new-etcd", help="Keep the data of an etcd aside that cannot be started, and begin anew."),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Do all of it for a local cluster that is stopped and has lost its etcd.

    [bold]Examples[/bold]

      ottla cluster recover local

      ottla cluster recover local --dir /tmp/try --dry-run
    """
    from ottla.local.cluster_directory import ClusterDirectory, default_directory  # noqa: PLC0415
    from ottla.recover.etcd_access import local_etcd, local_report, set_etcd_aside  # noqa: PLC0415
    from ottla.recover.local_brokers import local_log_directories, name_of_cluster  # noqa: PLC0415
    from ottla.recover.running import carry_out  # noqa: PLC0415
    from ottla_operations.local_clusters.process_identity import is_alive  # noqa: PLC0415

    where = ClusterDirectory(directory or default_directory())
    report = local_report(where)
    if is_alive(report.supervisor):
        raise OperationError(f"the cluster in {where.path} runs; stop it with `ottla down --dir {where.path}`")
    given_up = set(without_broker or ())
    brokers = {each: paths for each, paths in local_log_directories(where, report).items() if each not in given_up}
    with ExitStack() as held:  # until the state is written: no broker may change what the plan goes by
        facts = [_inspected(paths, held) for paths in brokers.values()]
        found = _planned(facts, backup, without_broker, name_of_cluster(where))
        _show(found, as_json=as_json)
        if not dry_run:
            ask_or_refuse("Write this state into etcd?", yes=yes, refusal="nothing was written")
            if new_etcd:
                for kept in set_etcd_aside(where):
                    note(f"the data of the former etcd is kept in {kept}")
        asyncio.run(carry_out(found, local_etcd(where, cluster_name=found.cluster_name), dry_run=dry_run))
    if not dry_run:
        note(f"wrote {counted(len(found.entries), 'key')}; start the cluster with `ottla up`")


def _inspected(directories: "Sequence[Path]", held: ExitStack) -> "BrokerFacts":
    """Return what log directories hold; no broker can use them while `held` lasts."""
    from ottla_broker.log.directories.directory_facts import inspected_broker  # noqa: PLC0415
    from ottla_core.errors import OttlaError  # noqa: PLC0415

    try:
        return held.enter_context(inspected_broker(directories))
    except OttlaError as error:
        raise OperationError(str(error)) from None
    except OSError as error:
        raise OperationError(f"cannot read {error.filename or directories[0]}: {error.strerror}") from None


def _planned(
    facts: "Sequence[BrokerFacts]",
    backups: "Sequence[Path] | None",
    without: "Sequence[int] | None",
    cluster_name: str | None,
) -> "RecoveryPlan":
    from ottla.recover.files import read_backup  # noqa: PLC0415
    from ottla.recover.merging import plan_recovery  # noqa: PLC0415
    from ottla_core.errors import OttlaError  # noqa: PLC0415

    try:
        return plan_recovery(
            facts,
            backups=[read_backup(path)[0] for path in backups or ()],
            without=frozenset(without or ()),
            cluster_name=cluster_name,
            now_ms=time.time_ns() // 1_000_000,
        )
    except OttlaError as error:
        raise OperationError(str(error)) from None


def _show(found: "RecoveryPlan", *, as_json: bool) -> None:
    from ottla.recover.plan_display import plan_document, show_plan  # noqa: PLC0415

    if as_json:
        print_json(plan_document(found))
    else:
        show_plan(found)
