"""From options to a running cluster: the checks before the start, the plan, and the supervisor with its state file.

`run_cluster` is the whole life of a cluster in the calling process. `ottla up` runs it directly; with `--detach` it
runs in a process of its own (see `detached`).
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ottla.errors import CommandError, UsageProblem
from ottla.local import ports
from ottla.local.cluster_directory import ClusterDirectory, DirectoryInUse, UnusableDirectory
from ottla.local.cluster_report import (
    COORDINATORS_DEFAULT,
    ETCD_NODES_DEFAULT,
    ClusterPhase,
    ClusterReport,
    ProcessReport,
    process_name,
)
from ottla.local.departure import DepartureCheck
from ottla.local.etcd_binary import EtcdNotFound, find_etcd
from ottla.local.health import http_get
from ottla.local.plan import ClusterOptions, ClusterPlan, internal_port_count, plan_cluster
from ottla.local.process import ProcessFailed
from ottla.local.process_identity import ProcessIdentity, identify, is_alive, send_signal
from ottla.local.service_launcher import ServiceLauncher
from ottla.local.settings import BadSetting, Setting, check_settings, parse_setting, settled_settings
from ottla.local.settings_check import check_properties
from ottla.local.supervisor import StopRequested, StopSignal, Supervisor, log, log_to

BASE_PORT_DEFAULT = 9092
CONNECT_PORT_DEFAULT = 8083
LEFTOVER_DEADLINE_S = 10.0

OnChange = Callable[[ClusterReport], None]
StopSource = Callable[[asyncio.AbstractEventLoop, StopSignal], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """What was typed; None means as the last time in this directory, or the default.

    Attributes:
        base_port: 0 means any free ports.
        unset: names of settings to forget, as `Setting.name`.
        etcd_endpoints: empty means the embedded etcd.
        racks: empty means none.
        connect: how many Connect workers.
        connect_port: the first one's port; 0 means any free ports.
        force: start with fewer brokers even if partitions are lost.
    """

    directory: Path
    brokers: int | None = None
    controllers: int | None = None
    coordinators: int | None = None
    base_port: int | None = None
    etcd_endpoints: tuple[str, ...] | None = None
    settings: tuple[Setting, ...] = ()
    unset: tuple[str, ...] = ()
    etcd_nodes: int | None = None
    racks: tuple[str, ...] | None = None
    connect: int | None = None
    connect_port: int | None = None
    force: bool = False


def run_cluster(wish: Wish, on_change: OnChange, *, console: logging.Handler | None, stop_on: StopSource) -> None:
    """Start the cluster and keep it until a signal, or `stop_on`, asks for its end.

    Args:
        wish: what to run.
        on_change: told whenever the report changed; the first with state ``running`` means that all is ready.
        console: where the supervisor's messages go besides its log file.
        stop_on: registers further ways to stop, given the loop and the stop signal.

    Raises:
        CommandError: the cluster could not start or could not go on; nothing is left running.
        StopRequested: the end was asked for before everything was ready.
    """
    directory = ClusterDirectory(wish.directory)
    try:
        directory.create()
        with directory.locked():
            log_to(directory.supervisor_log, also_to=console)
            _run_locked(directory, wish, on_change, stop_on)
    except DirectoryInUse:
        raise CommandError(_describe_owner(directory)) from None
    except ProcessFailed as error:
        raise CommandError(f"{error}{_hint_at_settings(directory)}") from None
    except (UnusableDirectory, EtcdNotFound) as error:
        raise CommandError(str(error)) from None


def _hint_at_settings(directory: ClusterDirectory) -> str:
    """Return what to say of settings where a process does not start: a wrong one is remembered as well."""
    names = [parse_setting(text).name for text in directory.read_settings()]
    return (
        f"\nSettings are remembered; `ottla up --unset {names[-1]}` takes one back: {', '.join(names)}"
        if names
        else ""
    )


def _run_locked(directory: ClusterDirectory, wish: Wish, on_change: OnChange, stop_on: StopSource) -> None:
    last = directory.read_report()
    if last is not None:
        _end_leftovers(last)
    settings = _settle_settings(wish, directory)
    options = settle(replace(wish, settings=settings), last)
    plan = _plan(options, directory)
    if settings:
        _check_settings(plan, directory)
    directory.write_settings([each.text for each in settings])
    for path, text in plan.files.items():
        directory.write_config(path, text)
    departure = DepartureCheck(
        before=last.brokers if last else options.brokers,
        wanted=options.brokers,
        settings=directory.config_of(process_name("broker", 1)),
        force=wish.force,
    )
    asyncio.run(_supervise(plan, directory, on_change, stop_on, departure))


def _settle_settings(wish: Wish, directory: ClusterDirectory) -> tuple[Setting, ...]:
    try:
        remembered = [parse_setting(text) for text in directory.read_settings()]
    except BadSetting as error:
        raise CommandError(f"cannot read {directory.settings_file}: {error}") from None
    try:
        return settled_settings(remembered, wish.settings, wish.unset)
    except BadSetting as error:
        raise UsageProblem(f"--unset: {error}") from None


def _check_settings(plan: ClusterPlan, directory: ClusterDirectory) -> None:
    """See that the services will take what their files say, before any of them starts."""
    by_role: dict[str, list[str]] = {}
    for spec in plan.processes:
        if (text := plan.files.get(directory.config_of(spec.name))) is not None:
            by_role.setdefault(spec.role, []).append(text)
    check_properties(by_role)


def settle(wish: Wish, last: ClusterReport | None) -> ClusterOptions:
    """Return the options: what was typed, else what this directory last ran with, else the default.

    Raises:
        CommandError: the directory's etcd has another number of members than was typed, or Connect workers have no
            group coordinator, or the settings do not fit so many brokers.
    """
    brokers = wish.brokers or (last.brokers if last else 1)
    try:
        check_settings(wish.settings, brokers)
    except BadSetting as error:
        raise UsageProblem(f"--set: {error}") from None
    etcd = wish.etcd_endpoints
    if etcd is None:
        etcd = () if last is None or last.embedded_etcd else last.etcd
    coordinators = wish.coordinators
    if coordinators is None:
        coordinators = last.coordinators if last else COORDINATORS_DEFAULT
    racks = wish.racks
    if racks is None:
        racks = last.racks if last else ()
    etcd_nodes = _settle_etcd_nodes(wish, last)
    base_port, peer_ports = _settle_ports(wish, last, brokers, etcd_nodes)
    connect_ports = _settle_connect_ports(wish, last, avoid=(*range(base_port, base_port + brokers), *peer_ports))
    if connect_ports and not coordinators:
        raise CommandError("Connect workers form a consumer group, which needs a group coordinator: --coordinators 1")
    return ClusterOptions(
        brokers=brokers,
        controllers=wish.controllers or (last.controllers if last else 1),
        coordinators=coordinators,
        base_port=base_port,
        etcd_endpoints=etcd,
        settings=wish.settings,
        etcd_nodes=etcd_nodes,
        etcd_peer_ports=peer_ports,
        racks=racks,
        connect_ports=connect_ports,
    )


def _settle_etcd_nodes(wish: Wish, last: ClusterReport | None) -> int:
    """Return the number of etcd's members, which is part of the data that they keep."""
    if last is None or (not last.embedded_etcd and not last.etcd_peer_ports):
        return wish.etcd_nodes or (last.etcd_nodes if last else ETCD_NODES_DEFAULT)
    if wish.etcd_nodes not in (None, last.etcd_nodes):
        has = "1 node" if last.etcd_nodes == 1 else f"{last.etcd_nodes} nodes"
        raise CommandError(
            f"the etcd in {wish.directory} has {has}, and --etcd-nodes {wish.etcd_nodes} cannot change that; "
            "leave --etcd-nodes out, or start a new cluster in another --dir"
        )
    return last.etcd_nodes


def _settle_ports(
    wish: Wish, last: ClusterReport | None, brokers: int, etcd_nodes: int
) -> tuple[int, tuple[int, ...]]:
    """Return the first broker's port, and the ports on which etcd's members listen for each other."""
    peer_ports = last.etcd_peer_ports if last else ()
    base_port = wish.base_port
    if base_port is None:
        base_port = last.base_port if last else BASE_PORT_DEFAULT
    elif base_port == 0:
        base_port = ports.free_port_block(brokers, avoid=peer_ports)
    if etcd_nodes > 1 and not peer_ports:
        peer_ports = tuple(ports.free_ports(etcd_nodes, avoid=range(base_port, base_port + brokers)))
    return base_port, peer_ports


def _settle_connect_ports(wish: Wish, last: ClusterReport | None, avoid: Sequence[int]) -> tuple[int, ...]:
    """Return a port for the REST API of each Connect worker: as before, unless other ones were asked for."""
    before = tuple(int(url.rpartition(":")[2]) for url in last.connect) if last else ()
    count = len(before) if wish.connect is None else wish.connect
    first = wish.connect_port
    if first is None and before and wish.base_port is None:
        more = range(max(before) + 1, max(before) + 1 + count - len(before))
        return (*before, *more)[:count]
    if first is None:
        # Where the brokers take any free ports, the workers do so, too.
        first = 0 if wish.base_port == 0 else CONNECT_PORT_DEFAULT
    if first == 0:
        return tuple(ports.free_ports(count, avoid=avoid))
    return tuple(range(first, first + count))


def _plan(options: ClusterOptions, directory: ClusterDirectory) -> ClusterPlan:
    broker_ports = range(options.base_port, options.base_port + options.brokers)
    _check_broker_ports(broker_ports)
    _check_connect_ports(options.connect_ports, broker_ports)
    etcd_binary: Path | None = None
    if options.etcd_endpoints:
        check_etcd(options.etcd_endpoints)
        log.info("using the etcd at %s", ",".join(options.etcd_endpoints))
    else:
        _check_peer_ports(options.etcd_peer_ports)
        etcd = find_etcd()
        etcd_binary = etcd.path
        log.info("etcd %s from %s: %s", etcd.version_text, etcd.origin, etcd.path)
        if etcd.warning:
            log.warning("%s", etcd.warning)
    taken = {*broker_ports, *options.etcd_peer_ports, *options.connect_ports}
    internal = ports.free_ports(internal_port_count(options), avoid=taken)
    return plan_cluster(options, directory, internal, etcd_binary)


def _check_peer_ports(peer_ports: Sequence[int]) -> None:
    for number, port in enumerate(peer_ports, start=1):
        if not ports.is_free(port):
            raise CommandError(
                f"port {port} is in use, so etcd-{number} cannot listen on it for the other members of etcd, "
                "which know it by that port; stop what uses it"
            )


def _check_broker_ports(broker_ports: range) -> None:
    if broker_ports[-1] > ports.PORT_MAX:
        raise CommandError(f"there is no port {broker_ports[-1]}; choose a lower --base-port")
    for number, port in enumerate(broker_ports, start=1):
        if not ports.is_free(port):
            raise CommandError(
                f"port {port} is in use, so broker-{number} cannot listen on {ports.LOOPBACK}:{port}; "
                "stop what uses it, or choose another with --base-port (0 takes any that are free)"
            )


def _check_connect_ports(connect_ports: Sequence[int], broker_ports: range) -> None:
    for number, port in enumerate(connect_ports, start=1):
        if port > ports.PORT_MAX:
            raise CommandError(f"there is no port {port}; choose a lower --connect-port")
        if port in broker_ports or not ports.is_free(port):
            user = f"broker-{port - broker_ports[0] + 1}'s" if port in broker_ports else "in use"
            raise CommandError(
                f"port {port} is {user}, so connect-{number} cannot listen on {ports.LOOPBACK}:{port}; "
                "stop what uses it, or choose another with --connect-port (0 takes any that are free)"
            )


def check_etcd(endpoints: Sequence[str]) -> None:
    """Check that an etcd answers at one of the URLs at least.

    Raises:
        CommandError: none does. An https URL is not asked: its certificates are the services' settings.
    """
    problems = []
    for url in endpoints:
        if url.startswith("https://"):
            return
        try:
            body = http_get(f"{url.rstrip('/')}/version")
        except (OSError, ValueError) as error:
            problems.append(f"{url} does not answer ({error})")
            continue
        if b"etcdserver" in body:
            return
        problems.append(f"what answers at {url} is no etcd")
    raise CommandError("cannot use the etcd given by --etcd: " + "; ".join(problems))


def _end_leftovers(last: ClusterReport) -> None:
    """End children of an earlier supervisor that was killed; the kernel is normally faster."""
    identities = [process.identity for process in last.processes if process.identity is not None]
    end_now(identities)


def end_now(identities: Sequence[ProcessIdentity]) -> None:
    """Kill these very processes and wait until they have gone.

    Raises:
        CommandError: one of them cannot be ended.
    """
    deadline = time.monotonic() + LEFTOVER_DEADLINE_S
    for identity in identities:
        send_signal(identity, signal.SIGKILL)
    while alive := [identity.pid for identity in identities if is_alive(identity)]:
        if time.monotonic() > deadline:
            raise CommandError(f"process {alive[0]} of an earlier run does not end, even when killed")
        time.sleep(0.02)


async def _supervise(
    plan: ClusterPlan,
    directory: ClusterDirectory,
    on_change: OnChange,
    stop_on: StopSource,
    departure: DepartureCheck,
) -> None:
    own = identify_self()

    def publish(phase: ClusterPhase, processes: tuple[ProcessReport, ...]) -> None:
        report = ClusterReport(
            bootstrap=plan.bootstrap,
            directory=str(directory.path),
            state=phase,
            etcd=plan.etcd_endpoints,
            embedded_etcd=not plan.options.etcd_endpoints,
            brokers=departure.brokers,
            controllers=plan.options.controllers,
            coordinators=plan.options.coordinators,
            base_port=plan.options.base_port,
            etcd_nodes=plan.options.etcd_nodes,
            etcd_peer_ports=plan.options.etcd_peer_ports,
            racks=plan.options.racks,
            connect=plan.connect,
            supervisor_pid=own.pid,
            supervisor_start=own.start,
            log=str(directory.supervisor_log),
            processes=processes,
        )
        try:
            directory.write_report(report)
        finally:  # who waits for the cluster hears of it even if the disk is full
            on_change(report)

    stop = StopSignal()
    loop = asyncio.get_running_loop()
    for received in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(received, stop.request)
    stop_on(loop, stop)
    try:
        await Supervisor(plan.stages, publish, _service_launcher(directory), departure).run(stop)
    except (ProcessFailed, CommandError) as failure:
        log.error("%s", failure)
        raise
    except StopRequested:
        log.info("stopped before everything was ready")
        raise


def _service_launcher(directory: ClusterDirectory) -> ServiceLauncher | None:
    """Return what forks the services, where a fork of a process that has imported so much is safe."""
    return ServiceLauncher(directory.supervisor_log) if sys.platform == "linux" else None


def identify_self() -> ProcessIdentity:
    """Return this process's identity."""
    own = identify(os.getpid())
    assert own is not None
    return own


def _describe_owner(directory: ClusterDirectory) -> str:
    last = directory.read_report()
    what = f"the directory {directory.path} is in use by another cluster"
    if last is None or not is_alive(last.supervisor):
        return f"{what}, which is just starting"
    return (
        f"{what} (process {last.supervisor_pid}, bootstrap {last.bootstrap}); "
        f"stop it with `ottla down --dir {directory.path}`, or choose another --dir"
    )
