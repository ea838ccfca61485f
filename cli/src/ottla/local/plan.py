"""Which processes make a local cluster, with which settings, in which order. Pure.

`plan_cluster` turns what the user asked for, the ports that were found free and the directory's paths into
`ProcessSpec`s, in stages: a stage starts when the one before is ready, and stops when the one after has gone.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla.local.cluster_directory import ClusterDirectory
from ottla.local.cluster_report import process_name
from ottla.local.health import GrpcHealth, HealthCheck, HttpHealth
from ottla.local.ports import LOOPBACK
from ottla.local.settings import Setting, properties_text, settings_for

ETCD_HEARTBEAT_MS = 100
ETCD_ELECTION_MS = 1000
MEMBER_LEASE_TTL_MS = 2000  # etcd grants no lease below 1.5 election timeouts
ETCD_STOP_S = 10.0
SERVICE_STOP_S = 20.0
SERVICE_MODULES = {
    "controller": "ottla_controller.app",
    "group-coordinator": "ottla_group_coordinator.app",
    "broker": "ottla_broker.app",
}
SERVICE_STAGES = (("controller",), ("group-coordinator", "broker"))
"""Coordinators and brokers do not wait for each other, so they start side by side."""
GROUP_TOPIC_REPLICAS_MAX = 3
"""Kafka's default for `__consumer_offsets`, which needs as many brokers."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What the user asked for.

    Attributes:
        base_port: the first broker's port; the others follow.
        etcd_endpoints: URLs of an etcd that runs already, or empty for an embedded one.
    """

    brokers: int
    controllers: int
    coordinators: int
    base_port: int
    etcd_endpoints: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process to run.

    Attributes:
        command: program and arguments; the program is an absolute path.
        health: how to ask whether it is ready.
        stop_s: seconds it has to stop after SIGTERM before it is killed.
        environment: variables set on top of the launcher's own.
        hidden_variables: variables of the launcher that the process must not see.
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

    @property
    def name(self) -> str:
        """The name in messages."""
        return process_name(self.role, self.id)


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The whole cluster.

    Attributes:
        stages: processes that start together.
        files: what must be written before, by path.
    """

    options: ClusterOptions
    etcd_endpoints: tuple[str, ...]
    bootstrap: str
    stages: tuple[tuple[ProcessSpec, ...], ...]
    files: Mapping[Path, str]

    @property
    def processes(self) -> tuple[ProcessSpec, ...]:
        """All processes in the order of their start."""
        return tuple(spec for stage in self.stages for spec in stage)


def internal_port_count(options: ClusterOptions) -> int:
    """Return how many ports a plan needs besides the brokers' own."""
    services = options.brokers + options.controllers + options.coordinators
    return 2 * services + (0 if options.etcd_endpoints else 1)


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
        etcd = _plan_etcd(directory, etcd_binary, remaining.pop())
        stages.append((etcd,))
        endpoints = (f"http://{etcd.host}:{etcd.port}",)
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
    stages.extend(tuple(spec for spec in services if spec.role in roles) for roles in SERVICE_STAGES)
    bootstrap = ",".join(f"{spec.host}:{spec.port}" for spec in services if spec.role == "broker")
    return ClusterPlan(options, endpoints, bootstrap, tuple(stages), files)


def _plan_etcd(directory: ClusterDirectory, binary: Path, port: int) -> ProcessSpec:
    url = f"http://{LOOPBACK}:{port}"
    peer_url = f"http://{LOOPBACK}:0"  # a single member has no peers, but etcd insists on listening for them
    flags = {
        "name": "ottla",
        "data-dir": str(directory.etcd_data),
        "listen-client-urls": url,
        "advertise-client-urls": url,
        "listen-peer-urls": peer_url,
        "initial-advertise-peer-urls": peer_url,
        "initial-cluster": f"ottla={peer_url}",
        "heartbeat-interval": str(ETCD_HEARTBEAT_MS),
        "election-timeout": str(ETCD_ELECTION_MS),
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "1h",
        "log-level": "warn",
        "log-outputs": "stderr",
    }
    return ProcessSpec(
        role="etcd",
        id=1,
        command=(str(binary), *(f"--{flag}={value}" for flag, value in flags.items())),
        host=LOOPBACK,
        port=port,
        health=HttpHealth(f"{url}/health"),
        log=directory.log_of("etcd"),
        stop_s=ETCD_STOP_S,
    )


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
        properties["member.lease.ttl.ms"] = str(MEMBER_LEASE_TTL_MS)
    if role == "broker":
        properties["listeners"] = f"PLAINTEXT://{LOOPBACK}:{kafka_port}"
        properties["advertised.listeners"] = properties["listeners"]
        properties["log.dirs"] = str(directory.data_of(name))
        properties["offsets.topic.replication.factor"] = str(min(GROUP_TOPIC_REPLICAS_MAX, options.brokers))
    properties.update(settings_for(options.settings, role, node_id))
    spec = ProcessSpec(
        role=role,
        id=node_id,
        command=(sys.executable, "-m", SERVICE_MODULES[role], "--config", str(directory.config_of(name))),
        host=LOOPBACK,
        port=kafka_port if role == "broker" else rpc_port,
        health=GrpcHealth(LOOPBACK, rpc_port),
        log=directory.log_of(name),
        stop_s=SERVICE_STOP_S,
        rpc=properties["rpc.listener"],
        metrics=f"http://{properties['metrics.listener']}/metrics",
        environment={"PYTHONUNBUFFERED": "1"},
        # A service prefers OTTLA_… variables to its file; for what the file says here, the file must win.
        hidden_variables=frozenset(_variable_of(key) for key in properties),
    )
    return spec, properties_text(properties)


def _variable_of(key: str) -> str:
    return "OTTLA_" + key.replace(".", "_").replace("-", "_").upper()
