"""Names of principals out of distinguished names, as in KIP-371."""

import pytest

from ottla_core.errors import ConfigurationError
from ottla_core.principal_mapping import parse_mapping_rules, principal_name

NAME = "CN=kafka.Example.com,OU=Data,O=Ottla,L=Prague,C=CZ"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("", NAME),
        ("DEFAULT", NAME),
        (r"RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/", "kafka.Example.com@Data"),
        (r"RULE:^CN=(.*?),.*$/$1/L", "kafka.example.com"),
        (r"RULE:^CN=(.*?),.*$/$1/U", "KAFKA.EXAMPLE.COM"),
        (r"RULE:^UID=(.*?),.*$/$1/, RULE:^CN=([^.]*).*$/$1/", "kafka"),
        (r"RULE:^UID=(.*?),.*$/$1/,DEFAULT", NAME),
        (r"RULE:^CN=(.*?),OU=Data.*$/a\/$1/", "a/kafka.Example.com"),
        (r"RULE:^CN=[^,]{1,20},.*$/some, one/", "some, one"),
        (r"RULE:^UID=(.*?),.*$/$1/", None),
        (r"RULE:CN=/$0/", None),
    ],
)
def test_the_first_rule_that_fits_decides(rules: str, expected: str | None) -> None:
    assert principal_name(parse_mapping_rules(rules), NAME) == expected


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:a/b/X", "a", "DEFAULT;DEFAULT", "RULE:(/b/", "RULE:(a)/$2/"])
def test_what_is_no_rule_is_refused_by_name(rules: str) -> None:
    with pytest.raises(ConfigurationError, match=r"ssl\.principal\.mapping\.rules"):
        parse_mapping_rules(rules)
