"""Which gRPC targets a list of etcd endpoints becomes.

Addresses given as numbers go into one target, over which gRPC itself balances and fails over. A host name is a
target of its own, because gRPC cannot mix it with others, and so is every endpoint under TLS, because there the
certificate is checked against the target's name. `EtcdClient` moves on to the next target when one fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from ottla_core.errors import ConfigurationError

DEFAULT_PORT = 2379


@dataclass(frozen=True, slots=True)
class EtcdTargets:
    """gRPC targets in the order of preference, and whether they speak TLS."""

    targets: tuple[str, ...]
    tls: bool


def etcd_targets(endpoints: Sequence[str]) -> EtcdTargets:
    """Return the gRPC targets of endpoints such as ``http://127.0.0.1:2379`` or ``https://etcd-1:2379``.

    Raises:
        ConfigurationError: there is no endpoint, one is no URL, or http and https are mixed.
    """
    if not endpoints:
        raise ConfigurationError("etcd.endpoints is empty; name at least one, such as http://127.0.0.1:2379")
    parsed = [_parse(endpoint) for endpoint in endpoints]
    schemes = {scheme for scheme, _, _ in parsed}
    if len(schemes) > 1:
        raise ConfigurationError("etcd.endpoints mixes http and https")
    tls = schemes == {"https"}
    groups: dict[str, list[str]] = {}
    for _, host, port in parsed:
        kind = _kind(host)
        address = f"[{host}]:{port}" if kind == "ipv6" else f"{host}:{port}"
        group = kind if kind != "dns" and not tls else address
        groups.setdefault(group, []).append(f"{kind}:///{address}" if kind == "dns" else address)
    return EtcdTargets(tuple(_target(addresses) for addresses in groups.values()), tls)


def _target(addresses: list[str]) -> str:
    first = addresses[0]
    if first.startswith("dns:"):
        return first
    return f"{'ipv6' if first.startswith('[') else 'ipv4'}:{','.join(addresses)}"


def _kind(host: str) -> str:
    try:
        return f"ipv{ip_address(host).version}"
    except ValueError:
        return "dns"


def _parse(endpoint: str) -> tuple[str, str, int]:
    url = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
    try:
        port = url.port or DEFAULT_PORT
    except ValueError:
        port = 0
    if url.scheme not in {"http", "https"} or not url.hostname or port == 0 or url.path not in {"", "/"}:
        raise ConfigurationError(f"etcd.endpoints: not a URL like http://127.0.0.1:2379: {endpoint}")
    return url.scheme, url.hostname, port
