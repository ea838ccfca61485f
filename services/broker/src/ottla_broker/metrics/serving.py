"""Shows a broker's metrics."""

from contextlib import ExitStack
from typing import TYPE_CHECKING

from ottla_broker.broker import Broker
from ottla_broker.dispatch import Dispatcher
from ottla_broker.listener import Listener
from ottla_broker.metrics.client_metrics import show_clients
from ottla_broker.metrics.disk_metrics import show_disks
from ottla_broker.metrics.link_metrics import show_links
from ottla_broker.metrics.log_metrics import show_compaction, show_logs, show_open_transactions, show_traffic
from ottla_broker.metrics.replication_metrics import show_replication
from ottla_broker.metrics.request_metrics import (
    show_audit,
    show_connections,
    show_fetch_sessions,
    show_group_relay,
    show_logins,
    show_requests,
    show_rights,
    show_throttles,
    show_transactions,
)
from ottla_core.cluster.etcd.times import show_etcd
from ottla_core.observe.catalogue.definition import ProcessRole
from ottla_core.observe.metrics import Metrics
from ottla_core.observe.publishing import publish_metrics
from ottla_core.observe.traces import show_traces
from ottla_core.rpc.refusals import show_rpc_security

if TYPE_CHECKING:
    from ottla_core.observe.tracing import Tracing


def serve_metrics(broker: Broker, listener: Listener, dispatcher: Dispatcher, tracing: "Tracing | None") -> ExitStack:
    """Begin to show the metrics; closing what is returned ends it.

    Raises:
        MetricsError: the endpoint's port is in use.
    """
    metrics = Metrics(ProcessRole.BROKER, str(broker.config.node_id))
    show_etcd(metrics)
    show_rpc_security(metrics)
    show_traces(metrics, tracing)
    show_requests(metrics, dispatcher)
    show_connections(metrics, listener)
    show_throttles(metrics, broker.quotas)
    show_logins(metrics, broker.logins.counts)
    show_rights(metrics, broker.authorization)
    show_audit(metrics, broker.audit)
    show_fetch_sessions(metrics, broker.fetch_sessions)
    show_clients(metrics, broker.telemetry)
    show_logs(metrics, broker.partitions, broker.store)
    show_open_transactions(metrics, broker.partitions, broker.clock.time_ms)
    show_traffic(metrics, broker.traffic)
    show_disks(metrics, broker.store, broker.cluster_copies)
    show_compaction(metrics, broker.store.cleaner)
    show_replication(metrics, broker.partitions, broker.isr_updates, broker.fetchers)
    show_links(metrics, broker.links, broker.link_keepers)
    show_group_relay(metrics, broker.groups)
    assert broker.groups.markers is not None
    show_transactions(metrics, broker.groups.markers, broker.transaction_coordinators)
    return publish_metrics(metrics, broker.config)
