"""The SASL settings of one listener, under Kafka's names. Pure.

A setting of a mechanism on a listener, ``listener.name.<name>.<mechanism>.<setting>`` in lower case, comes before one
of the listener, ``listener.name.<name>.<setting>``, and that before the broker's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla_broker.sasl.jaas import BEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, LoginModule, parse_jaas
from ottla_core.errors import ConfigurationError
from ottla_core.tokens.token_claims import BearerSettings, ClaimRules

PREFIX: Final = "sasl."
LISTENER_PREFIX: Final = "listener.name."
REAUTHENTICATION: Final = "connections.max.reauth.ms"
PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
ENABLED: Final = "sasl.enabled.mechanisms"
INTER_BROKER: Final = "sasl.mechanism.inter.broker.protocol"
JAAS: Final = "sasl.jaas.config"
USERS_FILE: Final = "sasl.plain.users.location"
_BEARER: Final = "sasl.oauthbearer."
JWKS: Final = f"{_BEARER}jwks.endpoint.url"
TOKEN_ENDPOINT: Final = f"{_BEARER}token.endpoint.url"
_HANDLERS: Final = ("sasl.server.callback.handler.class", "sasl.login.callback.handler.class")
_KAFKAS_HANDLERS: Final = ("OAuthBearerValidatorCallbackHandler", "OAuthBearerLoginCallbackHandler")
_MODULES: Final = {
    PLAIN: PLAIN_MODULE,
    SCRAM_SHA_256: SCRAM_MODULE,
    SCRAM_SHA_512: SCRAM_MODULE,
    OAUTHBEARER: BEARER_MODULE,
}
_USER_OPTION: Final = "user_"
_MECHANISM_PREFIXES: Final = {
    spelling: mechanism
    for mechanism in MECHANISMS
    for spelling in (mechanism.lower(), mechanism.lower().replace("-", "."))
}
"""By how settings spell a mechanism; variables of the environment have no hyphens."""

DESCRIPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    ENABLED: ("none", f"Mechanisms by which clients may log in, separated by commas: {', '.join(MECHANISMS)}."),
    JAAS: (
        "none",
        "A login module of Kafka's with its options: of PLAIN the users with their passwords, of every mechanism how"
        " this broker logs in to others. Best written for a listener and mechanism.",
    ),
    USERS_FILE: (
        "none",
        "File with more users of PLAIN, a line NAME=PASSWORD for each; read again when it changes.",
    ),
    INTER_BROKER: ("the only enabled one", "The mechanism by which brokers log in to each other."),
    "sasl.server.max.receive.size": ("524288", "Largest request of a client that has not logged in, in bytes."),
    REAUTHENTICATION: (
        "0",
        "Milliseconds after which a client has to log in again on its connection (KIP-368); 0: never.",
    ),
    JWKS: ("none", "URL of the keys that sign tokens of OAUTHBEARER (a JSON Web Key Set): https, http or file."),
    f"{_BEARER}jwks.endpoint.refresh.ms": ("3600000", "Milliseconds after which these keys are read again."),
    f"{_BEARER}expected.audience": ("any", "Audiences, separated by commas; a token has to be for one of them."),
    f"{_BEARER}expected.issuer": ("any", "Who has to have issued a token."),
    f"{_BEARER}scope.claim.name": ("scope", "The claim that has a token's scopes."),
    f"{_BEARER}sub.claim.name": ("sub", "The claim that names the client."),
    f"{_BEARER}clock.skew.seconds": ("30", "Seconds by which the clocks of issuer and broker may differ."),
    TOKEN_ENDPOINT: ("none", "URL at which this broker gets a token, to log in to others by OAUTHBEARER."),
    **dict.fromkeys(
        _HANDLERS, ("Kafka's for tokens", "Taken for configurations of Kafka; only Kafka's own classes are known.")
    ),
}
"""Every setting with its default and a sentence."""
LISTS: Final = frozenset({ENABLED, f"{_BEARER}expected.audience"})
NUMBERS: Final = frozenset(
    {
        "sasl.server.max.receive.size",
        REAUTHENTICATION,
        f"{_BEARER}jwks.endpoint.refresh.ms",
        f"{_BEARER}clock.skew.seconds",
    }
)
SECRETS: Final = frozenset({JAAS})


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """What a listener does about SASL.

    Attributes:
        mechanisms: those that clients may use.
        passwords: of the users of PLAIN.
        users_file: a file of more users of PLAIN; empty: none.
        receive_bytes_max: largest request of a client that has not logged in.
        reauthentication_ms: how long a login holds, by mechanism; 0: for ever.
        bearer: None without OAUTHBEARER.
    """

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str] = field(repr=False)
    users_file: str
    receive_bytes_max: int
    reauthentication_ms: Mapping[str, int]
    bearer: BearerSettings | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLoginSettings:
    """How this broker logs in to others.

    Attributes:
        mechanism: by which mechanism.
        options: what the login module says.
        token_endpoint: where to get a token; empty without OAUTHBEARER.
    """

    mechanism: str
    options: Mapping[str, str] = field(repr=False)
    token_endpoint: str


def unknown_key_problem(key: str) -> str | None:
    """Return what is wrong with the name of a setting that is about SASL, None if nothing is."""
    name = key
    if key.startswith(LISTENER_PREFIX):
        name = key.removeprefix(LISTENER_PREFIX).partition(".")[2]
        for spelling in _MECHANISM_PREFIXES:
            name = name.removeprefix(f"{spelling}.")
    if name in DESCRIPTIONS:
        return None
    return f"{key}: {name} is no setting of SASL here; there are {', '.join(DESCRIPTIONS)}"


def is_about_sasl(key: str) -> bool:
    """Return whether a setting, perhaps of a listener, is about SASL."""
    if not key.startswith(LISTENER_PREFIX):
        return key.startswith((PREFIX, REAUTHENTICATION))
    of_listener = key.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return of_listener.startswith((PREFIX, REAUTHENTICATION, *(f"{each}." for each in _MECHANISM_PREFIXES)))


def sasl_settings(listener: str, values: Mapping[str, str]) -> SaslSettings:
    """Return what the settings say for a listener.

    Args:
        listener: its name.
        values: all settings that begin with `sasl.` or `listener.name.`, and `REAUTHENTICATION`.

    Raises:
        ConfigurationError: they are not enough for SASL, or contradict each other. No message has a secret.
    """
    given = _of_listener(listener, values)
    mechanisms = _words(given.get(ENABLED, ""))
    if not mechanisms:
        raise ConfigurationError(f"the listener {listener} asks for SASL: set {ENABLED}")
    if unknown := [each for each in mechanisms if each not in MECHANISMS]:
        raise ConfigurationError(f"{ENABLED}: {unknown[0]} is not supported here; {', '.join(MECHANISMS)} are")
    by_mechanism = {each: _of_mechanism(listener, each, values) for each in mechanisms}
    modules = {each: _module(listener, each, by_mechanism[each]) for each in mechanisms}
    passwords, users_file = {}, ""
    if PLAIN in mechanisms:
        module, users_file = modules[PLAIN], by_mechanism[PLAIN].get(USERS_FILE, "")
        options = {} if module is None else module.options
        prefix = _USER_OPTION
        passwords = {name.removeprefix(prefix): word for name, word in options.items() if name.startswith(prefix)}
        if module is None and not users_file:
            raise ConfigurationError(
                f"PLAIN on the listener {listener} has no users: set"
                f" {LISTENER_PREFIX}{listener.lower()}.plain.{JAAS} or {USERS_FILE}"
            )
    for mechanism in mechanisms:
        _check_handlers(by_mechanism[mechanism])
    return SaslSettings(
        mechanisms=mechanisms,
        passwords=passwords,
        users_file=users_file,
        receive_bytes_max=_number("sasl.server.max.receive.size", given, least=1024),
        reauthentication_ms={each: _number(REAUTHENTICATION, by_mechanism[each]) for each in mechanisms},
        bearer=_bearer(by_mechanism[OAUTHBEARER], modules[OAUTHBEARER]) if OAUTHBEARER in mechanisms else None,
    )


def peer_login_settings(listener: str, values: Mapping[str, str]) -> PeerLoginSettings:
    """Return how a broker logs in to others by a listener with SASL.

    Raises:
        ConfigurationError: the settings do not say it.
    """
    enabled = _words(_of_listener(listener, values).get(ENABLED, ""))
    mechanism = values.get(INTER_BROKER) or (enabled[0] if len(enabled) == 1 else "")
    if mechanism not in enabled:
        raise ConfigurationError(f"{INTER_BROKER}: set it to one that {ENABLED} has on the listener {listener}")
    given = _of_mechanism(listener, mechanism, values)
    module = _module(listener, mechanism, given)
    options = {} if module is None else module.options
    named = ("clientId", "clientSecret") if mechanism == OAUTHBEARER else ("username", "password")
    if missing := [each for each in named if not options.get(each)]:
        raise ConfigurationError(
            f"brokers log in to each other by {mechanism} on the listener {listener}: {' and '.join(missing)} belong"
            f" into {LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS}"
        )
    endpoint = given.get(TOKEN_ENDPOINT, "")
    if mechanism == OAUTHBEARER and not endpoint:
        raise ConfigurationError(f"brokers log in to each other by {OAUTHBEARER}: set {TOKEN_ENDPOINT}")
    return PeerLoginSettings(mechanism=mechanism, options=options, token_endpoint=endpoint)


def _of_listener(listener: str, values: Mapping[str, str]) -> dict[str, str]:
    own = f"{LISTENER_PREFIX}{listener.lower()}."
    given = {key: value for key, value in values.items() if not key.startswith(LISTENER_PREFIX)}
    return given | {key.removeprefix(own): value for key, value in values.items() if key.startswith(own)}


def _of_mechanism(listener: str, mechanism: str, values: Mapping[str, str]) -> dict[str, str]:
    given = _of_listener(listener, values)
    for spelling, named in _MECHANISM_PREFIXES.items():
        if named == mechanism:
            own = f"{spelling}."
            given |= {key.removeprefix(own): value for key, value in given.items() if key.startswith(own)}
    return given


def _module(listener: str, mechanism: str, given: Mapping[str, str]) -> LoginModule | None:
    text = given.get(JAAS, "")
    if not text:
        return None
    try:
        module = parse_jaas(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"{JAAS} of {mechanism} on the listener {listener}: {error}") from None
    if module.name != _MODULES[mechanism]:
        raise ConfigurationError(
            f"{JAAS} of {mechanism} on the listener {listener} is to name {_MODULES[mechanism]}, not {module.name};"
            f" write one for each mechanism: {LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS}"
        )
    return module


def _bearer(given: Mapping[str, str], module: LoginModule | None) -> BearerSettings:
    options = {} if module is None else module.options
    if any(name.startswith("unsecured") for name in options):
        raise ConfigurationError(f"{JAAS}: tokens without a signature (KIP-255) are not accepted; set {JWKS}")
    url = given.get(JWKS, "")
    if not url.lower().startswith(("https://", "http://", "file:///")):
        raise ConfigurationError(
            f"{OAUTHBEARER} needs {JWKS}, an address that begins with https://, http:// or file:///"
        )
    return BearerSettings(
        jwks_url=url,
        authorities=options.get("ssl.truststore.location", ""),
        refresh_ms=_number(f"{_BEARER}jwks.endpoint.refresh.ms", given, least=1000),
        rules=ClaimRules(
            audiences=frozenset(_words(given.get(f"{_BEARER}expected.audience", ""))),
            issuer=given.get(f"{_BEARER}expected.issuer") or None,
            subject_claim=given.get(f"{_BEARER}sub.claim.name", "sub"),
            scope_claim=given.get(f"{_BEARER}scope.claim.name", "scope"),
            skew_s=_number(f"{_BEARER}clock.skew.seconds", given),
        ),
    )


def _check_handlers(given: Mapping[str, str]) -> None:
    for key in _HANDLERS:
        named = given.get(key, "")
        if named and named.rpartition(".")[2] not in _KAFKAS_HANDLERS:
            raise ConfigurationError(f"{key}: there is no {named} here, only Kafka's own for tokens")


def _number(key: str, given: Mapping[str, str], *, least: int = 0) -> int:
    text = given.get(key, DESCRIPTIONS[key][0])
    if not text.isdecimal() or not least <= int(text) < 2**63:
        raise ConfigurationError(f"{key}={text}: it is a whole number, {least} or more")
    return int(text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
