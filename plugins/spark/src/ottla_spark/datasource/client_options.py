"""Options `kafka.*` of a query, as users of Spark's own Kafka source write them, turned into librdkafka's settings.

How settings of Java's clients become librdkafka's is the same everywhere (`ottla_sdk/kafka/client_settings.py`). Here
is what a query has besides: what the data source decides itself is refused, and what would lose, double or reorder
records.
"""

from collections.abc import Mapping
from typing import Literal

from ottla_sdk import InvalidConfig, Problem
from ottla_sdk.kafka import client_settings
from ottla_sdk.kafka.client_settings import ClientRules, ClientSettingError
from ottla_sdk.kafka.translations import Written, whole_number

ClientKind = Literal["consumer", "producer", "admin"]
Settings = dict[str, str | int | bool]

PREFIX = "kafka."
BOOTSTRAP = "bootstrap.servers"
IDEMPOTENT_IN_FLIGHT_MAX = 5

_NO_MEMBER = "a query is no member of a group: the offsets that it reads are its own"
LEFT_OUT = {
    "group.instance.id": _NO_MEMBER,
    "heartbeat.interval.ms": _NO_MEMBER,
    "internal.leave.group.on.close": _NO_MEMBER,
    "max.poll.interval.ms": _NO_MEMBER,
    "partition.assignment.strategy": _NO_MEMBER,
    "session.timeout.ms": _NO_MEMBER,
}

REFUSED = {
    "auto.offset.reset": "write the option 'startingOffsets' instead: a query keeps its own offsets",
    "enable.auto.commit": "a query keeps its offsets in its checkpoint; to have them committed to a group as well, "
    "so that other tools show its lag, write the option 'commitGroupId'",
    "enable.auto.offset.store": "a query keeps its offsets in its checkpoint; remove it",
    "key.deserializer": "keys are read as bytes; decode the column 'key' in the query instead",
    "key.serializer": "keys are written as they are; encode the column 'key' in the query instead",
    "partitioner.class": "it names a Java class, which cannot be loaded here; write the column 'partition', or "
    "librdkafka's 'kafka.partitioner' (murmur2_random, the default, places keys as Java's default does)",
    "transactional.id": "transactional ids follow from the query where it writes exactly once; remove it",
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
        "transaction.timeout.ms",
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


def librdkafka_settings(options: Mapping[str, str], *, kind: ClientKind) -> Settings:
    """Return librdkafka's settings for a client of a query.

    Args:
        options: all options of the query; those that begin with `kafka.` count, in any case.
        kind: what the client does. What concerns other kinds only is left out.

    Raises:
        InvalidConfig: some are wrong, missing, or have no counterpart; all that is wrong is in it.
    """
    written = client_options(options)
    translated: dict[str, str] = {}
    problems: list[Problem] = []
    try:
        translated = client_settings.librdkafka_settings(written, RULES, prefix=PREFIX)
    except ClientSettingError as error:
        problems += [Problem(f"{PREFIX}{each.key}", each.message) for each in error.problems]
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


def _delivery_timeout(value: str, _: Written) -> Mapping[str, str]:
    return {"message.timeout.ms": str(whole_number(value))}


def _acks(value: str, _: Written) -> Mapping[str, str]:
    if value not in ("all", "-1"):
        raise ValueError(f"{value!r} would lose records unnoticed; every record is written with acks=all, remove it")
    return {"acks": "all"}


def _idempotence(value: str, _: Written) -> Mapping[str, str]:
    if value.lower() != "true":
        raise ValueError("without it a broken connection would double and reorder records; remove it")
    return {"enable.idempotence": "true"}


def _retries(value: str, _: Written) -> Mapping[str, str]:
    if whole_number(value) == 0:
        raise ValueError(
            "an idempotent producer must be allowed to try again; remove it, and limit the time by "
            f"{PREFIX}delivery.timeout.ms"
        )
    return {"retries": value.strip()}


def _in_flight(value: str, _: Written) -> Mapping[str, str]:
    if not 1 <= whole_number(value) <= IDEMPOTENT_IN_FLIGHT_MAX:
        raise ValueError(
            f"an idempotent producer may have 1 to {IDEMPOTENT_IN_FLIGHT_MAX} requests in flight, not {value}"
        )
    return {"max.in.flight": value.strip()}


def _isolation(value: str, _: Written) -> Mapping[str, str]:
    if value.lower() not in ("read_committed", "read_uncommitted"):
        raise ValueError(f"{value!r} is neither read_committed nor read_uncommitted")
    return {"isolation.level": value.lower()}


def _compression(value: str, _: Written) -> Mapping[str, str]:
    if value.lower() not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise ValueError(f"{value!r} is none of none, gzip, snappy, lz4, zstd")
    return {"compression.type": value.lower()}


RULES = ClientRules(
    refused=REFUSED,
    left_out=LEFT_OUT,
    translated={
        "acks": _acks,
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
    },
)
"""What a query has otherwise than other users of Kafka clients."""
