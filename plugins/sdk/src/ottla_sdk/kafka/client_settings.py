"""Settings of Kafka clients as users of Java's clients write them, turned into librdkafka's. Pure.

librdkafka knows most of the names that Java's clients have, some under others, and a few not at all. What has no
counterpart and changes nothing but a detail is left out; what would silently weaken or change behaviour, if it were
left out, is refused with what to write instead. So is what makes librdkafka load native code, run commands or pretend
that there are brokers: settings of connectors and queries come from others. Every other name passes through, so
librdkafka's own settings can be used as well.

The tables here hold for all. Who has needs beyond them passes a `ClientRules` with no more than these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ottla_sdk.errors import Problem
from ottla_sdk.kafka import translations
from ottla_sdk.kafka.translations import (
    KERBEROS,
    OAUTH_METHOD,
    OAUTHBEARER,
    OIDC,
    SASL_MECHANISMS,
    TOKEN_URL,
    Translation,
    Written,
)

RENAMED: Mapping[str, str] = {
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "sasl.oauthbearer.assertion.template.file": "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}

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
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.scope.claim.name",
        "share.acquire.mode",
        "socket.connection.setup.timeout.max.ms",
        "ssl.keystore.type",
        "ssl.truststore.type",
        "value.deserializer",
        "value.serializer",
    }
)
"""Tuning of Java's clients, what brokers judge (tokens), what concerns share groups only, and the types of stores,
which are looked at together with the stores' locations."""

_JAVA_CLASS = "it names a Java class, which cannot be loaded here; remove it"
_OPENSSL = "OpenSSL decides this, by its own configuration; remove it"

# A `{prefix}` in a reason stands for what is written before the keys.
REFUSED: Mapping[str, str] = {
    "bootstrap.controllers": "controllers are not asked here; write {prefix}bootstrap.servers",
    "config.providers": "clients resolve no references here; remove it",
    "interceptor.classes": "interceptors are Java classes, which cannot be loaded here; remove it",
    "partitioner.class": "partitioners are Java classes, which cannot be loaded here; write librdkafka's "
    "{prefix}partitioner instead (murmur2_random places keys as Java's default does)",
    "sasl.client.callback.handler.class": _JAVA_CLASS,
    "sasl.login.class": _JAVA_CLASS,
    "security.providers": _JAVA_CLASS,
    "ssl.enabled.protocols": _OPENSSL,
    "ssl.engine.factory.class": _JAVA_CLASS,
    "ssl.keymanager.algorithm": _OPENSSL,
    "ssl.protocol": _OPENSSL,
    "ssl.provider": _JAVA_CLASS,
    "ssl.secure.random.implementation": _OPENSSL,
    "ssl.trustmanager.algorithm": _OPENSSL,
    "ssl.truststore.password": "a PEM truststore has no password; remove it, and see {prefix}ssl.truststore.location",
}

_NATIVE_CODE = "it would load native code into the process; remove it"
RUNS_CODE: Mapping[str, str] = {
    "plugin.library.paths": _NATIVE_CODE,
    "ssl.engine.id": _NATIVE_CODE,
    "ssl.engine.location": _NATIVE_CODE,
    "ssl.providers": _NATIVE_CODE,
}
"""Librdkafka's own, refused but where whoever writes them could run the code as well."""
RUNS_CODE_BELOW: Mapping[str, str] = {
    # Most of these become words of a shell command.
    "sasl.kerberos.": "Kerberos is not supported, as librdkafka would run a shell command for it; remove it",
    "test.": "records would go to, or come from, brokers that librdkafka simulates; remove it",
}
"""The same by prefix of the key."""

TRANSLATED: Mapping[str, Translation] = {
    "auto.offset.reset": translations.offset_reset,
    "buffer.memory": translations.buffer_memory,
    "partition.assignment.strategy": translations.assignment_strategy,
    "partitioner.ignore.keys": translations.ignored_keys,
    "sasl.jaas.config": translations.jaas_config,
    "sasl.login.callback.handler.class": translations.login_callback_handler,
    "sasl.mechanism": translations.mechanism,
    "sasl.mechanisms": translations.mechanism,
    "sasl.oauthbearer.header.urlencode": translations.header_urlencode,
    "sasl.oauthbearer.jwt.retriever.class": translations.jwt_retriever,
    "sasl.oauthbearer.jwt.validator.class": translations.jwt_validator,
    TOKEN_URL: translations.token_endpoint,
    "security.protocol": translations.security_protocol,
    "ssl.endpoint.identification.algorithm": translations.endpoint_identification,
    "ssl.keystore.location": translations.keystore,
    "ssl.truststore.location": translations.truststore,
    "transaction.two.phase.commit.enable": translations.two_phase_commit,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRules:
    """What one who uses these rules has otherwise, beyond those that hold for all.

    Attributes:
        refused: what is refused, with the reason.
        left_out: what has no effect on these clients, with the reason.
        translated: what values have to be, or become, for these clients.
        may_run_code: whether the author of the settings may have native code loaded and commands run, Kerberos's for
            example: it is so where they start the process themselves.
    """

    refused: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    translated: Mapping[str, Translation] = field(default_factory=dict)
    may_run_code: bool = False


class Fate(Enum):
    """What becomes of a setting."""

    REFUSED = "refused"
    LEFT_OUT = "left out"
    TRANSLATED = "translated"
    PASSES = "passes, perhaps under another name"


class ClientSettingError(ValueError):
    """Client settings cannot be turned into librdkafka's; `problems` have the keys as they are without a prefix."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, problems)))


def fate(key: str, rules: ClientRules) -> tuple[Fate, str]:
    """Return what becomes of a setting, and why if it is refused."""
    if key in rules.refused:
        return Fate.REFUSED, rules.refused[key]
    reason = REFUSED.get(key) or ("" if rules.may_run_code else _why_it_runs_code(key))
    if reason:
        return Fate.REFUSED, reason
    if key in rules.left_out:
        return Fate.LEFT_OUT, ""
    if key in rules.translated or key in TRANSLATED:
        return Fate.TRANSLATED, ""
    return (Fate.LEFT_OUT if key in LEFT_OUT else Fate.PASSES), ""


def librdkafka_settings(
    settings: Mapping[str, str], rules: ClientRules, *, prefix: str = "", is_whole: bool = True
) -> dict[str, str]:
    """Return librdkafka's settings for those of a Java client; librdkafka's own names are kept.

    Args:
        settings: they; of two names for the same thing the later one wins.
        rules: what holds besides.
        prefix: what stands before the keys where they were written, for messages.
        is_whole: whether a client is made of just these; what is missing in them is wrong then.

    Raises:
        ClientSettingError: with all that is wrong.
    """
    mechanisms = (*SASL_MECHANISMS, KERBEROS) if rules.may_run_code else SASL_MECHANISMS
    written = Written(settings=settings, prefix=prefix, is_whole=is_whole, mechanisms=mechanisms)
    translated: dict[str, str] = {}
    problems: list[Problem] = []
    for key, value in settings.items():
        try:
            translated.update(_translated(key, value, written, rules))
        except ValueError as error:
            problems.append(Problem(key, str(error)))
    if not problems:
        translated = _with_oauth_method(translated)
        problems = _missing(translated, written) if is_whole else []
    if problems:
        raise ClientSettingError(problems)
    return translated


def _translated(key: str, value: str, written: Written, rules: ClientRules) -> Mapping[str, str]:
    found, reason = fate(key, rules)
    if found is Fate.REFUSED:
        raise ValueError(reason.replace("{prefix}", written.prefix))
    if found is Fate.TRANSLATED:
        translation = rules.translated.get(key) or TRANSLATED[key]
        return translation(value, written)
    return {} if found is Fate.LEFT_OUT else {RENAMED.get(key, key): value}


def _why_it_runs_code(key: str) -> str:
    below = (reason for prefix, reason in RUNS_CODE_BELOW.items() if key.startswith(prefix))
    return RUNS_CODE.get(key) or next(below, "")


def _with_oauth_method(settings: dict[str, str]) -> dict[str, str]:
    """An address for tokens is all that Java's clients need to ask there; librdkafka wants to be told so."""
    return {**OIDC, **settings} if TOKEN_URL in settings else settings


def _missing(settings: Mapping[str, str], written: Written) -> list[Problem]:
    """What librdkafka would say only when it connects, or never."""
    protocol, mechanism = settings.get("security.protocol", ""), settings.get("sasl.mechanism")
    if not protocol.startswith("SASL_"):
        return []
    if mechanism is None and KERBEROS not in written.mechanisms:  # which is librdkafka's default
        return [Problem("sasl.mechanism", f"must be set for {protocol}: {' or '.join(written.mechanisms)}")]
    has_tokens = settings.get(OAUTH_METHOD) == "oidc" or "enable.sasl.oauthbearer.unsecure.jwt" in settings
    if mechanism == OAUTHBEARER and not has_tokens:
        return [Problem(TOKEN_URL, f"must be set for {OAUTHBEARER}, as nobody here has tokens")]
    return []
