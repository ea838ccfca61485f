"""How fast connections may come: to the broker, to a listener, and from one address (KIP-612). Pure.

Above the rate of the broker, or of a listener (`max.connection.creation.rate`), nothing is accepted for a while; the
broker's does not hold for the listener among brokers where there are others. A connection from an address that is
above its own rate is accepted, not served, and closed after a while, so that a client that connects again at once is
held back as well; it does not count. An address is not forgotten while its connections count (`usage_table.py`), and
one network of IPv6, of which somebody may have all addresses, cannot fill the table.

Source: Kafka's ConnectionQuotas.
"""

from collections.abc import Mapping
from ipaddress import IPv6Address, IPv6Network
from typing import Final

from ottla_broker.quotas.connection_limits import ConnectionLimits
from ottla_broker.quotas.sampled_rate import RateWindow, SampledRate
from ottla_broker.quotas.usage_table import UsageTable
from ottla_core.plain_address import plain_address

ADDRESSES_MAX: Final = 10_000
"""Addresses whose rate is known; beyond, newcomers share one rate until others have made none for a window."""
IPV6_NETWORK_BITS: Final = 64
"""So many bits of an address are its network's; whoever has a network chooses the rest."""
UNLIMITED: Final = 2**31 - 1
"""The default of rates."""
PAUSE_MS_MAX: Final = 1000
"""After this time it is looked again, as the rate may have been changed."""


class ConnectionRates:
    """What came lately.

    Attributes:
        by_address: how many connections a second an address may make; None stands for all that are not named.
    """

    __slots__ = ("_all", "_of_addresses", "_of_listeners", "_window", "by_address")

    def __init__(self, window: RateWindow) -> None:
        self._window = window
        self._all = SampledRate(window)
        self._of_listeners: dict[str, SampledRate] = {}
        self._of_addresses: UsageTable[str, SampledRate] = UsageTable(lambda: SampledRate(window), ADDRESSES_MAX)
        self.by_address: Mapping[str | None, float] = {}

    def limit_addresses(self, by_address: Mapping[str | None, float]) -> None:
        """Go by other rates of addresses from now on."""
        self.by_address = {
            None if address is None else plain_address(address): rate for address, rate in by_address.items()
        }
        if not by_address:
            self._of_addresses.clear()

    def accepted(self, limits: ConnectionLimits, listener: str, now_ms: int) -> int:
        """Note that a listener has accepted a connection; return for how many milliseconds it is to accept none."""
        pause_ms = 0
        per_second = limits.listeners[listener].per_second
        if per_second != UNLIMITED:
            if (rate := self._of_listeners.get(listener)) is None:
                rate = self._of_listeners[listener] = SampledRate(self._window)
            rate.record(1, now_ms)
            pause_ms = rate.throttle_ms(per_second, now_ms)
        if limits.per_second != UNLIMITED and listener != limits.protected:
            self._all.record(1, now_ms)
            pause_ms = max(pause_ms, self._all.throttle_ms(limits.per_second, now_ms))
        return min(PAUSE_MS_MAX, pause_ms)

    def excess_ms(self, address: str, now_ms: int) -> int:
        """Note a connection from an address, unless it is one too many: return then for how long to hold it."""
        limit = self.by_address.get(address, self.by_address.get(None))
        if limit is None:
            return 0
        rate = self._of_addresses.of(address, _network(address), limit, now_ms)
        rate.record(1, now_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
        return min(PAUSE_MS_MAX, throttle_ms)


def _network(address: str) -> str:
    """Return the network of an address of IPv6, other addresses as they are."""
    if ":" not in address:
        return address
    try:
        return str(IPv6Network((int(IPv6Address(address)), IPV6_NETWORK_BITS), strict=False))
    except ValueError:
        return address
