"""Which addresses connectors may connect to in this process, as the operator of the worker has decided.

The runtime calls `forbid_internal_addresses` before it makes a connector. A plugin that connects to what settings or
servers name asks `require_permitted` about each address right before it connects to it: a name that was judged
earlier may mean another address by then (DNS rebinding).
"""

import ipaddress
from collections.abc import Iterator

from ottla_sdk.errors import FatalError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

IN_LAST_BITS = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "64:ff9b::/96",  # NAT64 (RFC 6052)
            "::ffff:0:0/96",  # mapped (RFC 4291)
            "::ffff:0:0:0/96",  # translated (RFC 2765)
            "::/96",  # compatible (RFC 4291, deprecated)
        ),
    )
)
"""Addresses of IPv6 that stand for one of IPv4, in their last 32 bits."""
LOCAL = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "64:ff9b:1::/48",  # NAT64 within a network (RFC 8215): whoever runs it decides what these stand for
            "fec0::/10",  # site-local (RFC 3879, deprecated)
        ),
    )
)
"""Networks that are internal and that `ipaddress` takes for public."""
ISATAP = (0x5EFE, 0x2005EFE)
"""The third quarter of an address in which the last holds one of IPv4 (RFC 5214): a local or a global one."""

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
    """Return whether an address is not public: loopback, link-local, private, multicast, reserved.

    One that stands for others, such as that of a tunnel, is public where all of them are.
    """
    if any(address in network for network in LOCAL):
        return True
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
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo  # the server and the client
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if (int(address) >> 32) & 0xFFFFFFFF in ISATAP or any(address in network for network in IN_LAST_BITS):
        yield last
