"""What one client is asked for: all subscriptions that match it, taken together. Pure.

The id of what is asked for is worked out from it and from the client's instance id, so every broker comes to the same
one, and a client may push to another broker than the one that it has asked.

Source: Kafka's ClientMetricsManager (4.2).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from crc32c import crc32c

from ottla_core.client_metrics_config import EVERY_METRIC, INTERVAL_MS_DEFAULT, ClientMetricsSubscription


@dataclass(frozen=True, slots=True)
class WantedMetrics:
    """What a client is asked for.

    Attributes:
        prefixes: of metrics' names, in order; none: nothing is wanted.
        interval_ms: between two pushes.
        subscription_id: the id of this, an int32.
    """

    prefixes: tuple[str, ...]
    interval_ms: int
    subscription_id: int


def wanted_metrics(
    instance_id: UUID, client: Mapping[str, str], subscriptions: Iterable[ClientMetricsSubscription]
) -> WantedMetrics:
    """Return what a client is asked for.

    Args:
        instance_id: the client's.
        client: what it says of itself, by selector.
        subscriptions: all there are; those that match are joined, and the shortest interval holds.
    """
    prefixes: set[str] = set()
    interval_ms = INTERVAL_MS_DEFAULT
    for subscription in subscriptions:
        if subscription.matches(client):
            prefixes |= subscription.prefixes
            interval_ms = min(interval_ms, subscription.interval_ms)
    asked = (EVERY_METRIC,) if EVERY_METRIC in prefixes else tuple(sorted(prefixes))
    return WantedMetrics(asked, interval_ms, _subscription_id(instance_id, asked, interval_ms))


def _subscription_id(instance_id: UUID, prefixes: tuple[str, ...], interval_ms: int) -> int:
    checksum = crc32c(f"{','.join(prefixes)};{interval_ms}".encode())
    folded = instance_id.int >> 64 ^ instance_id.int
    unsigned = (checksum ^ folded >> 32 ^ folded) & 0xFFFFFFFF
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned
