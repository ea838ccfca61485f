"""Options `kafka.*` of a query, as users of Spark's own Kafka source write them, turned into librdkafka's settings.

That source drives Java clients (`kafka.sasl.jaas.config`, `kafka.max.request.size`), this one librdkafka, which knows
most of the same names, some under others, and a few not at all. What only tunes Java's clients is left out; what
would change what a query means or how safe it is, if it were left out, is refused with what to write instead. So is
what the data source decides itself. Every other name passes through: librdkafka's own settings can be used as well.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Literal

from ottla_sdk import InvalidConfig, Problem

ClientKind = Literal["consumer", "producer", "admin"]
Settings = dict[str, str | int | bool]

PREFIX = "kafka."
BOOTSTRAP = "bootstrap.servers"

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
IDEMPOTENT_IN_FLIGHT_MAX = 5
PEM_SUFFIXES = (".pem", ".crt", ".cer", ".key")

RENAMED = {
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "sasl.mechanisms": "sasl.mechanism",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}

# Java's clients know these, librdkafka does not, and no record depends on them. The offsets that a query reads are
# its own, so what concerns membership of a group has no effect either.
LEFT_OUT = frozenset(
    {
        "auto.include.jmx.reporter",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.instance.id",
        "heartbeat.interval.ms",
        "internal.leave.group.on.close",
        "max.block.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.idle.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.ignore.keys",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.keystore.type",
        "ssl.truststore.type",
    }
)

_JAVA_CLASS = "it names a Java class, which cannot be loaded here; remove it"
_NATIVE_CODE = "it would load native code into the process; remove it"
_FOR_LIBRDKAFKAS_TESTS = "test."
_OPENSSL = "OpenSSL decides this, by its own configuration; remove it"

REFUSED = {
    "auto.offset.reset": "write the option 'startingOffsets' instead: a query keeps its own offsets",
    "enable.auto.commit": "a query keeps its offsets in its checkpoint; to have them committed to a group as well, "
    "so that other tools show its lag, write the option 'commitGroupId'",
    "enable.auto.offset.store": "a query keeps its offsets in its checkpoint; remove it",
    "interceptor.classes": "interceptors could change records, and are Java classes; remove it",
    "key.deserializer": "keys are read as bytes; decode the column 'key' in the query instead",
    "key.serializer": "keys are written as they are; encode the column 'key' in the query instead",
    "partitioner.class": "it names a Java class, which cannot be loaded here; write the column 'partition', or "
    "librdkafka's 'kafka.partitioner' (murmur2_random, the default, places keys as Java's default does)",
    "plugin.library.paths": _NATIVE_CODE,
    "sasl.client.callback.handler.class": _JAVA_CLASS,
    "sasl.kerberos.kinit.cmd": "it would run a shell command; Kerberos is not supported",
    "sasl.login.callback.handler.class": _JAVA_CLASS,
    "sasl.login.class": _JAVA_CLASS,
    "security.providers": _JAVA_CLASS,
    "ssl.enabled.protocols": _OPENSSL,
    "ssl.engine.factory.class": _JAVA_CLASS,
    "ssl.engine.id": _NATIVE_CODE,
    "ssl.engine.location": _NATIVE_CODE,
    "ssl.keymanager.algorithm": _OPENSSL,
    "ssl.protocol": _OPENSSL,
    "ssl.provider": _JAVA_CLASS,
    "ssl.providers": _NATIVE_CODE,
    "ssl.secure.random.implementation": _OPENSSL,
    "ssl.trustmanager.algorithm": _OPENSSL,
    "ssl.truststore.password": "a PEM truststore has no password; remove it, and see 'kafka.ssl.truststore.location'",
    "transactional.id": "records are written outside of transactions, at least once; remove it",
    "value.deserializer": "values are read as bytes; decode the column 'value' in the query instead",
    "value.serializer": "values are written as they are; encode the column 'value' in the query instead",
}

# What concerns one kind of client only. One set of options may serve reading and writing: the others leave it out.
CONSUMER_ONLY = frozenset(
    {
        "allow.auto.create.topics",
        "check.crcs",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.id",
        "group.protocol",
        "group.remote.assignor",
        "isolation.level",
        "max.partition.fetch.bytes",
        "queued.max.messages.kbytes",
        "queued.min.messages",
    }
)
PRODUCER_ONLY = frozenset(
    {
        "acks",
        "batch.num.messages",
        "batch.size",
        "compression.codec",
        "compression.level",
        "compression.type",
        "delivery.timeout.ms",
        "enable.gapless.guarantee",
        "enable.idempotence",
        "linger.ms",
        "max.in.flight",
        "message.send.max.retries",
        "message.timeout.ms",
        "partitioner",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "request.required.acks",
        "retries",
        "sticky.partitioning.linger.ms",
    }
)
_OF_OTHER_KINDS: Mapping[ClientKind, frozenset[str]] = {
    "consumer": PRODUCER_ONLY,
    "producer": CONSUMER_ONLY,
    "admin": CONSUMER_ONLY | PRODUCER_ONLY,
}

# What a client of a kind is told unless the query's options say otherwise: what Java's clients do by default, where
# librdkafka's default differs and records depend on it, and what keeps memory bounded and batches full.
#
# A record that no broker takes fails after `message.timeout.ms`, Java's two minutes: long enough for a broker to be
# replaced. A topic that does not exist is known much sooner, by `topic.metadata.propagation.max.ms`; librdkafka's
# 30 s would only wait longer for topics that were made a moment ago to become known everywhere.
DEFAULTS: Mapping[ClientKind, Settings] = {
    "consumer": {
        "allow.auto.create.topics": False,
        "auto.offset.reset": "error",
        "check.crcs": True,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_uncommitted",
    },
    "producer": {
        "acks": "all",
        "batch.num.messages": 100_000,
        "enable.idempotence": True,
        "linger.ms": 20,
        "message.timeout.ms": 120_000,
        "message.max.bytes": 1_048_576,
        "partitioner": "murmur2_random",
        "queue.buffering.max.kbytes": 32 * 1024,
        "queue.buffering.max.messages": 100_000,
        "topic.metadata.propagation.max.ms": 10_000,
    },
    "admin": {},
}

_LOGIN_MODULE = re.compile(
    r"^\s*(?P<class>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*);\s*$", re.DOTALL
)
_LOGIN_OPTION = re.compile(r"""(?P<name>[\w.]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s";]+))""")
_LOGIN_MODULES = (
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "org.apache.kafka.common.security.scram.ScramLoginModule",
)


def librdkafka_settings(options: Mapping[str, str], *, kind: ClientKind) -> Settings:
    """Return librdkafka's settings for a client of a query.

    Args:
        options: all options of the query; those that begin with `kafka.` count, in any case.
        kind: what the client does. What concerns other kinds only is left out.

    Raises:
        InvalidConfig: some are wrong, missing, or have no counterpart; all that is wrong is in it.
    """
    written = client_options(options)
    translated: Settings = {}
    problems: list[Problem] = []
    for key, value in written.items():
        try:
            translated.update(_translated(key, value, written))
        except ValueError as error:
            problems.append(Problem(f"{PREFIX}{key}", str(error)))
    if not written.get(BOOTSTRAP, "").strip():
        problems.append(
            Problem(f"{PREFIX}{BOOTSTRAP}", "the option is required: HOST:PORT of a broker or several, by commas")
        )
    if problems:
        raise InvalidConfig(problems)
    others = _OF_OTHER_KINDS[kind]
    return {**DEFAULTS[kind], **{key: value for key, value in translated.items() if key not in others}}


def client_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that begin with `kafka.` without it; names in lower case, as all of Kafka's are."""
    lowered = ((key.lower(), value) for key, value in options.items())
    return {key.removeprefix(PREFIX): value for key, value in lowered if key.startswith(PREFIX)}


def _translated(key: str, value: str, written: Mapping[str, str]) -> Settings:
    if key.startswith(_FOR_LIBRDKAFKAS_TESTS):
        raise ValueError("records would go to, or come from, brokers that librdkafka simulates; remove it")
    if key in REFUSED:
        raise ValueError(REFUSED[key])
    if key in _TRANSLATED:
        return _TRANSLATED[key](value, written)
    return {} if key in LEFT_OUT else {RENAMED.get(key, key): value}


def _protocol(value: str, _: Mapping[str, str]) -> Settings:
    if value.upper() not in SECURITY_PROTOCOLS:
        raise ValueError(f"{value!r} is none of {', '.join(SECURITY_PROTOCOLS)}")
    return {"security.protocol": value.upper()}


def _mechanism(value: str, _: Mapping[str, str]) -> Settings:
    if value not in SASL_MECHANISMS:
        raise ValueError(f"{value!r} is none of {', '.join(SASL_MECHANISMS)}")
    return {"sasl.mechanism": value}


def _jaas_config(value: str, written: Mapping[str, str]) -> Settings:
    """User and password for PLAIN or SCRAM; the text, a secret, is in no message."""
    match = _LOGIN_MODULE.match(value)
    if match is None:
        raise ValueError('write it as CLASS required username="..." password="...";')
    if match["class"] not in _LOGIN_MODULES:
        raise ValueError(f"{match['class']} is not supported; PlainLoginModule and ScramLoginModule are")
    login = {
        option["name"]: re.sub(r"\\(.)", r"\1", option["quoted"]) if option["quoted"] is not None else option["bare"]
        for option in _LOGIN_OPTION.finditer(match["options"])
    }
    if missing := [name for name in ("username", "password") if name not in login]:
        raise ValueError(f"{' and '.join(missing)} is missing in it")
    if not {"sasl.mechanism", "sasl.mechanisms"} & written.keys():
        raise ValueError("write the option 'kafka.sasl.mechanism' too: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
    return {"sasl.username": login["username"], "sasl.password": login["password"]}


def _truststore(value: str, written: Mapping[str, str]) -> Settings:
    kind = _store_type(value, written.get("ssl.truststore.type", ""))
    if kind != "PEM":
        raise ValueError(
            f"{value} is a {kind} store, which librdkafka cannot read; export its certificates as PEM and write "
            f"{PREFIX}ssl.truststore.type=PEM"
        )
    return {"ssl.ca.location": value}


def _keystore(value: str, written: Mapping[str, str]) -> Settings:
    kind = _store_type(value, written.get("ssl.keystore.type", ""))
    if kind == "PEM":
        return {"ssl.certificate.location": value, "ssl.key.location": value}
    if kind == "PKCS12":
        return {"ssl.keystore.location": value}
    raise ValueError(
        f"{value} is a {kind} store, which librdkafka cannot read; convert it to PKCS12 or PEM and write "
        f"{PREFIX}ssl.keystore.type accordingly"
    )


def _store_type(path: str, written: str) -> str:
    if written:
        return written.upper()
    suffix = PurePath(path).suffix.lower()
    if suffix in PEM_SUFFIXES:
        return "PEM"
    return "PKCS12" if suffix in (".p12", ".pfx") else "JKS"  # JKS is Java's default


def _endpoint_identification(value: str, _: Mapping[str, str]) -> Settings:
    return {"ssl.endpoint.identification.algorithm": value or "none"}  # empty turns it off in Java


def _buffer_memory(value: str, _: Mapping[str, str]) -> Settings:
    return {"queue.buffering.max.kbytes": max(1, _whole_number(value) // 1024)}


def _delivery_timeout(value: str, _: Mapping[str, str]) -> Settings:
    return {"message.timeout.ms": _whole_number(value)}


def _acks(value: str, _: Mapping[str, str]) -> Settings:
    if value not in ("all", "-1"):
        raise ValueError(f"{value!r} would lose records unnoticed; every record is written with acks=all, remove it")
    return {"acks": "all"}


def _idempotence(value: str, _: Mapping[str, str]) -> Settings:
    if value.lower() != "true":
        raise ValueError("without it a broken connection would double and reorder records; remove it")
    return {"enable.idempotence": True}


def _retries(value: str, _: Mapping[str, str]) -> Settings:
    if _whole_number(value) == 0:
        raise ValueError(
            "an idempotent producer must be allowed to try again; remove it, and limit the time by "
            f"{PREFIX}delivery.timeout.ms"
        )
    return {"retries": _whole_number(value)}


def _in_flight(value: str, _: Mapping[str, str]) -> Settings:
    if not 1 <= _whole_number(value) <= IDEMPOTENT_IN_FLIGHT_MAX:
        raise ValueError(
            f"an idempotent producer may have 1 to {IDEMPOTENT_IN_FLIGHT_MAX} requests in flight, not {value}"
        )
    return {"max.in.flight": _whole_number(value)}


def _isolation(value: str, _: Mapping[str, str]) -> Settings:
    if value.lower() not in ("read_committed", "read_uncommitted"):
        raise ValueError(f"{value!r} is neither read_committed nor read_uncommitted")
    return {"isolation.level": value.lower()}


def _compression(value: str, _: Mapping[str, str]) -> Settings:
    if value.lower() not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise ValueError(f"{value!r} is none of none, gzip, snappy, lz4, zstd")
    return {"compression.type": value.lower()}


def _whole_number(value: str) -> int:
    if not value.strip().isdecimal():
        raise ValueError(f"{value!r} is no whole number")
    return int(value)


_TRANSLATED: Mapping[str, Callable[[str, Mapping[str, str]], Settings]] = {
    "acks": _acks,
    "buffer.memory": _buffer_memory,
    "compression.codec": _compression,
    "compression.type": _compression,
    "delivery.timeout.ms": _delivery_timeout,
    "enable.idempotence": _idempotence,
    "isolation.level": _isolation,
    "max.in.flight": _in_flight,
    "max.in.flight.requests.per.connection": _in_flight,
    "message.send.max.retries": _retries,
    "request.required.acks": _acks,
    "retries": _retries,
    "sasl.jaas.config": _jaas_config,
    "sasl.mechanism": _mechanism,
    "sasl.mechanisms": _mechanism,
    "security.protocol": _protocol,
    "ssl.endpoint.identification.algorithm": _endpoint_identification,
    "ssl.keystore.location": _keystore,
    "ssl.truststore.location": _truststore,
}
