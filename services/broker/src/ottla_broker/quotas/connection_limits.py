"""How many connections there may be at once: of the broker, of a listener, from one address. Pure.

The listener among brokers is *protected* where there are others: the broker's limit does not hold for it, and where
it is reached a connection of another listener makes way. A listener without a limit of its own has the broker's.

Source: Kafka's ConnectionQuotas; there connections wait unaccepted that a limit of the broker or a listener refuses
here.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """Limits of one listener.

    Attributes:
        connections: at once.
        per_second: that are accepted.
    """

    connections: int
    per_second: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits that hold at present.

    Attributes:
        connections: at once, of all listeners but the protected one.
        per_second: connections that are accepted, of all listeners but the protected one.
        per_address: connections at once from one address.
        addresses: the same, of addresses that are named.
        listeners: of each listener.
        protected: the listener among brokers; None where all listeners are it.
        files: connections at once for which there are file descriptors.
    """

    connections: int
    per_second: int
    per_address: int
    addresses: Mapping[str, int]
    listeners: Mapping[str, ListenerLimits]
    protected: str | None
    files: int


@dataclass(slots=True)
class ConnectionCounts:
    """The connections that are held, as limits count them.

    Attributes:
        total: of all listeners, with those that are held back.
        by_listener: those that are served, or in their handshake.
        by_address: likewise.
    """

    total: int = 0
    by_listener: Counter[str] = field(default_factory=Counter)
    by_address: Counter[str] = field(default_factory=Counter)

    def why_refused(self, limits: ConnectionLimits, listener: str, address: str) -> str:
        """Return the limit that refuses another connection, empty if it may come."""
        if self.by_listener[listener] >= limits.listeners[listener].connections:
            return f"max.connections of the listener {listener}"
        is_protected = listener == limits.protected
        if self.total >= limits.connections and not is_protected:
            return "max.connections"
        if self.total >= limits.files and not (is_protected and self.total > self.by_listener[listener]):
            return "open files (ulimit -n)"
        if self.by_address[address] >= limits.addresses.get(address, limits.per_address):
            return "max.connections.per.ip"
        return ""

    def needs_room(self, limits: ConnectionLimits) -> bool:
        """Return whether a connection of another listener has to make way for one of the protected listener."""
        return self.total >= min(limits.connections, limits.files)

    def add(self, listener: str, address: str) -> None:
        """Count a connection."""
        self.total += 1
        self.by_listener[listener] += 1
        self.by_address[address] += 1

    def remove(self, listener: str, address: str) -> None:
        """Count it no more."""
        self.total -= 1
        self.by_listener[listener] -= 1
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]
