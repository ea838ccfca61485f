"""The security of listeners, made from the settings: their certificates, and how brokers reach each other's."""

from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from ottla_broker.config import BrokerConfig
from ottla_broker.sasl.peer_login import connect_with_login, peer_security
from ottla_broker.tls.connecting import PeerAccess

if TYPE_CHECKING:
    from ottla_broker.tls.listener_tls import Certificates

logger = structlog.get_logger("broker")


def certificates_of(config: BrokerConfig) -> "Certificates | None":
    """Return the TLS of the listeners, None where none has TLS: what it imports has its price."""
    settings = config.tls_of_listeners()
    if not settings:
        return None
    from ottla_broker.tls.listener_tls import Certificates  # noqa: PLC0415
    from ottla_broker.tls.tls_channel import kernel_can_encrypt  # noqa: PLC0415

    logger.info("listeners with TLS", listeners=[*settings], kernel_encrypts=kernel_can_encrypt())
    return Certificates(settings)


def peer_access(config: BrokerConfig, certificates: "Certificates | None") -> PeerAccess:
    """Return how other brokers are reached, by TLS and with a login where their listener has these."""
    access = PeerAccess() if certificates is None else certificates.peer_access(config.inter_broker_listener)
    settings = config.peer_login()
    if settings is None:
        return access
    client_id = f"broker-{config.node_id}"
    security = peer_security(settings, client_id)
    return replace(access, connect=connect_with_login(access.connect, security, client_id), security=security)
