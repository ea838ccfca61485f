"""What is known of a local cluster: the state file's content, and what `up`, `status` and `down` print. Pure."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from ottla_operations.local_clusters.process_identity import ProcessIdentity

FORMAT_VERSION = 1
COORDINATORS_DEFAULT = 1
ETCD_NODES_DEFAULT = 1

_LIST_KEYS = ("etcd", "etcd_peer_ports", "racks", "connect", "mirror", "console")

ProcessState = Literal["starting", "ready", "restarting", "failed", "stopping", "stopped", "not ready", "lost"]
ClusterPhase = Literal["starting", "running", "stopping", "stopped", "failed", "lost"]


class UnreadableReport(ValueError):
    """A state file that this program did not write."""


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """One process of the cluster.

    Attributes:
        role: ``etcd``, ``controller``, ``group-coordinator``, ``broker``, ``connect``, ``mirror`` or ``console``.
        id: its number within the role; a broker's is its Kafka node id.
        pid: its process id, or None while it does not run.
        start: tells the process from a later one with the same id; see `ProcessIdentity`.
        address: where its clients connect, ``host:port``.
        port: the port of `address`.
        rpc: where its gRPC server listens, or None if it has none.
        metrics: its Prometheus page, or None.
        log: its log file.
        state: what the launcher last knew.
        restarts: how often the launcher had to start it again.
    """

    role: str
    id: int
    pid: int | None
    start: str | None
    address: str
    port: int
    rpc: str | None
    metrics: str | None
    log: str
    state: ProcessState
    restarts: int = 0

    @property
    def name(self) -> str:
        """The name used in messages and for the log file, such as ``broker-1``."""
        return process_name(self.role, self.id)

    @property
    def identity(self) -> ProcessIdentity | None:
        """Which process this is, if it runs."""
        return None if self.pid is None or self.start is None else ProcessIdentity(self.pid, self.start)


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """A local cluster.

    Attributes:
        bootstrap: the brokers' addresses, as a Kafka client takes them.
        directory: where data, logs and this report live.
        state: what the cluster as a whole is doing.
        etcd: the URLs of its etcd.
        embedded_etcd: whether the launcher runs that etcd.
        brokers: how many brokers it was started with; likewise `controllers` and `coordinators`.
        base_port: the first broker's port.
        etcd_nodes: how many members the embedded etcd of this directory has, whether or not it is in use.
        etcd_peer_ports: where these listen for each other, which etcd keeps in its data; none for a single member.
        racks: dealt round-robin to the brokers; empty if they have none.
        connect: the URLs of its Connect workers' REST API; empty if it has none.
        mirror: the URLs of its mirror workers' REST API; empty if it has none.
        console: the URL of its console; empty if it has none.
        client_config: the administrator's settings for clients of a secured cluster, in librdkafka's words; None for
            a cluster that asks for no certificates.
        rest_config: the administrator's settings for the REST APIs of its workers, likewise.
        supervisor_pid: the process that keeps the others; with `supervisor_start` its identity.
        log: the supervisor's own log file.
    """

    bootstrap: str
    directory: str
    state: ClusterPhase
    etcd: tuple[str, ...]
    embedded_etcd: bool
    brokers: int
    controllers: int
    base_port: int
    supervisor_pid: int
    supervisor_start: str
    log: str
    processes: tuple[ProcessReport, ...] = field(default=())
    # What older state files do not say:
    coordinators: int = COORDINATORS_DEFAULT
    etcd_nodes: int = ETCD_NODES_DEFAULT
    etcd_peer_ports: tuple[int, ...] = ()
    racks: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    mirror: tuple[str, ...] = ()
    console: tuple[str, ...] = ()
    client_config: str | None = None
    rest_config: str | None = None

    @property
    def is_secure(self) -> bool:
        """Whether it was started with --secure."""
        return self.client_config is not None

    @property
    def supervisor(self) -> ProcessIdentity:
        """Which process keeps the cluster."""
        return ProcessIdentity(self.supervisor_pid, self.supervisor_start)

    def to_document(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        document = asdict(self)
        document |= {key: list(document[key]) for key in _LIST_KEYS}
        document["processes"] = [{"name": each.name, **asdict(each)} for each in self.processes]
        return {"format": FORMAT_VERSION, **document}

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_document` wrote.

        Raises:
            UnreadableReport: the text is something else.
        """
        try:
            document: dict[str, Any] = json.loads(text)
            if document.pop("format") != FORMAT_VERSION:
                raise UnreadableReport("it was written by another version of ottla")
            processes = tuple(_read_process(each) for each in document.pop("processes"))
            document |= {key: tuple(document[key]) for key in _LIST_KEYS if key in document}
            return cls(**document, processes=processes)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UnreadableReport(str(error)) from None


def process_name(role: str, number: int) -> str:
    """Return a process's name."""
    return f"{role}-{number}"


def _read_process(document: Mapping[str, Any]) -> ProcessReport:
    return ProcessReport(**{key: value for key, value in document.items() if key != "name"})
