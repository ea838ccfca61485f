"""Which processes make a local cluster, with which settings, in which order. Pure.

`plan_cluster` turns what the user asked for, the ports that were found free and the directory's paths into
`ProcessSpec`s, in stages: a stage starts when the one before is ready, and stops when the one after has gone. All
services that need nothing but etcd are one stage: they wait for each other by themselves.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla.local import secure_plan
from ottla.local.cluster_directory import ClusterDirectory
from ottla.local.default_replicas import default_replicas
from ottla.local.health import GrpcHealth, HealthCheck, HttpHealth, RpcTlsSource
from ottla.local.ports import LOOPBACK
from ottla.local.settings import LISTENERS, Setting, properties_text, settings_for
from ottla_core.rpc_identity import RpcIdentity
from ottla_operations.local_clusters.cluster_report import process_name

ETCD_HEARTBEAT_MS = 100
ETCD_ELECTION_MS = 1000
"""Both are etcd's defaults; with less, a busy disk of a small machine is enough to make it elect for no reason."""
ETCD_HEARTBEAT_ALONE_MS = 20
ETCD_ELECTION_ALONE_MS = 100
"""A single member elects itself, which nothing can take from it, but only when up to two of these have passed."""
LEASE_TTL_ALONE_MS = 2000
"""With a single etcd member nothing is to be waited out, but etcd grants no lease below 1.5 election timeouts."""
LEASE_TTL_MS = 6000
"""With several members, leases have to outlast the election of a new leader among them: a third of the TTL since the
last renewal, a second until the lost attempt is given up, and two election timeouts until there is a leader."""
ETCD_STOP_S = 10.0
SERVICE_STOP_S = 20.0
CONNECT_STOP_S = 30.0
MIRROR_ALIAS = "local"
"""What a mirror worker of a local cluster calls that cluster."""
SERVICE_MODULES = {
    "controller": "ottla_controller",
    "group-coordinator": "ottla_group_coordinator",
    "broker": "ottla_broker",
    "connect": "ottla_connect.app",
    "mirror": "ottla_mirror",
    "console": "ottla_console",
}
FORKED_MODULES = {
    "controller": "ottla_controller.app",
    "group-coordinator": "ottla_group_coordinator.app",
    "broker": "ottla_broker.app",
}
"""Services whose `main` runs in a process that is forked from one that has done their imports."""
CHECKPOINTS = "checkpoints"
"""Below the cluster's directory, where `ottla sql` has those of pipelines, too."""
SERVICE_STAGES = (("controller", "group-coordinator", "broker"), ("connect", "mirror", "console"))


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What the user asked for.

    Attributes:
        base_port: the first broker's port; the others follow.
        etcd_endpoints: URLs of an etcd that runs already, or empty for an embedded one.
        etcd_nodes: members of the embedded etcd.
        etcd_peer_ports: where these listen for each other; a single member needs none.
        racks: dealt round-robin to the brokers.
        connect_ports: where the Connect workers' REST API listens, a port for each.
        mirror_ports: where the mirror workers' REST API listens, a port for each.
        console_ports: where the console listens; none without one.
        secure: whether all that is said between processes and with clients is encrypted, and both sides show
            certificates.
    """

    brokers: int
    controllers: int
    coordinators: int
    base_port: int
    etcd_endpoints: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    etcd_nodes: int = 1
    etcd_peer_ports: tuple[int, ...] = ()
    racks: tuple[str, ...] = ()
    connect_ports: tuple[int, ...] = ()
    mirror_ports: tuple[int, ...] = ()
    console_ports: tuple[int, ...] = ()
    secure: bool = False


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process to run.

    Attributes:
        command: program and arguments; the program is an absolute path.
        health: how to ask whether it is ready.
        stop_s: seconds it has to stop after SIGTERM before it is killed.
        environment: variables set on top of the launcher's own.
        hidden_variables: variables of the launcher that the process must not see.
        service_module: whose `main` does the same as the command; None for what can only be executed.
        is_needed_to_stop: the others of its stage need it to stop in order, so it stops after them.
    """

    role: str
    id: int
    command: tuple[str, ...]
    host: str
    port: int
    health: HealthCheck
    log: Path
    stop_s: float
    rpc: str | None = None
    metrics: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    hidden_variables: frozenset[str] = frozenset()
    service_module: str | None = None
    is_needed_to_stop: bool = False

    @property
    def name(self) -> str:
        """The name in messages."""
        return process_name(self.role, self.id)


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The whole cluster.

    Attributes:
        connect: the URLs of the Connect workers.
        mirror: the URLs of the mirror workers.
        console: the URL of the console; none without one.
        stages: processes that start together.
        files: what must be written before, by path.
    """

    options: ClusterOptions
    etcd_endpoints: tuple[str, ...]
    bootstrap: str
    connect: tuple[str, ...]
    mirror: tuple[str, ...]
    console: tuple[str, ...]
    stages: tuple[tuple[ProcessSpec, ...], ...]
    files: Mapping[Path, str]

    @property
    def processes(self) -> tuple[ProcessSpec, ...]:
        """All processes in the order of their start."""
        return tuple(spec for stage in self.stages for spec in stage)


def internal_port_count(options: ClusterOptions) -> int:
    """Return how many ports a plan needs besides those in the options."""
    services = options.brokers + options.controllers + options.coordinators
    workers = len(options.connect_ports) + len(options.mirror_ports) + len(options.console_ports)
    ports_of_etcd = 2 if options.secure else 1  # its health and metrics are asked for without a certificate
    return 2 * services + workers + (0 if options.etcd_endpoints else ports_of_etcd * options.etcd_nodes)


def plan_cluster(
    options: ClusterOptions, directory: ClusterDirectory, ports: Sequence[int], etcd_binary: Path | None
) -> ClusterPlan:
    """Return the plan.

    Args:
        options: what the user asked for.
        directory: where things lie.
        ports: `internal_port_count` free ports.
        etcd_binary: the program of the embedded etcd; needed unless the options name endpoints.
    """
    assert len(ports) == internal_port_count(options)
    remaining = list(ports)
    stages: list[tuple[ProcessSpec, ...]] = []
    endpoints = options.etcd_endpoints
    if not endpoints:
        assert etcd_binary is not None
        client_ports = [remaining.pop() for _ in range(options.etcd_nodes)]
        page_ports = [remaining.pop() for _ in client_ports] if options.secure else client_ports
        members = _plan_etcd(options, directory, etcd_binary, client_ports, page_ports)
        stages.append(members)
        endpoints = tuple(_url(member.port, secure=options.secure) for member in members)
    context = _ServiceContext(options, directory, endpoints)
    files: dict[Path, str] = {}
    services: list[ProcessSpec] = []
    counts = {
        "controller": options.controllers,
        "group-coordinator": options.coordinators,
        "broker": options.brokers,
    }
    for role, count in counts.items():
        for node_id in range(1, count + 1):
            spec, text = _plan_service(context, role, node_id, (remaining.pop(), remaining.pop()))
            files[directory.config_of(spec.name)] = text
            services.append(spec)
    bootstrap = ",".join(f"{spec.host}:{spec.port}" for spec in services if spec.role == "broker")
    for number in range(1, len(options.connect_ports) + 1):
        spec, text = _plan_connect_worker(context, number, bootstrap, remaining.pop())
        files[directory.config_of(spec.name)] = text
        services.append(spec)
    for number in range(1, len(options.mirror_ports) + 1):
        spec, text = _plan_mirror_worker(context, number, bootstrap, remaining.pop())
        files[directory.config_of(spec.name)] = text
        services.append(spec)
    for number in range(1, len(options.console_ports) + 1):
        spec, text = _plan_console(context, number, bootstrap, remaining.pop())
        files[directory.config_of(spec.name)] = text
        services.append(spec)
    in_stages = (tuple(spec for spec in services if spec.role in roles) for roles in SERVICE_STAGES)
    stages.extend(stage for stage in in_stages if stage)
    connect = tuple(_url(port, secure=options.secure) for port in options.connect_ports)
    mirror = tuple(_url(port, secure=options.secure) for port in options.mirror_ports)
    console = tuple(_url(port) for port in options.console_ports)
    return ClusterPlan(options, endpoints, bootstrap, connect, mirror, console, tuple(stages), files)


def _plan_etcd(
    options: ClusterOptions,
    directory: ClusterDirectory,
    binary: Path,
    client_ports: Sequence[int],
    page_ports: Sequence[int],
) -> tuple[ProcessSpec, ...]:
    # A single member has no peers, but etcd insists on listening for them.
    peer_ports = options.etcd_peer_ports if options.etcd_nodes > 1 else (0,)
    peer_urls = {
        _etcd_name(options, number): _url(port, secure=options.secure)
        for number, port in enumerate(peer_ports, start=1)
    }
    is_alone = options.etcd_nodes == 1
    shared = {
        "initial-cluster": ",".join(f"{name}={url}" for name, url in peer_urls.items()),
        "heartbeat-interval": str(ETCD_HEARTBEAT_ALONE_MS if is_alone else ETCD_HEARTBEAT_MS),
        "election-timeout": str(ETCD_ELECTION_ALONE_MS if is_alone else ETCD_ELECTION_MS),
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "1h",
        "log-level": "warn",
        "log-outputs": "stderr",
    }
    if not is_alone:
        # Members of another cluster that happen to know one of the peer ports must not be taken for ours.
        shared["initial-cluster-token"] = f"ottla-{directory.path}"
    members = []
    for number, (port, page_port) in enumerate(zip(client_ports, page_ports, strict=True), start=1):
        name = _etcd_name(options, number)
        url = _url(port, secure=options.secure)
        flags = {
            "name": name,
            "data-dir": str(directory.etcd_data_of(number, options.etcd_nodes)),
            "listen-client-urls": url,
            "advertise-client-urls": url,
            "listen-peer-urls": peer_urls[name],
            "initial-advertise-peer-urls": peer_urls[name],
            **shared,
        }
        if options.secure:
            flags |= {
                **secure_plan.etcd_flags(directory.path, process_name("etcd", number)),
                "listen-metrics-urls": _url(page_port),
            }
        members.append(_etcd_process(number, (port, page_port), binary, flags, directory))
    return tuple(members)


def _etcd_process(
    number: int, ports: tuple[int, int], binary: Path, flags: Mapping[str, str], directory: ClusterDirectory
) -> ProcessSpec:
    """Return a member, by the ports of its clients and of its pages, which may be the same."""
    port, page_port = ports
    return ProcessSpec(
        role="etcd",
        id=number,
        command=(str(binary), *(f"--{flag}={value}" for flag, value in flags.items())),
        host=LOOPBACK,
        port=port,
        health=HttpHealth(f"{_url(page_port)}/health"),
        log=directory.log_of(process_name("etcd", number)),
        stop_s=ETCD_STOP_S,
        metrics=f"{_url(page_port)}/metrics",
    )


def _etcd_name(options: ClusterOptions, number: int) -> str:
    return "ottla" if options.etcd_nodes == 1 else f"ottla-{number}"


def _url(port: int, *, secure: bool = False) -> str:
    return f"{'https' if secure else 'http'}://{LOOPBACK}:{port}"


@dataclass(frozen=True, slots=True)
class _ServiceContext:
    """What all services of a plan share."""

    options: ClusterOptions
    directory: ClusterDirectory
    etcd_endpoints: tuple[str, ...]


def _plan_service(
    context: _ServiceContext, role: str, node_id: int, ports: tuple[int, int]
) -> tuple[ProcessSpec, str]:
    options, directory = context.options, context.directory
    name = process_name(role, node_id)
    rpc_port, metrics_port = ports
    kafka_port = options.base_port + node_id - 1
    properties = {
        "node.id": str(node_id),
        "rpc.listener": f"{LOOPBACK}:{rpc_port}",
        "metrics.listener": f"{LOOPBACK}:{metrics_port}",
        "etcd.endpoints": ",".join(context.etcd_endpoints),
    }
    if not options.etcd_endpoints:
        ttl_ms = LEASE_TTL_ALONE_MS if options.etcd_nodes == 1 else LEASE_TTL_MS
        properties["member.lease.ttl.ms"] = str(ttl_ms)
    if role == "broker":
        properties |= _broker_properties(options, directory, node_id, kafka_port)
    elif role == "controller":
        properties |= _replication_defaults(options)
    elif role == "group-coordinator":
        # As in the configuration that Kafka brings for trying it out: whoever comes first need not wait for others.
        properties["group.initial.rebalance.delay.ms"] = "0"
    if options.secure:
        properties |= secure_plan.process_properties(directory.path, name)
    given = settings_for(options.settings, role, node_id)
    if role == "broker" and LISTENERS in given:
        given = {**given, LISTENERS: f"{properties[LISTENERS]},{given[LISTENERS]}"}
    properties |= given
    spec = ProcessSpec(
        role=role,
        id=node_id,
        command=(sys.executable, "-m", SERVICE_MODULES[role], "--config", str(directory.config_of(name))),
        host=LOOPBACK,
        port=kafka_port if role == "broker" else rpc_port,
        health=GrpcHealth(LOOPBACK, rpc_port, RpcIdentity(role, node_id), _administrator(options, directory)),
        log=directory.log_of(name),
        stop_s=SERVICE_STOP_S,
        rpc=properties["rpc.listener"],
        metrics=f"http://{properties['metrics.listener']}/metrics",
        environment={"PYTHONUNBUFFERED": "1", **(secure_plan.LOGGED_HANDSHAKES if options.secure else {})},
        hidden_variables=_variables_of(properties),
        service_module=FORKED_MODULES[role],
        is_needed_to_stop=role == "controller",  # brokers hand over their partitions through it
    )
    return spec, properties_text(properties)


def _plan_connect_worker(
    context: _ServiceContext, number: int, bootstrap: str, metrics_port: int
) -> tuple[ProcessSpec, str]:
    options, directory = context.options, context.directory
    name = process_name("connect", number)
    port = options.connect_ports[number - 1]
    replicas = str(default_replicas(options.brokers))
    properties = {
        "bootstrap.servers": bootstrap,
        **_rest_properties(options, directory, name, port),
        "metrics.listener": f"{LOOPBACK}:{metrics_port}",
        **{f"{store}.storage.replication.factor": replicas for store in ("config", "offset", "status")},
        "config.providers": "env",
        "config.providers.env.class": "EnvVarConfigProvider",
        **_client_properties(options, directory, name, ("", "producer.", "consumer.", "admin.")),
        **_connector_limits(options, directory),
        **settings_for(options.settings, "connect", number),
    }
    spec = _rest_service(context, "connect", number, port, properties)
    return spec, properties_text(properties)


def _plan_mirror_worker(
    context: _ServiceContext, number: int, bootstrap: str, metrics_port: int
) -> tuple[ProcessSpec, str]:
    """Return a mirror worker that knows this cluster; flows to it come by `ottla mirror create`, or by --set."""
    options, directory = context.options, context.directory
    name = process_name("mirror", number)
    port = options.mirror_ports[number - 1]
    properties = {
        "clusters": MIRROR_ALIAS,
        f"{MIRROR_ALIAS}.bootstrap.servers": bootstrap,
        **_rest_properties(options, directory, name, port),
        "metrics.listener": f"{LOOPBACK}:{metrics_port}",
        **_client_properties(options, directory, name, (f"{MIRROR_ALIAS}.",)),
        **settings_for(options.settings, "mirror", number),
    }
    spec = _rest_service(context, "mirror", number, port, properties)
    # Its file is one of Java's properties, in which a backslash, as regular expressions have it, is written twice.
    escaped = {key: value.replace("\\", "\\\\") for key, value in properties.items()}
    return spec, properties_text(escaped)


def _plan_console(
    context: _ServiceContext, number: int, bootstrap: str, metrics_port: int
) -> tuple[ProcessSpec, str]:
    """Return a console that knows this cluster and its workers."""
    options = context.options
    port = options.console_ports[number - 1]
    prefix = f"cluster.{MIRROR_ALIAS}."
    assert not options.secure, "a secured cluster has no console beside it"
    beside = {
        "connect.url": ",".join(_url(each) for each in options.connect_ports),
        "connect.checkpoint.location": str(context.directory.path / CHECKPOINTS) if options.connect_ports else "",
        "mirror.url": ",".join(_url(each) for each in options.mirror_ports),
        "etcd.url": ",".join(context.etcd_endpoints),
    }
    properties = {
        "clusters": MIRROR_ALIAS,
        f"{prefix}bootstrap.servers": bootstrap,
        **{f"{prefix}{key}": value for key, value in beside.items() if value},
        "listeners": _url(port),
        "metrics.listener": f"{LOOPBACK}:{metrics_port}",
        **settings_for(options.settings, "console", number),
    }
    spec = _rest_service(context, "console", number, port, properties)
    return spec, properties_text(properties)


def _rest_service(
    context: _ServiceContext, role: str, number: int, port: int, properties: Mapping[str, str]
) -> ProcessSpec:
    """Return a process that answers by HTTP and needs no etcd: a worker, or the console."""
    options, directory, name = context.options, context.directory, process_name(role, number)
    authorities = secure_plan.authorities_of(directory.path) if options.secure else None
    return ProcessSpec(
        role=role,
        id=number,
        command=(sys.executable, "-m", SERVICE_MODULES[role], "--config", str(directory.config_of(name))),
        host=LOOPBACK,
        port=port,
        health=HttpHealth(f"{_url(port, secure=options.secure)}/health", authorities),
        log=directory.log_of(name),
        stop_s=CONNECT_STOP_S,
        metrics=f"http://{properties['metrics.listener']}/metrics",
        environment={"PYTHONUNBUFFERED": "1"},
        hidden_variables=_variables_of(properties),
    )


def _rest_properties(options: ClusterOptions, directory: ClusterDirectory, holder: str, port: int) -> dict[str, str]:
    url = _url(port, secure=options.secure)
    return secure_plan.rest_properties(directory.path, holder, url) if options.secure else {"listeners": url}


def _administrator(options: ClusterOptions, directory: ClusterDirectory) -> RpcTlsSource | None:
    return secure_plan.administrator_tls(directory.path) if options.secure else None


def _client_properties(
    options: ClusterOptions, directory: ClusterDirectory, holder: str, prefixes: Sequence[str]
) -> dict[str, str]:
    """Return what a worker's clients are told of a secured cluster, once for each prefix of theirs."""
    told = secure_plan.client_properties(directory.path, holder) if options.secure else {}
    return {f"{prefix}{key}": value for prefix in prefixes for key, value in told.items()}


def _connector_limits(options: ClusterOptions, directory: ClusterDirectory) -> dict[str, str]:
    """Return what keeps connectors of a secured cluster from its certificates and data."""
    files = secure_plan.connector_files_of(directory.path)
    return {"connector.file.roots.allowed": str(files)} if options.secure else {}


def _broker_properties(
    options: ClusterOptions, directory: ClusterDirectory, node_id: int, kafka_port: int
) -> dict[str, str]:
    listener = f"PLAINTEXT://{LOOPBACK}:{kafka_port}"
    holder, address = process_name("broker", node_id), f"{LOOPBACK}:{kafka_port}"
    clients = {"broker": options.brokers, "connect": len(options.connect_ports), "mirror": len(options.mirror_ports)}
    trusted = [process_name(role, number) for role, count in clients.items() for number in range(1, count + 1)]
    secured = secure_plan.broker_properties(directory.path, holder, address, trusted) if options.secure else {}
    properties = {
        "listeners": listener,
        "advertised.listeners": listener,
        "log.dirs": str(directory.data_of(process_name("broker", node_id))),
        **secured,
        **_replication_defaults(options),
        **_coordinator_topics(options),
    }
    if options.racks:
        properties["broker.rack"] = options.racks[(node_id - 1) % len(options.racks)]
    return properties


def _replication_defaults(options: ClusterOptions) -> dict[str, str]:
    """Return what holds for topics that say nothing else: of three brokers, any can be lost."""
    replicas = default_replicas(options.brokers)
    return {"default.replication.factor": str(replicas), "min.insync.replicas": str(max(1, replicas - 1))}


def _coordinator_topics(options: ClusterOptions) -> dict[str, str]:
    """Return how many copies the topics of groups and of transactions have: as many as other topics."""
    replicas = default_replicas(options.brokers)
    return {
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(max(1, replicas - 1)),
    }


def _variables_of(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the OTTLA_… variables that a service would prefer to what its file says; here the file must win."""
    return frozenset("OTTLA_" + key.replace(".", "_").replace("-", "_").upper() for key in properties)
