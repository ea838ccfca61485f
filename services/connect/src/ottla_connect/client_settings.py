"""Kafka client settings as users of Kafka Connect write them, turned into librdkafka's.

Kafka Connect's workers and connectors configure Java clients (``sasl.jaas.config``, ``max.request.size``); ours drive
librdkafka, which knows most of the same names, some under others, and a few not at all. What has no counterpart and
changes nothing but a detail is left out; what would silently weaken or change behaviour is refused with what to write
instead, and so is what makes librdkafka load native code or run commands: connectors' settings come in by REST. Every
name that is not listed here passes through, so librdkafka's own settings can be used as well.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Literal

ClientKind = Literal["producer", "consumer", "admin", "worker"]

SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

INT32_MAX = 2**31 - 1
IDEMPOTENT_IN_FLIGHT_MAX = 5
PEM_SUFFIXES = (".pem", ".crt", ".cer", ".key")

RENAMED = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "max.request.size": "message.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
}

# Java's clients know these, librdkafka does not, and nothing depends on them: see above for what is refused instead.
LEFT_OUT = frozenset(
    {
        "auto.include.jmx.reporter",
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "key.deserializer",
        "key.serializer",
        "max.block.ms",
        "max.poll.records",
        "metadata.max.idle.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.truststore.type",
        "ssl.keystore.type",
        "value.deserializer",
        "value.serializer",
    }
)

REFUSED = {
    "interceptor.classes": "interceptors are Java classes, which cannot be loaded here; remove it",
    "plugin.library.paths": "it would load native code into the process",
    "partitioner.class": "partitioners are Java classes; write librdkafka's 'partitioner' instead (murmur2_random "
    "places records as Java's default does)",
    "sasl.client.callback.handler.class": "callback handlers are Java classes, which cannot be loaded here",
    "sasl.login.callback.handler.class": "callback handlers are Java classes, which cannot be loaded here",
    "sasl.login.class": "login classes are Java classes, which cannot be loaded here",
    "sasl.kerberos.kinit.cmd": "it would run a shell command; Kerberos is not supported",
    "security.providers": "security providers are Java classes, which cannot be loaded here",
    "ssl.enabled.protocols": "OpenSSL's configuration decides which TLS versions are allowed; remove it",
    "ssl.engine.factory.class": "engine factories are Java classes, which cannot be loaded here",
    "ssl.engine.id": "it would load native code into the process",
    "ssl.engine.location": "it would load native code into the process",
    "ssl.keymanager.algorithm": "it concerns Java's key managers; remove it",
    "ssl.protocol": "OpenSSL's configuration decides which TLS versions are allowed; remove it",
    "ssl.provider": "security providers are Java classes, which cannot be loaded here",
    "ssl.providers": "it would load native code into the process",
    "ssl.secure.random.implementation": "it concerns Java's random numbers; remove it",
    "ssl.trustmanager.algorithm": "it concerns Java's trust managers; remove it",
    "ssl.truststore.password": "a PEM truststore has no password; remove it",
}

# Settings of the worker's own clients that are accepted beside its fields, under Java's names and librdkafka's.
CLIENT_KEYS = frozenset(
    {
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "metadata.recovery.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.jaas.config",
        "sasl.mechanism",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)

SESSION_TIMEOUT = "session.timeout.ms"

# What every client of a kind is told unless the worker's or the connector's settings say otherwise (Kafka's Worker).
# Idempotence keeps the order and number of records although several requests are in flight; the partitioner places
# records as Java's default does, so that a key keeps its partition whoever writes it. A sink task that was killed is
# started again at once, but its group waits for the former member: a short session keeps that wait short.
CLIENT_DEFAULTS: Mapping[ClientKind, Mapping[str, str]] = {
    "producer": {
        "acks": "all",
        "enable.idempotence": "true",
        "delivery.timeout.ms": str(INT32_MAX),
        "partitioner": "murmur2_random",
    },
    "consumer": {"enable.auto.commit": "false", "auto.offset.reset": "earliest", SESSION_TIMEOUT: "10000"},
    "admin": {},
    "worker": {},
}

# Java's names of the assignors that librdkafka has too.
ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}

# What a connector may override under the policy "Principal": who it is to the brokers (Kafka's
# PrincipalConnectorClientConfigOverridePolicy), under librdkafka's names too.
PRINCIPAL_KEYS = frozenset(
    {"sasl.jaas.config", "sasl.mechanism", "sasl.mechanisms", "sasl.password", "sasl.username", "security.protocol"}
)

_LOGIN_MODULE = re.compile(
    r"^\s*(?P<class>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*);\s*$"
)
_LOGIN_OPTION = re.compile(r"""(?P<name>[\w.]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s";]+))""")
_LOGIN_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class ClientSettingError(ValueError):
    """Client settings cannot be turned into librdkafka's; `problems` are sentences that begin with the key."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))


def librdkafka_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's settings for those of a Java client; librdkafka's own names are kept.

    Raises:
        ClientSettingError: some have no counterpart.
    """
    translated: dict[str, str] = {}
    problems: list[str] = []
    for key, value in settings.items():
        if key in REFUSED:
            problems.append(f"{key}: {REFUSED[key]}")
        elif key in _TRANSLATED:
            try:
                translated.update(_TRANSLATED[key](value, settings))
            except ValueError as error:
                problems.append(f"{key}: {error}")
        elif key not in LEFT_OUT:
            translated[RENAMED.get(key, key)] = value
    if problems:
        raise ClientSettingError(problems)
    return translated


def client_problems(prefix: str, settings: Mapping[str, str]) -> list[str]:
    """Return what is wrong with a worker's settings for Kafka clients, as sentences that begin with the key.

    Settings that refer to a config provider are left for the process that resolves them.
    """
    written = {key: value for key, value in settings.items() if "${" not in value}
    problems = []
    protocol = written.get("security.protocol", "PLAINTEXT")
    if protocol.upper() not in SECURITY_PROTOCOLS:
        problems.append(f"security.protocol: {protocol!r} is none of {', '.join(SECURITY_PROTOCOLS)}")
    mechanism = written.get("sasl.mechanism", "PLAIN")
    if mechanism not in SASL_MECHANISMS:
        problems.append(f"sasl.mechanism: {mechanism!r} is none of {', '.join(SASL_MECHANISMS)}")
    try:
        librdkafka_settings(written)
    except ClientSettingError as error:
        problems += error.problems
    return [f"{prefix}{problem}" for problem in problems]


def layered(base: Mapping[str, str], kind: ClientKind, layers: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return a client's settings: `base`, Connect's defaults for the kind, then the layers, the later winning.

    A key stands where its last layer set it, so that of two names for the same thing the later wins too. As in Java's
    producer, what contradicts idempotence turns it off unless it was asked for.
    """
    merged = {**base, **CLIENT_DEFAULTS[kind]}
    for layer in layers:
        for key, value in layer.items():
            merged.pop(key, None)
            merged[key] = value
    asked_for = any("enable.idempotence" in layer for layer in layers)
    if kind == "producer" and not asked_for and _contradicts_idempotence(merged):
        merged["enable.idempotence"] = "false"
    if merged.get("group.protocol", "").lower() == "consumer" and not any(SESSION_TIMEOUT in each for each in layers):
        del merged[SESSION_TIMEOUT]  # the brokers decide it in that protocol
    return merged


def override_problems(policy: str, kind: ClientKind, overrides: Mapping[str, str]) -> list[str]:
    """Return which of a connector's client overrides the worker's policy forbids, as sentences.

    Args:
        policy: ``All``, ``Principal`` or ``None``.
        kind: whose client it is.
        overrides: the settings without their prefix ``producer.override.``, ``consumer.override.`` …
    """
    if policy == "All":
        return []
    allowed = PRINCIPAL_KEYS if policy == "Principal" else frozenset[str]()
    return [
        f"{kind}.override.{key}: the worker's connector.client.config.override.policy {policy} does not allow it"
        for key in overrides
        if key not in allowed
    ]


def login_of_jaas_config(text: str) -> tuple[str, str]:
    """Return user name and password of a ``sasl.jaas.config`` for PLAIN or SCRAM.

    Raises:
        ValueError: it is malformed, or for something else; the text itself, a secret, is not in the message.
    """
    match = _LOGIN_MODULE.match(text)
    if match is None:
        raise ValueError('write it as CLASS required username="..." password="...";')
    if match["class"] not in _LOGIN_MODULES:
        raise ValueError(f"{match['class']} is not supported; PlainLoginModule and ScramLoginModule are")
    options = {
        option["name"]: re.sub(r"\\(.)", r"\1", option["quoted"]) if option["quoted"] is not None else option["bare"]
        for option in _LOGIN_OPTION.finditer(match["options"])
    }
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        raise ValueError(f"{' and '.join(missing)} is missing in it")
    return options["username"], options["password"]


def _contradicts_idempotence(settings: Mapping[str, str]) -> bool:
    in_flight = settings.get("max.in.flight.requests.per.connection", settings.get("max.in.flight", "1"))
    return (
        settings.get("request.required.acks", settings["acks"]) not in ("all", "-1")
        or settings.get("retries", "1") == "0"
        or (in_flight.isdecimal() and int(in_flight) > IDEMPOTENT_IN_FLIGHT_MAX)
    )


def _jaas_config(value: str, _: Mapping[str, str]) -> dict[str, str]:
    username, password = login_of_jaas_config(value)
    return {"sasl.username": username, "sasl.password": password}


def _truststore(value: str, settings: Mapping[str, str]) -> dict[str, str]:
    kind = settings.get("ssl.truststore.type", "").upper() or _store_type(value)
    if kind != "PEM":
        raise ValueError(
            f"{value} is a {kind} store, which librdkafka cannot read; export its certificates as PEM and write "
            "ssl.truststore.type=PEM"
        )
    return {"ssl.ca.location": value}


def _keystore(value: str, settings: Mapping[str, str]) -> dict[str, str]:
    kind = settings.get("ssl.keystore.type", "").upper() or _store_type(value)
    if kind == "PEM":
        return {"ssl.certificate.location": value, "ssl.key.location": value}
    if kind == "PKCS12":
        return {"ssl.keystore.location": value}
    raise ValueError(
        f"{value} is a {kind} store, which librdkafka cannot read; convert it to PKCS12 or PEM and write "
        "ssl.keystore.type accordingly"
    )


def _store_type(path: str) -> str:
    suffix = PurePath(path).suffix.lower()
    if suffix in PEM_SUFFIXES:
        return "PEM"
    return "PKCS12" if suffix in (".p12", ".pfx") else "JKS"  # JKS is Java's default


def _endpoint_identification(value: str, _: Mapping[str, str]) -> dict[str, str]:
    return {"ssl.endpoint.identification.algorithm": value or "none"}  # empty turns it off in Java


def _buffer_memory(value: str, _: Mapping[str, str]) -> dict[str, str]:
    if not value.isdecimal():
        raise ValueError(f"{value!r} is no number of bytes")
    return {"queue.buffering.max.kbytes": str(max(1, int(value) // 1024))}


def _assignment_strategy(value: str, _: Mapping[str, str]) -> dict[str, str]:
    names = [ASSIGNORS.get(name.strip(), name.strip()) for name in value.split(",") if name.strip()]
    unknown = [name for name in names if name not in ASSIGNORS.values()]
    if unknown:
        raise ValueError(f"librdkafka has no assignor {', '.join(unknown)}; it has {', '.join(ASSIGNORS.values())}")
    return {"partition.assignment.strategy": ",".join(names)}


def _offset_reset(value: str, _: Mapping[str, str]) -> dict[str, str]:
    if value.startswith("by_duration:"):
        raise ValueError("librdkafka cannot reset to a time; write earliest, latest or none")
    return {"auto.offset.reset": "error" if value == "none" else value}


_TRANSLATED: Mapping[str, Callable[[str, Mapping[str, str]], dict[str, str]]] = {
    "auto.offset.reset": _offset_reset,
    "buffer.memory": _buffer_memory,
    "partition.assignment.strategy": _assignment_strategy,
    "sasl.jaas.config": _jaas_config,
    "ssl.endpoint.identification.algorithm": _endpoint_identification,
    "ssl.keystore.location": _keystore,
    "ssl.truststore.location": _truststore,
}
