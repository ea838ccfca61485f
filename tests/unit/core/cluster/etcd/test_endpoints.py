"""Endpoints of etcd as gRPC targets."""

import pytest

from ottla_core.cluster.etcd.endpoints import EtcdTargets, etcd_targets
from ottla_core.errors import ConfigurationError


@pytest.mark.parametrize(
    ("endpoints", "targets", "tls"),
    [
        (["http://127.0.0.1:2379"], ("ipv4:127.0.0.1:2379",), False),
        (["127.0.0.1"], ("ipv4:127.0.0.1:2379",), False),
        (["http://10.0.0.1:1", "http://10.0.0.2:2"], ("ipv4:10.0.0.1:1,10.0.0.2:2",), False),
        (["http://[::1]:1", "http://[::2]:1"], ("ipv6:[::1]:1,[::2]:1",), False),
        (["http://etcd:2379"], ("dns:///etcd:2379",), False),
        (["http://a:1", "http://b:1"], ("dns:///a:1", "dns:///b:1"), False),
        (
            ["http://10.0.0.1:1", "http://b:1", "http://10.0.0.2:1"],
            ("ipv4:10.0.0.1:1,10.0.0.2:1", "dns:///b:1"),
            False,
        ),
        (["https://10.0.0.1:1", "https://10.0.0.2:1"], ("ipv4:10.0.0.1:1", "ipv4:10.0.0.2:1"), True),
    ],
)
def test_addresses_share_a_target_and_names_and_tls_endpoints_have_their_own(
    endpoints: list[str], targets: tuple[str, ...], tls: bool
) -> None:
    assert etcd_targets(endpoints) == EtcdTargets(targets, tls)


@pytest.mark.parametrize(
    ("endpoints", "named"),
    [
        ([], "empty"),
        (["http://a:1", "https://b:1"], "mixes"),
        (["ftp://a:1"], "ftp://a:1"),
        (["http://a:notaport"], "notaport"),
        (["http://a:1/path"], "/path"),
        (["http://"], "not a URL"),
    ],
)
def test_a_bad_endpoint_is_refused_by_name(endpoints: list[str], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        etcd_targets(endpoints)
