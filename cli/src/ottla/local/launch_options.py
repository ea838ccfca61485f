"""What `ottla up` was asked for, and the options that follow from it and from what the directory last ran with."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.local import ports
from ottla.local.plan import ClusterOptions
from ottla.local.settings import BadSetting, Setting, check_settings
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.local_clusters.cluster_report import COORDINATORS_DEFAULT, ETCD_NODES_DEFAULT, ClusterReport

BASE_PORT_DEFAULT = 9092
CONNECT_PORT_DEFAULT = 8083
MIRROR_PORT_DEFAULT = 8084
CONSOLE_PORT_DEFAULT = 8086


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What was typed; None means as the last time in this directory, or the default.

    Attributes:
        base_port: 0 means any free ports.
        unset: names of settings to forget, as `Setting.name`.
        etcd_endpoints: empty means the embedded etcd.
        racks: empty means none.
        connect: how many Connect workers.
        connect_port: the first one's port; 0 means any free ports.
        mirror: how many mirror workers.
        mirror_port: the first one's port; 0 means any free ports.
        console: whether there is a console.
        console_port: its port; 0 means any free one.
        force: start with fewer brokers even if partitions are lost.
        secure: with certificates everywhere.
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
    mirror: int | None = None
    mirror_port: int | None = None
    console: bool | None = None
    console_port: int | None = None
    force: bool = False
    secure: bool = False


def settle(launch_options: LaunchOptions, last: ClusterReport | None) -> ClusterOptions:
    """Return the options: what was typed, else what this directory last ran with, else the default.

    Raises:
        OperationError: the directory's etcd has another number of members than was typed, or workers have no group
            coordinator, or the settings do not fit so many brokers.
    """
    brokers = launch_options.brokers or (last.brokers if last else 1)
    try:
        check_settings(launch_options.settings, brokers)
    except BadSetting as error:
        raise UsageProblem(f"--set: {error}") from None
    etcd = launch_options.etcd_endpoints
    if etcd is None:
        etcd = () if last is None or last.embedded_etcd else last.etcd
    coordinators = launch_options.coordinators
    if coordinators is None:
        coordinators = last.coordinators if last else COORDINATORS_DEFAULT
    racks = launch_options.racks
    if racks is None:
        racks = last.racks if last else ()
    etcd_nodes = _settle_etcd_nodes(launch_options, last)
    base_port, peer_ports = _settle_ports(launch_options, last, brokers, etcd_nodes)
    broker_ports = range(base_port, base_port + brokers)
    connect_ports = _settle_worker_ports(
        launch_options,
        launch_options.connect,
        launch_options.connect_port,
        before=last.connect if last else (),
        default=CONNECT_PORT_DEFAULT,
        avoid=(*broker_ports, *peer_ports),
    )
    mirror_ports = _settle_worker_ports(
        launch_options,
        launch_options.mirror,
        launch_options.mirror_port,
        before=last.mirror if last else (),
        default=max(MIRROR_PORT_DEFAULT, *(port + 1 for port in connect_ports), 0),
        avoid=(*broker_ports, *peer_ports, *connect_ports),
    )
    console_ports = _settle_worker_ports(
        launch_options,
        None if launch_options.console is None else int(launch_options.console),
        launch_options.console_port,
        before=last.console if last else (),
        default=CONSOLE_PORT_DEFAULT,
        avoid=(*broker_ports, *peer_ports, *connect_ports, *mirror_ports),
    )
    settled = ClusterOptions(
        brokers=brokers,
        controllers=launch_options.controllers or (last.controllers if last else 1),
        coordinators=coordinators,
        base_port=base_port,
        etcd_endpoints=etcd,
        settings=launch_options.settings,
        etcd_nodes=etcd_nodes,
        etcd_peer_ports=peer_ports,
        racks=racks,
        connect_ports=connect_ports,
        mirror_ports=mirror_ports,
        console_ports=console_ports,
        secure=_settle_secure(launch_options, last, etcd),
    )
    _check_together(settled)
    return settled


def _check_together(settled: ClusterOptions) -> None:
    """See that the processes of a cluster go together.

    Raises:
        OperationError: workers have no group coordinator, or a console is to be beside a secured cluster.
    """
    for kind, ports_of_kind in (("Connect", settled.connect_ports), ("Mirror", settled.mirror_ports)):
        if ports_of_kind and not settled.coordinators:
            raise OperationError(
                f"{kind} workers form a consumer group, which needs a group coordinator: --coordinators 1"
            )
    if settled.secure and settled.console_ports:
        raise OperationError(
            "--console shows clusters with the rights of whoever reaches it, and in a secured cluster users have no "
            "passwords to sign in with; start `ottla-console` with settings of your own (docs/console.md)"
        )


def _settle_secure(launch_options: LaunchOptions, last: ClusterReport | None, etcd: Sequence[str]) -> bool:
    """Return whether the cluster is secured, which is so from its first start on."""
    if not launch_options.secure:
        return last is not None and last.is_secure
    if etcd:
        raise OperationError(
            "--secure makes users in an etcd of the cluster's own; for another etcd see `ottla secure init`, and "
            "tell the processes by --set"
        )
    if last is not None and not last.is_secure:
        raise OperationError(
            f"the cluster in {launch_options.directory} has been started without --secure, which cannot be changed; "
            "start a new one in another --dir"
        )
    return True


def _settle_etcd_nodes(launch_options: LaunchOptions, last: ClusterReport | None) -> int:
    """Return the number of etcd's members, which is part of the data that they keep."""
    if last is None or (not last.embedded_etcd and not last.etcd_peer_ports):
        return launch_options.etcd_nodes or (last.etcd_nodes if last else ETCD_NODES_DEFAULT)
    if launch_options.etcd_nodes not in (None, last.etcd_nodes):
        has = "1 node" if last.etcd_nodes == 1 else f"{last.etcd_nodes} nodes"
        raise OperationError(
            f"the etcd in {launch_options.directory} has {has}, and --etcd-nodes {launch_options.etcd_nodes} cannot "
            "change that; leave --etcd-nodes out, or start a new cluster in another --dir"
        )
    return last.etcd_nodes


def _settle_ports(
    launch_options: LaunchOptions, last: ClusterReport | None, brokers: int, etcd_nodes: int
) -> tuple[int, tuple[int, ...]]:
    """Return the first broker's port, and the ports on which etcd's members listen for each other."""
    peer_ports = last.etcd_peer_ports if last else ()
    base_port = launch_options.base_port
    if base_port is None:
        base_port = last.base_port if last else BASE_PORT_DEFAULT
    elif base_port == 0:
        base_port = ports.free_port_block(brokers, avoid=peer_ports)
    if etcd_nodes > 1 and not peer_ports:
        peer_ports = tuple(ports.free_ports(etcd_nodes, avoid=range(base_port, base_port + brokers)))
    return base_port, peer_ports


def _settle_worker_ports(
    launch_options: LaunchOptions,
    wanted: int | None,
    first: int | None,
    *,
    before: Sequence[str],
    default: int,
    avoid: Sequence[int],
) -> tuple[int, ...]:
    """Return a port for the REST API of each worker: as before, unless other ones were asked for.

    Args:
        launch_options: what was typed.
        wanted: how many workers; None for as many as before.
        first: the first one's port, 0 for any free ones, None where nothing was typed.
        before: the URLs of the last time.
        default: the first one's port.
        avoid: ports that others are to have.
    """
    known = tuple(int(url.rpartition(":")[2]) for url in before)
    count = len(known) if wanted is None else wanted
    if first is None and known and launch_options.base_port is None:
        more = range(max(known) + 1, max(known) + 1 + count - len(known))
        return (*known, *more)[:count]
    if first is None:
        # Where the brokers take any free ports, the workers do so, too.
        first = 0 if launch_options.base_port == 0 else default
    if first == 0:
        return tuple(ports.free_ports(count, avoid=avoid))
    return tuple(range(first, first + count))
