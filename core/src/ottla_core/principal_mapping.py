"""From the distinguished name in a client's certificate to the name of its principal. Pure.

`ssl.principal.mapping.rules` is a list of rules, of which the first that fits decides: ``RULE:pattern/replacement/``,
with ``L`` or ``U`` behind it for lower or upper case, and ``DEFAULT``, which takes the distinguished name as it is.
Source: KIP-371 and Kafka's SslPrincipalMapper; patterns are Python's, in which Java's common ones mean the same.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla_core.errors import ConfigurationError

KEY: Final = "ssl.principal.mapping.rules"
DEFAULT: Final = "DEFAULT"
_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_GROUP: Final = re.compile(r"\$(\d+)")


@dataclass(frozen=True, slots=True)
class MappingRule:
    """One rule.

    Attributes:
        pattern: which names it is for, whole; None: all.
        replacement: in Python's notation.
        case: `L`, `U`, or empty.
    """

    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, distinguished_name: str) -> str | None:
        """Return the principal's name, None where the rule is not for this one."""
        if self.pattern is None:
            return distinguished_name
        found = self.pattern.fullmatch(distinguished_name)
        if found is None:
            return None
        name = found.expand(self.replacement)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


def parse_mapping_rules(text: str) -> tuple[MappingRule, ...]:
    """Return the rules of a setting.

    Raises:
        ConfigurationError: the text is no list of rules.
    """
    rules, position = list[MappingRule](), 0
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None:
            raise ConfigurationError(
                f"{KEY}: {text[position:]!r} does not begin with {DEFAULT} or RULE:pattern/replacement/[LU]"
            )
        rules.append(_rule(found))
        position = found.end()
    return tuple(rules) or (MappingRule(None, "", ""),)


def principal_name(rules: Sequence[MappingRule], distinguished_name: str) -> str | None:
    """Return the name of the principal, None where no rule is for it."""
    for rule in rules:
        name = rule.apply(distinguished_name)
        if name is not None:
            return name
    return None


def _rule(found: re.Match[str]) -> MappingRule:
    default, pattern, replacement, case = found.groups()
    if default:
        return MappingRule(None, "", "")
    unescaped = replacement.replace(r"\/", "/")
    in_python = _GROUP.sub(r"\\g<\1>", unescaped)
    try:
        compiled = re.compile(pattern.replace(r"\/", "/"))
        if any(int(number) > compiled.groups for number in _GROUP.findall(unescaped)):
            raise ConfigurationError(f"{KEY}: {replacement!r} names a group that {pattern!r} does not have")
        return MappingRule(compiled, in_python, case)
    except re.error as error:
        raise ConfigurationError(f"{KEY}: {pattern!r} is no regular expression: {error}") from None
