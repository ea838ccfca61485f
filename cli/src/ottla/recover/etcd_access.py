"""The etcd that a backup, a restoration or a recovery works on: named, or that of a local cluster.

Settings of etcd are those of the services: from a service's properties file, from `OTTLA_ETCD_…` variables and files
that these name, and as typed. A local cluster has an etcd of its own, which runs with it; while the cluster is
stopped, it is started here for as long as it is needed, and the cluster's directory is held meanwhile.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from ottla.local import ports
from ottla.local.cluster_directory import ClusterDirectory, DirectoryInUse, UnusableDirectory
from ottla.local.etcd_binary import EtcdNotFound, find_etcd
from ottla.local.launch_options import LaunchOptions, settle
from ottla.local.plan import ClusterPlan, internal_port_count, plan_cluster
from ottla.local.process import ProcessFailed
from ottla.local.secure_plan import etcd_root_properties
from ottla.local.supervisor import StopSignal, Supervisor
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.config import EtcdSettings, validated
from ottla_core.environment_settings import Keys, environment_settings
from ottla_core.errors import ConfigurationError
from ottla_core.properties_file import read_properties
from ottla_operations.errors import OperationError
from ottla_operations.local_clusters.cluster_report import ClusterPhase, ClusterReport
from ottla_operations.local_clusters.process_identity import is_alive

LOST_SUFFIX = ".lost"


def etcd_settings(
    endpoints: str | None, config: Path | None, cluster_name: str | None, files: Mapping[str, str] | None = None
) -> EtcdSettings:
    """Return how etcd is reached; `files` are settings of a certificate that count more than the environment's.

    Raises:
        OperationError: a file cannot be read, or a setting is wrong.
    """
    known = EtcdSettings.known_keys()
    try:
        values = {} if config is None else {k: v for k, v in read_properties(config).items() if k in known}
        found = environment_settings(Keys(known, (), ()), os.environ)
        values |= {each.key: each.value for each in found}
        if endpoints is not None:
            values["etcd.endpoints"] = endpoints
        values |= files or {}
        if cluster_name is not None:
            values["cluster.name"] = cluster_name
        return validated(EtcdSettings, values, {}, frozenset(each.key for each in found if each.is_from_file))
    except ConfigurationError as error:
        raise OperationError(str(error)) from None


@asynccontextmanager
async def named_etcd(settings: EtcdSettings) -> AsyncIterator[EtcdClient]:
    """Connect to an etcd that runs.

    Raises:
        OperationError: a setting is wrong.
    """
    try:
        etcd = EtcdClient.from_settings(settings)
    except ConfigurationError as error:
        raise OperationError(str(error)) from None
    try:
        yield etcd
    finally:
        await etcd.close()


def local_report(directory: ClusterDirectory) -> ClusterReport:
    """Return the last report of a local cluster.

    Raises:
        OperationError: there never was one.
    """
    try:
        report = directory.read_report()
    except UnusableDirectory as error:
        raise OperationError(str(error)) from None
    if report is None:
        raise OperationError(f"there is no cluster in {directory.path}; name its directory with --dir, or --etcd")
    return report


@asynccontextmanager
async def local_etcd(directory: ClusterDirectory, *, cluster_name: str | None = None) -> AsyncIterator[EtcdClient]:
    """Connect to the etcd of a local cluster; start it for that long if the cluster is stopped.

    Raises:
        OperationError: it cannot be started, or the cluster is just starting.
    """
    report = local_report(directory)
    files = etcd_root_properties(directory.path) if report.is_secure else None
    if is_alive(report.supervisor) or not report.embedded_etcd:
        async with named_etcd(etcd_settings(",".join(report.etcd), None, cluster_name, files)) as etcd:
            yield etcd
        return
    try:
        with directory.locked():
            async with (
                _started_etcd(_plan(directory, report), directory) as endpoints,
                named_etcd(etcd_settings(endpoints, None, cluster_name, files)) as etcd,
            ):
                yield etcd
    except DirectoryInUse:
        raise OperationError(f"a cluster is just starting in {directory.path}") from None
    except UnusableDirectory as error:
        raise OperationError(str(error)) from None


def set_etcd_aside(directory: ClusterDirectory) -> list[Path]:
    """Rename the data of a local cluster's etcd, so that it begins anew; return under which names it is kept.

    Raises:
        OperationError: the cluster runs, or it has an etcd of its own nowhere.
    """
    report = local_report(directory)
    if not report.embedded_etcd:
        raise OperationError("the cluster uses an etcd that was given by --etcd; give it an empty one in its place")
    try:
        with directory.locked():
            kept = []
            for member in range(1, report.etcd_nodes + 1):
                data = directory.etcd_data_of(member, report.etcd_nodes)
                if data.exists():
                    kept.append(data.rename(_free_name(data)))
            return kept
    except DirectoryInUse:
        raise OperationError(f"the cluster in {directory.path} runs; stop it with `ottla down`") from None


def _free_name(data: Path) -> Path:
    number = 1
    while (found := data.with_name(f"{data.name}{LOST_SUFFIX}-{number}")).exists():
        number += 1
    return found


def _plan(directory: ClusterDirectory, report: ClusterReport) -> ClusterPlan:
    options = settle(LaunchOptions(directory=directory.path), report)
    try:
        binary = find_etcd().path
    except EtcdNotFound as error:
        raise OperationError(str(error)) from None
    internal = ports.free_ports(internal_port_count(options), avoid=set(options.etcd_peer_ports))
    return plan_cluster(options, directory, internal, binary)


@asynccontextmanager
async def _started_etcd(plan: ClusterPlan, directory: ClusterDirectory) -> AsyncIterator[str]:
    """Run etcd's members, and nothing else of a plan; yields their addresses."""
    ready = asyncio.Event()

    def publish(phase: ClusterPhase, _processes: object) -> None:
        if phase == "running":
            ready.set()

    stop = StopSignal()
    running = asyncio.create_task(Supervisor([plan.stages[0]], publish).run(stop))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        yield ",".join(plan.etcd_endpoints)
    except ProcessFailed as error:
        raise OperationError(
            f"{error}\nIf the data of etcd in {directory.path} is lost, `ottla cluster recover local --new-etcd` "
            "keeps it aside and begins with an empty etcd"
        ) from None
    finally:
        waiting.cancel()
        stop.request()
        await asyncio.gather(running, return_exceptions=True)
