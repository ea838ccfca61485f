"""The catalogue of every metric of every process: the only list of what Ottla shows of itself.

A metric is defined here once, as data: its name as Prometheus shows it, its kind, its labels with their bounds, and a
sentence. Processes can only show what is defined (`observe/metrics.py`), and show all that is defined for their role.
docs/metrics.md is made out of it; dashboards, rules and `ottla doctor` refer to its names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla_core.observe.catalogue.broker_logs import LOGS
from ottla_core.observe.catalogue.broker_replication import LINKS, REPLICATION
from ottla_core.observe.catalogue.broker_requests import GROUP_RELAY, REQUESTS
from ottla_core.observe.catalogue.client_telemetry import CLIENT_METRICS
from ottla_core.observe.catalogue.connect import CONNECT
from ottla_core.observe.catalogue.console import CONSOLE
from ottla_core.observe.catalogue.controller import CONTROLLER
from ottla_core.observe.catalogue.coordinator import COORDINATOR
from ottla_core.observe.catalogue.definition import MetricDefinition, ProcessRole
from ottla_core.observe.catalogue.mirror import MIRROR
from ottla_core.observe.catalogue.process import ETCD, PROCESS, RPC, TRACES


@dataclass(frozen=True, slots=True)
class Section:
    """Metrics about one subject, under its title in the documentation."""

    title: str
    definitions: Sequence[MetricDefinition]


SECTIONS: Final[Sequence[Section]] = (
    Section("Every process", PROCESS),
    Section("Brokers, controllers and group coordinators: etcd", ETCD),
    Section("Brokers, controllers and group coordinators: trust in each other", RPC),
    Section("Brokers and controllers: traces", TRACES),
    Section("Brokers: clients and requests", REQUESTS),
    Section("Brokers: metrics of clients", CLIENT_METRICS),
    Section("Brokers: logs", LOGS),
    Section("Brokers: replication", REPLICATION),
    Section("Brokers: linked topics", LINKS),
    Section("Brokers: requests about groups", GROUP_RELAY),
    Section("Controllers", CONTROLLER),
    Section("Group coordinators", COORDINATOR),
    Section("Connect workers", CONNECT),
    Section("Mirror workers", MIRROR),
    Section("Console", CONSOLE),
)


def _by_name(sections: Sequence[Section]) -> Mapping[str, MetricDefinition]:
    definitions = [definition for section in sections for definition in section.definitions]
    found = {definition.name: definition for definition in definitions}
    assert len(found) == len(definitions), "a metric is defined twice"
    return found


CATALOGUE: Final[Mapping[str, MetricDefinition]] = _by_name(SECTIONS)
"""Every metric by its name."""


def metrics_of(role: ProcessRole) -> Mapping[str, MetricDefinition]:
    """Return what a process of this role shows, by name."""
    return {name: definition for name, definition in CATALOGUE.items() if role in definition.roles}
