"""The one form of addresses."""

import pytest

from ottla_core.acl_filters import AclFilter
from ottla_core.acls import AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.dynamic_broker_config import address_limits
from ottla_core.plain_address import plain_address


@pytest.mark.parametrize(
    ("host", "plain"),
    [
        ("10.0.0.5", "10.0.0.5"),
        ("*", "*"),
        ("kafka-1.example", "kafka-1.example"),
        ("::ffff:10.0.0.5", "10.0.0.5"),
        ("::FFFF:0A00:0005", "10.0.0.5"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("no:address", "no:address"),
    ],
)
def test_an_address_has_one_form(host: str, plain: str) -> None:
    assert plain_address(host) == plain


def test_filters_find_addresses_however_they_are_written() -> None:
    binding = AclBinding(
        kind=ResourceKind.TOPIC,
        pattern=PatternType.LITERAL,
        name="flights",
        principal="User:ann",
        host="0:0:0:0:0:0:0:1",
        operation=AclOperation.READ,
        permission=Permission.ALLOW,
    )
    assert AclFilter(host="::1").finds(binding)
    assert not AclFilter(host="::2").finds(binding)


def test_limits_of_addresses_are_those_of_clients_as_they_are_seen() -> None:
    assert address_limits("::ffff:10.0.0.5:3,[2001:DB8::1]:4") == {"10.0.0.5": 3, "2001:db8::1": 4}
