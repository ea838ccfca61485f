"""Requests, connections, fetch sessions, and requests about groups."""

from collections.abc import Iterator, Mapping

from ottla_broker.audit.audit_log import AuditLog
from ottla_broker.audit.audit_records import AuditKind
from ottla_broker.authorization import Authorization
from ottla_broker.dispatch import Dispatcher
from ottla_broker.fetch_sessions import FetchSessionCache
from ottla_broker.groups.marker_writing import MarkerWriting
from ottla_broker.groups.relay import GroupRelay
from ottla_broker.listener import Listener
from ottla_broker.quotas.client_quotas import ClientQuotas
from ottla_broker.request_times import PARTS, ApiTimes
from ottla_broker.sasl.listener_sasl import LoginCounts
from ottla_broker.transactions.coordinator_requests import CoordinatorRequests
from ottla_core.acls import ResourceKind
from ottla_core.observe.metrics import Metrics
from ottla_core.observe.request_errors import errors_by_api
from ottla_core.wire.messages import api_name


def show_requests(metrics: Metrics, dispatcher: Dispatcher) -> None:
    """Show what clients ask for."""
    metrics.show(
        "ottla_broker_requests_total",
        lambda: [(times.count, {"api": api_name(key)}) for key, times in dispatcher.times.items()],
    )
    metrics.show("ottla_broker_request_errors_total", errors_by_api())
    metrics.show(
        "ottla_broker_request_time_seconds",
        lambda: [(times.whole.coarse_reading(), {"api": name}) for name, times in _asked_for(dispatcher)],
    )
    metrics.show(
        "ottla_broker_request_part_time_seconds",
        lambda: [
            (spent.coarse_reading(), {"api": name, "part": part})
            for name, times in _asked_for(dispatcher)
            for part, spent in zip(PARTS, times.parts, strict=True)
        ],
    )


def _asked_for(dispatcher: Dispatcher) -> Iterator[tuple[str, ApiTimes]]:
    """Yield what was asked for so far, by name."""
    return ((api_name(key), times) for key, times in dispatcher.times.items() if times.count)


def show_connections(metrics: Metrics, listener: Listener) -> None:
    """Show clients' connections."""
    metrics.show_value("ottla_broker_connections_accepted_total", lambda: listener.accepted)
    metrics.show_value("ottla_broker_connections", lambda: len(listener.connections))
    metrics.show_value("ottla_broker_failed_handshakes_total", lambda: listener.failed_handshakes)
    metrics.show_value("ottla_broker_outdated_certificates", lambda: listener.outdated_certificates)


def show_throttles(metrics: Metrics, quotas: ClientQuotas) -> None:
    """Show how clients were throttled."""
    metrics.show(
        "ottla_broker_throttles_total",
        lambda: [(throttled.count, {"quota": name}) for name, throttled in quotas.throttled.items()],
    )
    metrics.show(
        "ottla_broker_throttled_seconds_total",
        lambda: [(throttled.throttled_ms / 1000, {"quota": name}) for name, throttled in quotas.throttled.items()],
    )


def show_logins(metrics: Metrics, counts: LoginCounts) -> None:
    """Show what became of clients' logins."""
    metrics.show_value("ottla_broker_authentications_total", lambda: counts.succeeded)
    metrics.show_value("ottla_broker_failed_authentications_total", lambda: counts.failed)
    metrics.show_value("ottla_broker_expired_sessions_total", lambda: counts.expired)


def show_rights(metrics: Metrics, authorization: Authorization) -> None:
    """Show what clients were refused, and what went wrong with the authorizer."""
    counts = None if authorization.authorizer is None else authorization.authorizer.counts
    metrics.show(
        "ottla_broker_denials_total",
        lambda: [(authorization.denials[kind], {"resource": kind.name}) for kind in ResourceKind],
    )
    metrics.show_value("ottla_broker_authorizer_failures_total", lambda: counts.failures if counts else 0)
    metrics.show_value("ottla_broker_authorizer_slow_answers_total", lambda: counts.slow if counts else 0)


def show_audit(metrics: Metrics, audit: AuditLog | None) -> None:
    """Show how many records the audit log has, and how many it lacks."""

    def by_kind(count_of: Mapping[AuditKind, int]) -> list[tuple[int, dict[str, str]]]:
        return [(count_of.get(kind, 0), {"kind": kind.value}) for kind in AuditKind]

    metrics.show("ottla_broker_audit_records_total", lambda: by_kind({} if audit is None else audit.written))
    metrics.show(
        "ottla_broker_audit_records_dropped_total", lambda: by_kind({} if audit is None else audit.dropped())
    )


def show_fetch_sessions(metrics: Metrics, sessions: FetchSessionCache) -> None:
    """Show the cache of fetch sessions."""
    metrics.show_value("ottla_broker_fetch_sessions", lambda: len(sessions))
    metrics.show_value("ottla_broker_fetch_session_partitions", lambda: sessions.partition_count)
    metrics.show_value("ottla_broker_fetch_session_evictions_total", lambda: sessions.eviction_count)


def show_group_relay(metrics: Metrics, groups: GroupRelay) -> None:
    """Show what passes between clients and group coordinators."""
    metrics.show_value("ottla_broker_group_streams", lambda: groups.open_count)
    metrics.show_value("ottla_broker_group_requests_relayed_total", lambda: groups.relayed_count)
    metrics.show_value("ottla_broker_group_requests_waiting", lambda: groups.waiting_count)
    metrics.show_value("ottla_broker_shard_appends_total", lambda: groups.shard_log.append_count)
    metrics.show_value("ottla_broker_shard_reads_total", lambda: groups.shard_log.read_count)


def show_transactions(metrics: Metrics, markers: MarkerWriting, coordinators: CoordinatorRequests) -> None:
    """Show what this broker does for transactions."""
    metrics.show_value("ottla_broker_transaction_markers_total", lambda: markers.written_count)
    metrics.show_value("ottla_broker_transaction_verifications_total", lambda: coordinators.asked_count)
    metrics.show_value("ottla_broker_transaction_verification_failures_total", lambda: coordinators.failed_count)
