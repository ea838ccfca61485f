"""Settings of Java's Kafka clients whose values have to be rewritten for librdkafka: logins, stores, classes. Pure.

Every function takes a setting's value and what was written beside it, and returns librdkafka's settings for it. It
raises `ValueError` with what is wrong and what to write instead, without the key; a secret is in no message.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER = "OAUTHBEARER"
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
KERBEROS = "GSSAPI"
MECHANISM_KEYS = frozenset({"sasl.mechanism", "sasl.mechanisms"})

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - a setting's name
OAUTH_METHOD = "sasl.oauthbearer.method"
OIDC: Mapping[str, str] = {OAUTH_METHOD: "oidc"}
"""Has librdkafka ask a token endpoint, as `OAuthBearerLoginCallbackHandler` does (KIP-768)."""

PEM_SUFFIXES = (".pem", ".crt", ".cer", ".key")

# Java's names of the assignors that librdkafka has too.
ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}

_SECURITY = "org.apache.kafka.common.security"
_OAUTH = f"{_SECURITY}.oauthbearer"
_PASSWORD_MODULES = frozenset({f"{_SECURITY}.plain.PlainLoginModule", f"{_SECURITY}.scram.ScramLoginModule"})
_OAUTH_MODULE = f"{_OAUTH}.OAuthBearerLoginModule"
_TOKEN_HANDLERS = frozenset(
    {f"{_OAUTH}.OAuthBearerLoginCallbackHandler", f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler"}
)
# Java's ways to come by a token (KIP-1139), and what has librdkafka do the same.
_RETRIEVERS: Mapping[str, Mapping[str, str]] = {
    f"{_OAUTH}.DefaultJwtRetriever": OIDC,
    f"{_OAUTH}.ClientCredentialsJwtRetriever": {**OIDC, "sasl.oauthbearer.grant.type": "client_credentials"},
    f"{_OAUTH}.JwtBearerJwtRetriever": {
        **OIDC,
        "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
    },
}
_VALIDATORS = frozenset({f"{_OAUTH}.DefaultJwtValidator", f"{_OAUTH}.ClientJwtValidator"})
_OAUTH_OPTIONS = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_EXTENSION = "extension_"

_LOGIN_MODULE = re.compile(
    r"^\s*(?P<class>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*);\s*$", re.DOTALL
)
_LOGIN_OPTION = re.compile(r"""(?P<name>[\w.]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s";]+))""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What somebody wrote, as a translation sees it.

    Attributes:
        settings: all of them.
        prefix: what stands before each key where they were written; messages name other keys with it.
        is_whole: whether a client is made of just these, or others are laid over or under them.
        mechanisms: the SASL mechanisms that may be used.
    """

    settings: Mapping[str, str]
    prefix: str = ""
    is_whole: bool = True
    mechanisms: tuple[str, ...] = SASL_MECHANISMS


Translation = Callable[[str, Written], Mapping[str, str]]


def security_protocol(value: str, _: Written) -> Mapping[str, str]:
    """Without TLS or SASL that were asked for, a client would be another one."""
    if value.upper() not in SECURITY_PROTOCOLS:
        raise ValueError(f"{value!r} is none of {', '.join(SECURITY_PROTOCOLS)}")
    return {"security.protocol": value.upper()}


def mechanism(value: str, written: Written) -> Mapping[str, str]:
    """Under librdkafka's older name too, so that of two the later one wins."""
    if value.upper() not in written.mechanisms:
        raise ValueError(f"{value!r} is none of {', '.join(written.mechanisms)}")
    return {"sasl.mechanism": value.upper()}


def jaas_config(value: str, written: Written) -> Mapping[str, str]:
    """User and password for PLAIN and SCRAM; id, secret and scope for OAUTHBEARER."""
    match = _LOGIN_MODULE.match(value)
    if match is None:
        raise ValueError('write it as CLASS required username="..." password="...";')
    options = {
        option["name"]: re.sub(r"\\(.)", r"\1", option["quoted"]) if option["quoted"] is not None else option["bare"]
        for option in _LOGIN_OPTION.finditer(match["options"])
    }
    if match["class"] == _OAUTH_MODULE:
        login = _oauth_login(options, written.prefix)
    elif match["class"] in _PASSWORD_MODULES:
        login = _password_login(options)
    else:
        raise ValueError(
            f"{match['class']} is not supported; PlainLoginModule, ScramLoginModule and OAuthBearerLoginModule are"
        )
    if written.is_whole and not MECHANISM_KEYS & written.settings.keys():
        raise ValueError(f"write {written.prefix}sasl.mechanism too: {' or '.join(written.mechanisms)}")
    return login


def _password_login(options: Mapping[str, str]) -> Mapping[str, str]:
    if missing := [name for name in ("username", "password") if name not in options]:
        raise ValueError(f"{' and '.join(missing)} is missing in it")
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _oauth_login(options: Mapping[str, str], prefix: str) -> Mapping[str, str]:
    unknown = [name for name in options if name not in _OAUTH_OPTIONS and not name.startswith(_EXTENSION)]
    if any(name.startswith("unsecured") for name in unknown):
        raise ValueError(
            "tokens that nobody signed are for tests only; if they are meant, write librdkafka's "
            f"{prefix}enable.sasl.oauthbearer.unsecure.jwt=true and {prefix}sasl.oauthbearer.config instead"
        )
    if unknown:
        raise ValueError(
            f"its option {', '.join(unknown)} has no counterpart here (whom to trust at the token endpoint is said "
            f"by {prefix}https.ca.location)"
        )
    login = {setting: options[name] for name, setting in _OAUTH_OPTIONS.items() if name in options}
    extensions = [
        f"{name.removeprefix(_EXTENSION)}={text}" for name, text in options.items() if name.startswith(_EXTENSION)
    ]
    return {**login, "sasl.oauthbearer.extensions": ",".join(extensions)} if extensions else login


def token_endpoint(value: str, _: Written) -> Mapping[str, str]:
    """Java also reads a token from a file, which would have to be a URL here."""
    if not value.lower().startswith(("http://", "https://")):
        raise ValueError("it is no http or https address, and librdkafka gets tokens from no other one")
    return {TOKEN_URL: value}


def login_callback_handler(value: str, _: Written) -> Mapping[str, str]:
    """Kafka's own handler asks a token endpoint; any other class might do anything."""
    if value not in _TOKEN_HANDLERS:
        raise ValueError(
            f"callback handlers are Java classes, which cannot be loaded here; of {_OAUTH}."
            "OAuthBearerLoginCallbackHandler alone it is known what it does"
        )
    return OIDC


def jwt_retriever(value: str, _: Written) -> Mapping[str, str]:
    """Those that ask a token endpoint have a counterpart."""
    if value not in _RETRIEVERS:
        known = ", ".join(name.rpartition(".")[2] for name in _RETRIEVERS)
        raise ValueError(f"retrievers are Java classes, which cannot be loaded here; what {known} do is known")
    return _RETRIEVERS[value]


def jwt_validator(value: str, _: Written) -> Mapping[str, str]:
    """A client need not judge its own token: brokers do."""
    if value not in _VALIDATORS:
        raise ValueError("validators are Java classes, which cannot be loaded here; remove it: brokers check tokens")
    return {}


def header_urlencode(value: str, _: Written) -> Mapping[str, str]:
    """Librdkafka sends id and secret as they are."""
    if value.lower() != "false":
        raise ValueError("librdkafka does not encode id and secret; remove it, and write both as they are to be sent")
    return {}


def truststore(value: str, written: Written) -> Mapping[str, str]:
    """A truststore in PEM; librdkafka reads no other."""
    kind = _store_type(value, written.settings.get("ssl.truststore.type", ""))
    if kind != "PEM":
        raise ValueError(
            f"{value} is a {kind} store, which librdkafka cannot read; export its certificates as PEM and write "
            f"{written.prefix}ssl.truststore.type=PEM"
        )
    return {"ssl.ca.location": value}


def keystore(value: str, written: Written) -> Mapping[str, str]:
    """A keystore in PEM or PKCS12."""
    kind = _store_type(value, written.settings.get("ssl.keystore.type", ""))
    if kind == "PEM":
        return {"ssl.certificate.location": value, "ssl.key.location": value}
    if kind == "PKCS12":
        return {"ssl.keystore.location": value}
    raise ValueError(
        f"{value} is a {kind} store, which librdkafka cannot read; convert it to PKCS12 or PEM and write "
        f"{written.prefix}ssl.keystore.type accordingly"
    )


def _store_type(path: str, written: str) -> str:
    if written:
        return written.upper()
    suffix = PurePath(path).suffix.lower()
    if suffix in PEM_SUFFIXES:
        return "PEM"
    return "PKCS12" if suffix in (".p12", ".pfx") else "JKS"  # JKS is Java's default


def endpoint_identification(value: str, _: Written) -> Mapping[str, str]:
    """Empty turns it off in Java."""
    return {"ssl.endpoint.identification.algorithm": value or "none"}


def buffer_memory(value: str, _: Written) -> Mapping[str, str]:
    """Bytes in Java, KiB here."""
    return {"queue.buffering.max.kbytes": str(max(1, whole_number(value) // 1024))}


def assignment_strategy(value: str, _: Written) -> Mapping[str, str]:
    """Java's classes have names here."""
    names = [ASSIGNORS.get(name.strip(), name.strip()) for name in value.split(",") if name.strip()]
    unknown = [name for name in names if name not in ASSIGNORS.values()]
    if unknown:
        raise ValueError(f"librdkafka has no assignor {', '.join(unknown)}; it has {', '.join(ASSIGNORS.values())}")
    return {"partition.assignment.strategy": ",".join(names)}


def offset_reset(value: str, _: Written) -> Mapping[str, str]:
    """Java's `none` is an error here."""
    if value.startswith("by_duration:"):
        raise ValueError("librdkafka cannot reset to a time; write earliest, latest or none")
    return {"auto.offset.reset": "error" if value == "none" else value}


def ignored_keys(value: str, written: Written) -> Mapping[str, str]:
    """Left out, it would change where records go."""
    if value.lower() != "false":
        raise ValueError(f"write librdkafka's {written.prefix}partitioner=random instead")
    return {}


def two_phase_commit(value: str, _: Written) -> Mapping[str, str]:
    """Left out, transactions would time out that must not."""
    if value.lower() != "false":
        raise ValueError("librdkafka's transactions cannot take part in others; remove it")
    return {}


def whole_number(value: str) -> int:
    """Return the number that a setting's value is.

    Raises:
        ValueError: it is none.
    """
    if not value.strip().isdecimal():
        raise ValueError(f"{value!r} is no whole number")
    return int(value)
