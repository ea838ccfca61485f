"""`ottla cluster backup`, `ottla cluster restore`: a cluster's state as one file, and back into etcd."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.commands.local_options import Directory
from ottla.commands.recover_options import ClusterName, Config, DryRun, Etcd
from ottla.confirmation import Yes, ask_or_refuse
from ottla.kafka_client import Json
from ottla.output import note, print_json
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.quantities import counted

if TYPE_CHECKING:
    from ottla_core.cluster.etcd.client import EtcdClient

OLDER_THAN_LOGS = (
    "a backup is older than the logs: topics, settings and in-sync replicas that have changed since are as they were,"
    " and a replica that was in sync then may lead without what was acknowledged since; access control lists, users,"
    " delegation tokens and quotas that were taken back since are there again. Where the log directories are"
    " there, `ottla cluster recover` with --backup FILE knows better"
)


def backup(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")],
    etcd: Etcd = None,
    config: Config = None,
    cluster_name: ClusterName = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Write the cluster's state into one file: topics, settings, links, in-sync replicas, no records.

    All of it is of one moment. The file is for its owner only.

    [bold]Examples[/bold]

      ottla cluster backup ottla-state.json

      ottla cluster backup ottla-state.json --config /etc/ottla/broker.properties
    """
    from ottla.recover.backups import NoState, encode_backup, state_of  # noqa: PLC0415
    from ottla.recover.files import write_private  # noqa: PLC0415
    from ottla_core.cluster.state.keys import KeySpace  # noqa: PLC0415
    from ottla_core.errors import OttlaError  # noqa: PLC0415

    name = _cluster_name(etcd, config, cluster_name)

    async def read() -> bytes:
        async with _etcd(etcd, config, cluster_name, directory) as client:
            prefix = KeySpace(name).prefix
            listing = await client.list_prefix(prefix)
            state = state_of(listing.entries, listing.revision, name, prefix)
            summary.update(keys=len(state.entries), revision=state.revision, cluster_id=state.cluster_id)
            return encode_backup(state, time.time_ns() // 1_000_000)

    summary: dict[str, object] = {"file": str(file)}
    try:
        write_private(file, asyncio.run(read()))
    except NoState as error:
        raise OperationError(str(error)) from None
    except OttlaError as error:
        raise OperationError(f"cannot read the cluster's state from etcd: {error}") from None
    if as_json:
        print_json(summary)
    else:
        print(f"wrote {summary['keys']} keys of revision {summary['revision']} to {file}")


def restore(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    etcd: Etcd = None,
    config: Config = None,
    cluster_name: ClusterName = None,
    directory: Directory = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Write the state of a backup into an etcd that has none.

    All processes of the cluster have to be stopped. Prefer `ottla cluster recover` with --backup where the log
    directories of the brokers are there.

    [bold]Examples[/bold]

      ottla cluster restore ottla-state.json --etcd http://10.0.0.5:2379
    """
    from ottla.recover.files import read_backup  # noqa: PLC0415
    from ottla.recover.merging import plan_recovery  # noqa: PLC0415
    from ottla.recover.plan_display import plan_document  # noqa: PLC0415
    from ottla.recover.running import carry_out  # noqa: PLC0415
    from ottla_core.errors import OttlaError  # noqa: PLC0415

    state, made = read_backup(file)
    name = cluster_name or (_cluster_name(etcd, config, None) if config is not None else state.cluster_name)
    try:
        plan = plan_recovery([], backups=[state], cluster_name=name, now_ms=time.time_ns() // 1_000_000)
    except OttlaError as error:
        raise OperationError(f"cannot use the backup {file}: {error}") from None
    keys = counted(len(state.entries), "key")
    note(f"{file}: cluster {state.cluster_name}, id {state.cluster_id}, {keys}, of {made}")
    note(f"- {OLDER_THAN_LOGS}")
    if not dry_run:
        ask_or_refuse("Write this state into etcd?", yes=yes, refusal="nothing was restored")
    asyncio.run(carry_out(plan, _etcd(etcd, config, name, directory), dry_run=dry_run))
    if as_json:
        print_json({**plan_document(plan), "dry_run": dry_run})
    elif not dry_run:
        print(f"wrote {counted(len(plan.entries), 'key')}; start the cluster's processes now")


@asynccontextmanager
async def _etcd(
    etcd: str | None, config: Path | None, cluster_name: str | None, directory: Path | None
) -> "AsyncIterator[EtcdClient]":
    from ottla.local.cluster_directory import ClusterDirectory, default_directory  # noqa: PLC0415
    from ottla.recover.etcd_access import etcd_settings, local_etcd, named_etcd  # noqa: PLC0415

    if etcd is not None or config is not None:
        if directory is not None and etcd is not None:
            raise UsageProblem("--dir and --etcd name two clusters; leave one of them out")
        async with named_etcd(etcd_settings(etcd, config, cluster_name)) as client:
            yield client
    else:
        found = ClusterDirectory(directory or default_directory())
        async with local_etcd(found, cluster_name=cluster_name) as client:
            yield client


def _cluster_name(etcd: str | None, config: Path | None, cluster_name: str | None) -> str:
    from ottla.recover.etcd_access import etcd_settings  # noqa: PLC0415

    return etcd_settings(etcd, config, cluster_name).cluster_name
