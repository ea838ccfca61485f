"""What looks after clients, made from the settings: the audit log, rights, quotas, and the metrics that they push."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import UUID

import structlog

from ottla_broker.audit.audit_log import AuditLog
from ottla_broker.audit.audit_sinks import AuditFile, StructuredLogSink
from ottla_broker.authorization import Authorization
from ottla_broker.client_control_config import AUDIT_TO_STDOUT
from ottla_broker.client_plugins.finding import (
    AUTHORIZER_KEY,
    BUILDER_KEY,
    find_authorizer,
    find_principal_builder,
)
from ottla_broker.client_plugins.principals import Principals
from ottla_broker.config import BrokerConfig
from ottla_broker.links.link_settings import resolver
from ottla_broker.quotas.client_quotas import ClientQuotas
from ottla_broker.quotas.connection_rates import ConnectionRates
from ottla_broker.quotas.quota_limits import connection_rates
from ottla_broker.quotas.sampled_rate import RateWindow
from ottla_broker.telemetry.client_telemetry import ClientTelemetry
from ottla_core.acls import AclBinding
from ottla_core.clock import Clock
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import ConfigurationError

if TYPE_CHECKING:
    from ottla_sdk.broker import Authorizer, PrincipalBuilder

logger = structlog.get_logger("broker")


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


class NoteHealth(Protocol):
    """Takes up whether a part of the broker is healthy."""

    def __call__(self, *, healthy: bool) -> None:
        """Take it up."""


def tell_of_unreadable_lists(feed: ClusterStateFeed, note_health: NoteHealth) -> None:
    """Say whenever there are access control lists that cannot be read, or no longer."""

    def tell(unreadable: Collection[UUID]) -> None:
        note_health(healthy=not unreadable)
        if unreadable:
            logger.error(
                "access control lists cannot be read; what they may deny is refused to all but super users: delete "
                "the denials that stand in their place, and add anew what they said",
                ids=sorted(map(str, unreadable)),
            )

    def look(former: ClusterState, new: ClusterState) -> None:
        if former.security.unreadable_acls is not new.security.unreadable_acls:
            tell(new.security.unreadable_acls)

    tell(feed.state.security.unreadable_acls)
    feed.subscribe(look)


class ClientPlugins(NamedTuple):
    """The plugins that settings name, configured and not started; None where they name none."""

    authorizer: "Authorizer[Any] | None"
    principal_builder: "PrincipalBuilder[Any] | None"
    of_listeners: "Mapping[str, PrincipalBuilder[Any]]"
    """Builders of principals of listeners that have one of their own."""


def find_client_plugins(config: BrokerConfig) -> ClientPlugins:
    """Find and configure plugins; blocks, and is done before the broker joins: it should not lead and then end.

    Raises:
        ConfigurationError: one cannot be used.
    """
    authorizer = builder = None
    if config.authorizer_class_name:
        settings = _resolved(config, config.authorizer_settings())
        authorizer = find_authorizer(config.authorizer_class_name, settings)
    if config.principal_builder_class:
        settings = _resolved(config, config.principal_builder_settings())
        builder = find_principal_builder(config.principal_builder_class, settings)
    of_listeners = {}
    for listener, name in config.principal_builders().items():
        settings = _resolved(config, config.principal_builder_settings(listener))
        try:
            of_listeners[listener] = find_principal_builder(name, settings)
        except ConfigurationError as error:
            raise ConfigurationError(f"listener {listener}: {error}") from error
    return ClientPlugins(authorizer, builder, of_listeners)


async def authorization_by(
    authorizer: "Authorizer[Any] | None",
    config: BrokerConfig,
    feed: ClusterStateFeed,
    audit: AuditLog | None,
    closing: AsyncExitStack,
) -> Authorization:
    """Return what decides about clients' rights: the authorizer, which is started.

    Raises:
        ConfigurationError: the authorizer cannot be started.
    """
    if authorizer is None:
        return Authorization()
    # These import plugins.
    from ottla_broker.client_plugins.guarded_authorizer import (  # noqa: PLC0415
        ClusterAccessLists,
        GuardedAuthorizer,
    )
    from ottla_sdk.broker import AuthorizerContext  # noqa: PLC0415

    def acls() -> Mapping[UUID, AclBinding]:
        return feed.state.security.acls

    closing.callback(close_plugin, AUTHORIZER_KEY, authorizer.close)
    context = AuthorizerContext(config.cluster_name, config.node_id, ClusterAccessLists(acls))
    try:
        await asyncio.to_thread(authorizer.start, context)
    except Exception as error:
        logger.exception("the authorizer cannot start")
        raise ConfigurationError(
            f"authorizer.class.name: {config.authorizer_class_name} cannot start: {error}"
        ) from error
    return Authorization(GuardedAuthorizer(authorizer, acls), audit)


def principals_by(plugins: ClientPlugins, closing: AsyncExitStack) -> Principals:
    """Return what names clients."""
    for builder in (plugins.principal_builder, *plugins.of_listeners.values()):
        if builder is not None:
            closing.callback(close_plugin, BUILDER_KEY, builder.close)
    return Principals(plugins.principal_builder, plugins.of_listeners)


def close_plugin(key: str, close: Callable[[], None]) -> None:
    """Have a plugin give back what it has opened; what it raises must not keep the broker from an orderly end."""
    try:
        close()
    except Exception:  # whatever a plugin does
        logger.exception("a plugin has failed as it was closed", setting=key)


def _resolved(config: BrokerConfig, settings: Mapping[str, str]) -> Mapping[str, str]:
    return resolver(config.config_providers)(settings)


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
