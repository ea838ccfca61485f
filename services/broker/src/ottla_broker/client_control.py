"""What looks after clients, made from the settings: the audit log, rights, quotas, and the metrics that they push."""

from contextlib import AsyncExitStack
from pathlib import Path

from ottla_broker.audit.audit_log import AuditLog
from ottla_broker.audit.audit_sinks import AuditFile, StructuredLogSink
from ottla_broker.authorization import Authorization, AuthorizerSettings
from ottla_broker.client_control_config import AUDIT_TO_STDOUT
from ottla_broker.config import BrokerConfig
from ottla_broker.quotas.client_quotas import ClientQuotas
from ottla_broker.quotas.connection_rates import ConnectionRates
from ottla_broker.quotas.quota_limits import connection_rates
from ottla_broker.quotas.sampled_rate import RateWindow
from ottla_broker.telemetry.client_telemetry import ClientTelemetry
from ottla_core.clock import Clock
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.view.feed import ClusterStateFeed


def begin_audit_log(config: BrokerConfig, clock: Clock, closing: AsyncExitStack) -> AuditLog | None:
    """Begin the audit log; None if none is asked for.

    Raises:
        OSError: its file cannot be opened.
    """
    if not config.audit_log_path:
        return None
    to_log = config.audit_log_path == AUDIT_TO_STDOUT
    audit = AuditLog(
        StructuredLogSink() if to_log else AuditFile(Path(config.audit_log_path)),
        clock,
        per_second_max=config.audit_log_records_per_second_max,
        has_data=config.audit_log_data_enable,
    )
    audit.start()
    closing.callback(audit.close)
    return audit


def quotas_by(config: BrokerConfig, feed: ClusterStateFeed, clock: Clock) -> ClientQuotas:
    """Return what clients use of their quotas, by those of the newest state."""
    quotas = ClientQuotas(
        RateWindow(config.quota_window_num, config.quota_window_size_seconds * 1000),
        RateWindow(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000),
        clock,
    )
    quotas.state_changed(None, feed.state)
    feed.subscribe(quotas.state_changed)
    return quotas


def keep_connection_rates(rates: ConnectionRates, feed: ClusterStateFeed) -> None:
    """Have the rates of addresses follow their quotas."""

    def update(former: ClusterState | None, new: ClusterState) -> None:
        quotas = new.security.client_quotas
        if former is None or former.security.client_quotas is not quotas:
            rates.limit_addresses(connection_rates(quotas))

    update(None, feed.state)
    feed.subscribe(update)


def authorization_by(config: BrokerConfig, feed: ClusterStateFeed, audit: AuditLog | None) -> Authorization:
    """Return what decides about clients' rights, by the access control lists of the newest state."""
    if not config.authorizer_class_name:
        return Authorization()
    settings = AuthorizerSettings(frozenset(config.super_users), config.allow_everyone_if_no_acl_found)
    return Authorization(settings, lambda: feed.state.security.acls, audit)


def begin_telemetry(
    config: BrokerConfig, feed: ClusterStateFeed, clock: Clock, closing: AsyncExitStack
) -> ClientTelemetry:
    """Begin to take the metrics that clients push."""
    telemetry = ClientTelemetry(config.node_id, config, clock, size_bytes_max=config.telemetry_max_bytes)
    closing.callback(telemetry.close)
    telemetry.start()
    telemetry.state_changed(None, feed.state)
    feed.subscribe(telemetry.state_changed)
    return telemetry
