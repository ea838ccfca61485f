"""One form for addresses of clients, so that they can be compared with those that people write. Pure.

A socket that listens on all addresses (`::`) shows a client of IPv4 as ``::ffff:10.0.0.5``, and an address of IPv6
has many spellings, of which Java's tools write ``0:0:0:0:0:0:0:1``.
"""

from ipaddress import IPv6Address


def plain_address(host: str) -> str:
    """Return an address of IPv6 in its short form, without a zone; a mapped one as IPv4; anything else as it is."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)
