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
from dataclasses import replace
from pathlib import Path

from ottla.local import ports
from ottla.local.broker_removal_check import BrokerRemovalCheck
from ottla.local.cluster_directory import ClusterDirectory, DirectoryInUse, UnusableDirectory
from ottla.local.etcd_binary import EtcdNotFound, find_etcd
from ottla.local.health import http_get
from ottla.local.launch_options import LaunchOptions, settle
from ottla.local.plan import ClusterOptions, ClusterPlan, internal_port_count, plan_cluster
from ottla.local.process import ProcessFailed
from ottla.local.secure_plan import LOGGED_HANDSHAKES, client_file_of, rest_file_of
from ottla.local.secure_start import make_certificates, make_etcd_users
from ottla.local.service_launcher import ServiceLauncher
from ottla.local.settings import BadSetting, Setting, parse_setting, settled_settings
from ottla.local.settings_check import check_properties
from ottla.local.supervisor import StopRequested, StopSignal, Supervisor, log, log_to
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.local_clusters.cluster_report import ClusterPhase, ClusterReport, ProcessReport, process_name
from ottla_operations.local_clusters.disk_space import disk_space
from ottla_operations.local_clusters.process_identity import ProcessIdentity, identify, is_alive, send_signal

LEFTOVER_DEADLINE_S = 10.0

OnChange = Callable[[ClusterReport], None]
StopSource = Callable[[asyncio.AbstractEventLoop, StopSignal], None]


def run_cluster(
    launch_options: LaunchOptions, on_change: OnChange, *, console: logging.Handler | None, stop_on: StopSource
) -> None:
    """Start the cluster and keep it until a signal, or `stop_on`, asks for its end.

    Args:
        launch_options: what to run.
        on_change: told whenever the report changed; the first with state ``running`` means that all is ready.
        console: where the supervisor's messages go besides its log file.
        stop_on: registers further ways to stop, given the loop and the stop signal.

    Raises:
        OperationError: the cluster could not start or could not go on; nothing is left running.
        StopRequested: the end was asked for before everything was ready.
    """
    directory = ClusterDirectory(launch_options.directory)
    try:
        directory.create()
        with directory.locked():
            log_to(directory.supervisor_log, also_to=console)
            _run_locked(directory, launch_options, on_change, stop_on)
    except DirectoryInUse:
        raise OperationError(_describe_owner(directory)) from None
    except ProcessFailed as error:
        raise OperationError(f"{error}{_hint_at_settings(directory)}") from None
    except (UnusableDirectory, EtcdNotFound) as error:
        raise OperationError(str(error)) from None


def _hint_at_settings(directory: ClusterDirectory) -> str:
    """Return what to say of settings where a process does not start: a wrong one is remembered as well."""
    names = [parse_setting(text).name for text in directory.read_settings()]
    return (
        f"\nSettings are remembered; `ottla up --unset {names[-1]}` takes one back: {', '.join(names)}"
        if names
        else ""
    )


def _run_locked(
    directory: ClusterDirectory, launch_options: LaunchOptions, on_change: OnChange, stop_on: StopSource
) -> None:
    last = directory.read_report()
    if last is not None:
        _end_leftovers(last)
    settings = _settle_settings(launch_options, directory)
    options = settle(replace(launch_options, settings=settings), last)
    plan = _plan(options, directory)
    _check_room(directory, is_new=not options.etcd_endpoints and not any(directory.path.glob("etcd*")))
    if options.secure:  # before the check, which looks into the files
        asyncio.run(make_certificates(directory, plan))
    if settings:
        _check_settings(plan, directory)
    directory.write_settings([each.text for each in settings])
    for path, text in plan.files.items():
        directory.write_config(path, text)
    departure = BrokerRemovalCheck(
        before=last.brokers if last else options.brokers,
        wanted=options.brokers,
        settings=directory.config_of(process_name("broker", 1)),
        force=launch_options.force,
    )
    asyncio.run(_supervise(plan, directory, on_change, stop_on, departure))


def _check_room(directory: ClusterDirectory, *, is_new: bool) -> None:
    """See that the disk has room, without which services end with traces of their own.

    Raises:
        OperationError: it has none.
    """
    space = disk_space(directory.path)
    problem = None if space is None else space.problem_of_start(directory.path, is_new=is_new)
    if problem is not None:
        raise OperationError(problem)


def _settle_settings(launch_options: LaunchOptions, directory: ClusterDirectory) -> tuple[Setting, ...]:
    try:
        remembered = [parse_setting(text) for text in directory.read_settings()]
    except BadSetting as error:
        raise OperationError(f"cannot read {directory.settings_file}: {error}") from None
    try:
        return settled_settings(remembered, launch_options.settings, launch_options.unset)
    except BadSetting as error:
        raise UsageProblem(f"--unset: {error}") from None


def _check_settings(plan: ClusterPlan, directory: ClusterDirectory) -> None:
    """See that the services will take what their files say, before any of them starts."""
    by_role: dict[str, list[str]] = {}
    for spec in plan.processes:
        if (text := plan.files.get(directory.config_of(spec.name))) is not None:
            by_role.setdefault(spec.role, []).append(text)
    check_properties(by_role)


def _plan(options: ClusterOptions, directory: ClusterDirectory) -> ClusterPlan:
    broker_ports = range(options.base_port, options.base_port + options.brokers)
    _check_broker_ports(broker_ports)
    _check_worker_ports("connect", options.connect_ports, broker_ports)
    _check_worker_ports("mirror", options.mirror_ports, broker_ports)
    _check_worker_ports("console", options.console_ports, broker_ports)
    if both := set(options.connect_ports) & set(options.mirror_ports):
        raise OperationError(
            f"port {min(both)} is a Connect worker's and a mirror worker's; choose another --mirror-port"
        )
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
    taken = {
        *broker_ports,
        *options.etcd_peer_ports,
        *options.connect_ports,
        *options.mirror_ports,
        *options.console_ports,
    }
    internal = ports.free_ports(internal_port_count(options), avoid=taken)
    return plan_cluster(options, directory, internal, etcd_binary)


def _check_peer_ports(peer_ports: Sequence[int]) -> None:
    for number, port in enumerate(peer_ports, start=1):
        if not ports.is_free(port):
            raise OperationError(
                f"port {port} is in use, so etcd-{number} cannot listen on it for the other members of etcd, "
                "which know it by that port; stop what uses it"
            )


def _check_broker_ports(broker_ports: range) -> None:
    if broker_ports[-1] > ports.PORT_MAX:
        raise OperationError(f"there is no port {broker_ports[-1]}; choose a lower --base-port")
    for number, port in enumerate(broker_ports, start=1):
        if not ports.is_free(port):
            raise OperationError(
                f"port {port} is in use, so broker-{number} cannot listen on {ports.LOOPBACK}:{port}; "
                "stop what uses it, or choose another with --base-port (0 takes any that are free)"
            )


def _check_worker_ports(role: str, worker_ports: Sequence[int], broker_ports: range) -> None:
    for number, port in enumerate(worker_ports, start=1):
        if port > ports.PORT_MAX:
            raise OperationError(f"there is no port {port}; choose a lower --{role}-port")
        if port in broker_ports or not ports.is_free(port):
            user = f"broker-{port - broker_ports[0] + 1}'s" if port in broker_ports else "in use"
            raise OperationError(
                f"port {port} is {user}, so {role}-{number} cannot listen on {ports.LOOPBACK}:{port}; "
                f"stop what uses it, or choose another with --{role}-port (0 takes any that are free)"
            )


def check_etcd(endpoints: Sequence[str]) -> None:
    """Check that an etcd answers at one of the URLs at least.

    Raises:
        OperationError: none does. An https URL is not asked: its certificates are the services' settings.
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
    raise OperationError("cannot use the etcd given by --etcd: " + "; ".join(problems))


def _end_leftovers(last: ClusterReport) -> None:
    """End children of an earlier supervisor that was killed; the kernel is normally faster."""
    identities = [process.identity for process in last.processes if process.identity is not None]
    end_now(identities)


def end_now(identities: Sequence[ProcessIdentity]) -> None:
    """Kill these very processes and wait until they have gone.

    Raises:
        OperationError: one of them cannot be ended.
    """
    deadline = time.monotonic() + LEFTOVER_DEADLINE_S
    for identity in identities:
        send_signal(identity, signal.SIGKILL)
    while alive := [identity.pid for identity in identities if is_alive(identity)]:
        if time.monotonic() > deadline:
            raise OperationError(f"process {alive[0]} of an earlier run does not end, even when killed")
        time.sleep(0.02)


async def _supervise(
    plan: ClusterPlan,
    directory: ClusterDirectory,
    on_change: OnChange,
    stop_on: StopSource,
    departure: BrokerRemovalCheck,
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
            mirror=plan.mirror,
            console=plan.console,
            client_config=str(client_file_of(directory.path)) if plan.options.secure else None,
            rest_config=str(rest_file_of(directory.path)) if plan.options.secure else None,
            supervisor_pid=own.pid,
            supervisor_start=own.start,
            log=str(directory.supervisor_log),
            processes=processes,
        )
        try:
            directory.write_report(report)
        finally:  # who waits for the cluster hears of it even if the disk is full
            on_change(report)

    async def before_services() -> None:
        if plan.options.secure:
            await make_etcd_users(directory, plan)
        await departure()

    stop = StopSignal()
    loop = asyncio.get_running_loop()
    for received in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(received, stop.request)
    stop_on(loop, stop)
    try:
        await Supervisor(
            plan.stages, publish, _service_launcher(directory, secure=plan.options.secure), before_services
        ).run(stop)
    except (ProcessFailed, OperationError) as failure:
        log.error("%s", failure)
        raise
    except StopRequested:
        log.info("stopped before everything was ready")
        raise


def _service_launcher(directory: ClusterDirectory, *, secure: bool) -> ServiceLauncher | None:
    """Return what forks the services, where a fork of a process that has imported so much is safe."""
    if sys.platform != "linux":
        return None
    return ServiceLauncher(directory.supervisor_log, LOGGED_HANDSHAKES if secure else None)


def identify_self() -> ProcessIdentity:
    """Return this process's identity."""
    own = identify(os.getpid())
    assert own is not None
    return own


def _describe_owner(directory: ClusterDirectory) -> str:
    last = directory.read_report()
    if last is None or not is_alive(last.supervisor):
        return f"a cluster is just starting in {directory.path}"
    return (
        f"a cluster runs in {directory.path} already (process {last.supervisor_pid}, bootstrap {last.bootstrap}); "
        f"stop it with `ottla down --dir {directory.path}`, or choose another --dir"
    )
