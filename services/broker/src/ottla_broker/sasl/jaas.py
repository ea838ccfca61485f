"""Reads the text of Kafka's ``sasl.jaas.config``: one login module of Java's with its options. Pure.

    org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="..." ;

Source: Kafka's JaasConfig and the grammar of javax.security.auth.login.Configuration. Comments are Java's.
No message here contains a value, as values are secrets.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla_core.errors import ConfigurationError

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MODULES: Final = (PLAIN_MODULE, SCRAM_MODULE, BEARER_MODULE)
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | (?P<sign>[=;]) | "(?P<quoted>(?:\\.|[^"\\])*)" | (?P<word>[^\s="';]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One login module.

    Attributes:
        name: Java's class; one of `MODULES`.
        options: by name.
    """

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Return the login module that a text names.

    Raises:
        ConfigurationError: the text is not one login module, or one that is unknown here.
    """
    tokens = _tokens(text)
    if not tokens:
        raise ConfigurationError("the text names no login module")
    name = tokens[0][1]
    if name not in MODULES:
        named = name if re.fullmatch(r"[\w.$]+", name) else "the first word"
        raise ConfigurationError(f"{named} is no login module that is supported here; {', '.join(MODULES)} are")
    if len(tokens) < 2 or tokens[1][1].lower() not in _FLAGS:
        raise ConfigurationError(f"{name} is to be followed by one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    position = 2
    while position < len(tokens) and tokens[position] != ("sign", ";"):
        option = tokens[position : position + 3]
        if [kind for kind, _ in option[:2]] != ["word", "sign"] or option[1][1] != "=" or len(option) < 3:
            raise ConfigurationError(f'option {len(options) + 1} of {name} is not written as NAME="VALUE"')
        if option[2][0] == "sign":
            raise ConfigurationError(f"the option {option[0][1]} of {name} has no value")
        options[option[0][1]] = option[2][1]
        position += 3
    if position >= len(tokens):
        raise ConfigurationError(f"the options of {name} are to end with a semicolon")
    if position + 1 < len(tokens):
        raise ConfigurationError("a listener and mechanism take one login module, and another one follows")
    return LoginModule(name, options)


def _tokens(text: str) -> list[tuple[str, str]]:
    found = []
    position = 0
    while position < len(text):
        matched = _TOKEN.match(text, position)
        if matched is None:
            raise ConfigurationError(f"character {position + 1} belongs to no word; is a quotation mark missing?")
        position = matched.end()
        if matched.lastgroup == "quoted":
            unescaped = _ESCAPE.sub(lambda each: _ESCAPED.get(each[1], each[1]), matched["quoted"])
            found.append(("quoted", unescaped))
        elif matched.lastgroup:
            found.append((matched.lastgroup, matched[matched.lastgroup]))
    return found
