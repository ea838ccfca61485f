"""What Connect's Kafka clients are told beyond the settings that users write: defaults, layers, override policies.

How settings of Java's clients become librdkafka's is the same everywhere (`ottla_sdk/kafka/client_settings.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from ottla_sdk.kafka.client_settings import ClientRules, ClientSettingError, librdkafka_settings

ClientKind = Literal["producer", "consumer", "admin", "worker"]

INT32_MAX = 2**31 - 1
IDEMPOTENT_IN_FLIGHT_MAX = 5

RULES = ClientRules()
"""What holds for all; what the worker's own connections cannot do, `ottla_core.client` says when they are made."""

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
        "https.ca.location",
        "https.ca.pem",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.mechanism",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
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

# What a connector may override under the policy "Principal": who it is to the brokers (Kafka's
# PrincipalConnectorClientConfigOverridePolicy), under librdkafka's names too.
PRINCIPAL_KEYS = frozenset(
    {
        "sasl.jaas.config",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.scope",
        "sasl.password",
        "sasl.username",
        "security.protocol",
    }
)


def client_problems(prefix: str, settings: Mapping[str, str]) -> list[str]:
    """Return what is wrong with a worker's settings for Kafka clients, as sentences that begin with the key.

    Settings that refer to a config provider are left for the process that resolves them.
    """
    written = {key: value for key, value in settings.items() if "${" not in value}
    try:
        librdkafka_settings(written, RULES, prefix=prefix, is_whole=False)
    except ClientSettingError as error:
        return [f"{prefix}{problem}" for problem in error.problems]
    return []


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


def override_problems(
    policy: str, kind: ClientKind, overrides: Mapping[str, str], *, allowlist: Sequence[str] = ()
) -> list[str]:
    """Return which of a connector's client overrides the worker's policy forbids, as sentences.

    Args:
        policy: ``All``, ``Allowlist``, ``Principal`` or ``None``.
        kind: whose client it is.
        overrides: the settings without their prefix ``producer.override.``, ``consumer.override.`` …
        allowlist: the settings that the policy ``Allowlist`` allows (KIP-1188).
    """
    if policy == "All":
        return []
    allowed = {"Principal": PRINCIPAL_KEYS, "Allowlist": frozenset(allowlist)}.get(policy, frozenset())
    return [
        f"{kind}.override.{key}: the worker's connector.client.config.override.policy {policy} does not allow it"
        for key in overrides
        if key not in allowed
    ]


def _contradicts_idempotence(settings: Mapping[str, str]) -> bool:
    in_flight = settings.get("max.in.flight.requests.per.connection", settings.get("max.in.flight", "1"))
    return (
        settings.get("request.required.acks", settings["acks"]) not in ("all", "-1")
        or settings.get("retries", "1") == "0"
        or (in_flight.isdecimal() and int(in_flight) > IDEMPOTENT_IN_FLIGHT_MAX)
    )
