"""Which addresses connectors may connect to in this process, as the operator of the worker has decided.

The runtime calls `forbid_internal_addresses` before it makes a connector. A plugin that connects to what settings or
servers name asks `require_permitted` about each address right before it connects to it: a name that was judged
earlier may mean another address by then (DNS rebinding).
"""

import ipaddress
from collections.abc import Iterator

from ottla_sdk.errors import FatalError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""Addresses by which IPv6 reaches those of IPv4, in their last 32 bits (RFC 6052)."""

_state = {"internal": True}


class AddressRefused(FatalError):
    """The worker lets connectors reach no internal addresses."""


def forbid_internal_addresses(*, forbidden: bool) -> None:
    """Decide for this process whether its connectors are kept from internal addresses; at first they are not."""
    _state["internal"] = not forbidden


def internal_addresses_are_forbidden() -> bool:
    """Return whether they are."""
    return not _state["internal"]


def is_internal(address: Address) -> bool:
    """Return whether an address is not public: loopback, link-local, private, multicast, reserved."""
    return any(not each.is_global or each.is_multicast for each in (address, *_embedded(address)))


def require_permitted(name: str, address: str) -> None:
    """Return if a connection to an address may be made.

    Args:
        name: what settings or servers call it, for the message.
        address: the address of IPv4 or IPv6 that is connected to.

    Raises:
        AddressRefused: it may not.
    """
    if internal_addresses_are_forbidden() and is_internal(ipaddress.ip_address(address)):
        raise AddressRefused(
            f"{name} has the address {address}, which is internal; the worker's "
            "connector.internal.addresses.allowed=false lets connectors reach public addresses only"
        )


def _embedded(address: Address) -> Iterator[Address]:
    """Yield the addresses of IPv4 that an address of IPv6 leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address in NAT64:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
