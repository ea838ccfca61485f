"""The one place that opens gRPC channels from one process of a cluster to another.

What the two have to prove to each other is settled here, and in `RpcServer` for the side that accepts: with TLS both
show certificates, and a caller takes no other process than the one that it wants. The size of messages is
bounded on both sides; a message beyond it ends its call with RESOURCE_EXHAUSTED.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from grpc import aio

from ottla_core.rpc_identity import RpcIdentity

if TYPE_CHECKING:
    from ottla_core.rpc.tls import RpcTls

MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The largest message of a call; 10,000 partitions with their assignments, which a request may create, have 2 MiB."""

Options = Sequence[tuple[str, int]]
NAME_OPTION: Final = "grpc.ssl_target_name_override"
"""The name that the other side's certificate must have, in place of the host's in the address."""


def message_size_options(bytes_max: int = MESSAGE_BYTES_MAX) -> Options:
    """Return the options that bound messages, for a channel or a server."""
    return (("grpc.max_send_message_length", bytes_max), ("grpc.max_receive_message_length", bytes_max))


_CHANNEL_OPTIONS: Final[Options] = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Processes of a cluster reach each other directly, whatever http_proxy says.
    ("grpc.enable_http_proxy", 0),
    # Without a pool of its own a channel would inherit the back-off of an earlier one to the same address.
    ("grpc.use_local_subchannel_pool", 1),
)


def dial(
    address: str,
    peer: RpcIdentity,
    *,
    tls: "RpcTls | None" = None,
    interceptors: Sequence[aio.ClientInterceptor] = (),
    message_bytes_max: int = MESSAGE_BYTES_MAX,
) -> aio.Channel:
    """Return a channel to `host:port`; it connects when first used.

    Args:
        address: where.
        peer: whose certificate is accepted there, with TLS.
        tls: what this process shows; None for a cluster whose processes speak without TLS.
        interceptors: of the channel.
        message_bytes_max: the largest message either way.
    """
    options = (*_CHANNEL_OPTIONS, *message_size_options(message_bytes_max))
    if tls is None:
        return aio.insecure_channel(address, options=options, interceptors=interceptors)
    return aio.secure_channel(
        address,
        tls.credentials.of_client(),
        options=(*options, (NAME_OPTION, tls.names.name_of(peer))),
        interceptors=interceptors,
    )
