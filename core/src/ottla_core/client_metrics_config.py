"""Which metrics clients are asked to push, and how often: the settings of a client metrics subscription (KIP-714).

A subscription has a name, prefixes of metrics' names (`metrics`), an interval (`interval.ms`), and expressions that a
client has to match (`match`), such as ``client_id=orders-.*``; without any it is for every client. Expressions are
RE2's and match the whole text, so matching takes time linear in what a client says of itself.

Source: Kafka's ClientMetricsConfigs (4.2).

Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import re2

from ottla_core.config_definition import ConfigDefinition, ConfigType
from ottla_core.errors import InvalidConfig, InvalidRequest

if TYPE_CHECKING:
    from typing import Protocol

    class Expression(Protocol):
        """A compiled regular expression."""

        def fullmatch(self, text: str) -> object:
            """Return something true if the whole text matches."""


METRICS: Final = "metrics"
INTERVAL: Final = "interval.ms"
MATCH: Final = "match"
EVERY_METRIC: Final = "*"
"""As a prefix: every metric that a client has."""

INTERVAL_MS_DEFAULT: Final = 300_000
INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000

CLIENT_INSTANCE_ID: Final = "client_instance_id"
CLIENT_ID: Final = "client_id"
SOFTWARE_NAME: Final = "client_software_name"
SOFTWARE_VERSION: Final = "client_software_version"
SOURCE_ADDRESS: Final = "client_source_address"
SOURCE_PORT: Final = "client_source_port"
SELECTORS: Final = (CLIENT_INSTANCE_ID, CLIENT_ID, SOFTWARE_NAME, SOFTWARE_VERSION, SOURCE_ADDRESS, SOURCE_PORT)
"""What of a client can be matched."""

SUBSCRIPTIONS_MAX: Final = 100
"""How many a cluster has; each client is compared with all of them."""
PREFIXES_MAX: Final = 100
"""How many prefixes one subscription names; clients are told all of theirs."""
EXPRESSION_BYTES_MAX: Final = 256 * 1024
"""Memory that a compiled expression may take."""


@dataclass(frozen=True, slots=True)
class ClientMetricsConfigDefinition:
    """One setting of a subscription with its default."""

    definition: ConfigDefinition
    default: str


def _setting(name: str, type_: ConfigType, default: str, documentation: str) -> ClientMetricsConfigDefinition:
    definition = ConfigDefinition(
        name=name, type=type_, minimum=None, maximum=None, choices=None, synonyms=(), documentation=documentation
    )
    return ClientMetricsConfigDefinition(definition, default)


CLIENT_METRICS_CONFIG_DEFINITIONS: Final[Mapping[str, ClientMetricsConfigDefinition]] = {
    each.definition.name: each
    for each in (
        _setting(METRICS, ConfigType.LIST, "", "Prefixes of the metrics' names; * stands for every metric."),
        _setting(INTERVAL, ConfigType.INT, str(INTERVAL_MS_DEFAULT), "Milliseconds between pushes of a client."),
        _setting(MATCH, ConfigType.LIST, "", "Which clients, as SELECTOR=EXPRESSION; every client without any."),
    )
}


@dataclass(frozen=True, slots=True)
class ClientMetricsSubscription:
    """A subscription, read.

    Attributes:
        prefixes: of the metrics' names.
        interval_ms: between pushes of a client.
        expressions: what a client has to match, by selector.
    """

    prefixes: frozenset[str]
    interval_ms: int
    expressions: "Mapping[str, Expression]"

    def matches(self, client: Mapping[str, str]) -> bool:
        """Return whether it is for a client that says this of itself, by selector."""
        return all(
            selector in client and expression.fullmatch(client[selector])
            for selector, expression in self.expressions.items()
        )


def client_metrics_definition(name: str) -> ConfigDefinition:
    """Return the definition of a subscription's setting.

    Raises:
        InvalidRequest: there is no such setting.
    """
    try:
        return CLIENT_METRICS_CONFIG_DEFINITIONS[name].definition
    except KeyError:
        raise InvalidRequest(f"Unknown client metrics configuration: {name}") from None


def read_subscription(configs: Mapping[str, str]) -> ClientMetricsSubscription:
    """Return the subscription that has these settings, or the defaults of those that it has not.

    Raises:
        InvalidRequest: a setting is unknown, or the interval or the number of prefixes beyond its bounds.
        InvalidConfig: a setting cannot be read, or an expression is no regular expression.
    """
    for name, text in configs.items():
        client_metrics_definition(name).parse(text)
    prefixes = frozenset(_words(configs.get(METRICS, "")))
    if len(prefixes) > PREFIXES_MAX:
        raise InvalidRequest(f"{METRICS} names {len(prefixes)} prefixes; {PREFIXES_MAX} is the most")
    interval_ms = int(configs.get(INTERVAL, INTERVAL_MS_DEFAULT))
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise InvalidRequest(
            f"Invalid value {interval_ms} for {INTERVAL}, interval must be between {INTERVAL_MS_MIN} and"
            f" {INTERVAL_MS_MAX} (1 hour)"
        )
    expressions = dict(_expression(word) for word in _words(configs.get(MATCH, "")))
    return ClientMetricsSubscription(prefixes, interval_ms, expressions)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _expression(word: str) -> "tuple[str, Expression]":
    selector, separator, pattern = (part.strip() for part in word.partition("="))
    if not separator or selector not in SELECTORS:
        raise InvalidConfig(
            f"Illegal client matching pattern: {word}; write SELECTOR=EXPRESSION with one of {', '.join(SELECTORS)}"
        )
    options = re2.Options()
    options.max_mem = EXPRESSION_BYTES_MAX
    options.log_errors = False
    try:
        return selector, cast("Expression", re2.compile(pattern, options))
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error
        raise InvalidConfig(f"Client match pattern `{word}` is not a valid regular expression: {reason}") from None
