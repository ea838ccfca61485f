"""What settings mean that MirrorMaker 2 has and a mirror worker has no field for. Pure, and mostly data. Pure.

Each is either without effect, because what it tunes does not exist here and users notice no difference, or
refused, because copies would be others than somebody expects who has written it. A test compares these tables, and
the fields of the models, with the settings that Kafka 4.2 documents.
"""

from collections.abc import Mapping
from enum import Enum

from ottla_core.rest.settings import REST_EXTENSIONS

_JAVA = "it names a Java class, which cannot be loaded here; remove it"
_RAW = "batches are copied as they are, no record is looked at; remove it"
_CONNECT = "mirror workers are not Connect workers, and keep nothing in such topics"
_UNSIGNED = "each worker signs by a key of its own; see rest.authentication.methods"
_NOT_CONVERTED = "batches are copied as they are, so nothing is converted"

WITHOUT_EFFECT: Mapping[str, str] = {
    "config.action.reload": "references are resolved when the worker starts",
    "config.storage.replication.factor": _CONNECT,
    "config.storage.topic": _CONNECT,
    "connect.protocol": _CONNECT,
    "connector.client.config.override.policy": "a flow may have any settings of clients",
    "connector.class": "there is one kind of flow",
    "connector.plugin.version": "there is one kind of flow",
    "consumer.poll.timeout.ms": "data is fetched as it comes; see consumer.fetch.max.wait.ms",
    "dedicated.mode.enable.internal.rest": "workers always reach each other by their REST API",
    "errors.log.enable": "refused batches are always logged",
    "errors.log.include.messages": "records never go into logs",
    "errors.retry.delay.max.ms": "errors that pass by themselves are retried until they do",
    "errors.retry.timeout": "errors that pass by themselves are retried until they do",
    "exactly.once.support": "see exactly.once.source.support",
    "header.converter": _NOT_CONVERTED,
    "header.converter.plugin.version": _NOT_CONVERTED,
    "inter.worker.key.generation.algorithm": _UNSIGNED,
    "inter.worker.key.size": _UNSIGNED,
    "inter.worker.key.ttl.ms": _UNSIGNED,
    "inter.worker.signature.algorithm": _UNSIGNED,
    "inter.worker.verification.algorithms": _UNSIGNED,
    "key.converter": _NOT_CONVERTED,
    "key.converter.plugin.version": _NOT_CONVERTED,
    "name": "a flow is named by its clusters",
    "offset.flush.timeout.ms": "see producer.transaction.timeout.ms",
    "offset.storage.partitions": _CONNECT,
    "offset.storage.replication.factor": _CONNECT,
    "offset.storage.topic": _CONNECT,
    "offsets.storage.topic": _CONNECT,
    "plugin.discovery": "plugins are found by their entry points",
    "response.http.headers.config": "the REST API sends no further headers",
    "status.storage.partitions": _CONNECT,
    "status.storage.replication.factor": _CONNECT,
    "status.storage.topic": _CONNECT,
    "task.shutdown.graceful.timeout.ms": "a worker that stops flushes and leaves at once",
    "tasks.max": "workers share all partitions by themselves",
    "tasks.max.enforce": "workers share all partitions by themselves",
    "topic.creation.enable": "topics are created by the flow itself",
    "topic.tracking.allow.reset": _CONNECT,
    "topic.tracking.enable": _CONNECT,
    "value.converter": _NOT_CONVERTED,
    "value.converter.plugin.version": _NOT_CONVERTED,
    "scheduled.rebalance.max.delay.ms": "partitions of a worker that has gone go to others at once",
    "worker.sync.timeout.ms": _CONNECT,
    "worker.unsync.backoff.ms": _CONNECT,
}
REFUSED: Mapping[str, str] = {
    "forwarding.admin.class": _JAVA,
    "metric.reporters": "it names Java classes, which cannot be loaded here; remove it, and see metrics.listener",
    "plugin.path": "plugins are Python packages: install them with pip beside the worker, and remove this",
    "predicates": _RAW,
    "rest.extension.classes": REST_EXTENSIONS,
    "source.cluster.alias": "a flow's name says it; remove it",
    "target.cluster.alias": "a flow's name says it; remove it",
    "topic.creation.groups": "topics at the target are made like those of the source; see replication.factor",
    "transforms": _RAW,
}
WITHOUT_EFFECT_BELOW: Mapping[str, str] = {
    "config.storage.": _CONNECT,
    "offset.storage.": _CONNECT,
    "status.storage.": _CONNECT,
    "header.converter.": _NOT_CONVERTED,
    "key.converter.": _NOT_CONVERTED,
    "value.converter.": _NOT_CONVERTED,
}
REFUSED_BELOW: Mapping[str, str] = {
    "transforms.": _RAW,
    "predicates.": _RAW,
    "topic.creation.": "topics at the target are made like those of the source; see replication.factor",
}
ONLY_AS: Mapping[str, tuple[str, str]] = {
    "errors.tolerance": ("none", "nothing is skipped silently; see refused.batches, and remove it"),
}
"""Settings that may be written with one value, and why not with others."""


OF_TARGETS = frozenset({"exactly.once.source.support", "offset.flush.interval.ms"})
"""Settings of flows that MirrorMaker has at a cluster (`B.…`): they hold for all flows to it."""

CLIENT_FIELDS = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "client.id",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.request.size",
        "request.timeout.ms",
        "transaction.timeout.ms",
    }
)
"""Settings of clients that are honoured, beside `security.protocol` and all of TLS and SASL."""
CLIENT_ONLY_AS: Mapping[str, tuple[str, str]] = {
    "acks": ("all", "a copy counts when all in-sync replicas have it; remove it"),
    "check.crcs": ("true", "damaged batches are never copied; remove it"),
    "enable.idempotence": ("true", "batches are written idempotently; remove it"),
    "isolation.level": ("read_committed", "what a transaction has aborted is never copied; remove it"),
}
CLIENT_REFUSED: Mapping[str, str] = {
    "compression.gzip.level": "batches keep their compression; remove it",
    "compression.lz4.level": "batches keep their compression; remove it",
    "compression.type": "batches keep their compression; set compression.type of the target's topics",
    "compression.zstd.level": "batches keep their compression; remove it",
    "interceptor.classes": "interceptors are Java classes, which cannot be loaded here; remove it",
    "partitioner.class": "records keep their partitions; remove it",
    "transactional.id": "each partition has an id of its own, see exactly.once.source.support; remove it",
    "transaction.two.phase.commit.enable": "transactions are committed by the worker alone; remove it",
}
_BATCHES = "batches are sent as the source has them"
_OWN = "connections are the worker's own, which do not need it"
_NO_GROUP = "the source is read without a group"
CLIENT_WITHOUT_EFFECT: Mapping[str, str] = {
    "allow.auto.create.topics": "no topic is created by asking for it",
    "auto.commit.interval.ms": _NO_GROUP,
    "batch.size": _BATCHES,
    "buffer.memory": "see memory.max.bytes",
    "client.dns.lookup": _OWN,
    "client.rack": "partitions are read from their leaders",
    "connections.max.idle.ms": _OWN,
    "default.api.timeout.ms": "see admin.timeout.ms",
    "delivery.timeout.ms": "a batch is sent until it is acknowledged or refused",
    "enable.auto.commit": _NO_GROUP,
    "enable.metrics.push": "no metrics are pushed to brokers",
    "exclude.internal.topics": "see topics.exclude",
    "fetch.min.bytes": "data is fetched as it comes; see fetch.max.wait.ms",
    "group.id": _NO_GROUP,
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "group.remote.assignor": _NO_GROUP,
    "heartbeat.interval.ms": _NO_GROUP,
    "internal.throw.on.fetch.stable.offset.unsupported": _OWN,
    "key.deserializer": _NOT_CONVERTED,
    "key.serializer": _NOT_CONVERTED,
    "linger.ms": _BATCHES,
    "max.block.ms": "see memory.max.bytes",
    "max.in.flight.requests.per.connection": "five, as idempotence allows",
    "max.poll.interval.ms": _NO_GROUP,
    "max.poll.records": _BATCHES,
    "metadata.max.age.ms": _OWN,
    "metadata.max.idle.ms": _OWN,
    "metadata.recovery.rebootstrap.trigger.ms": "the bootstrap addresses are always asked as well",
    "metadata.recovery.strategy": "the bootstrap addresses are always asked as well",
    "metrics.num.samples": "see metrics.listener",
    "metrics.recording.level": "see metrics.listener",
    "metrics.sample.window.ms": "see metrics.listener",
    "partition.assignment.strategy": _NO_GROUP,
    "partitioner.adaptive.partitioning.enable": "records keep their partitions",
    "partitioner.availability.timeout.ms": "records keep their partitions",
    "partitioner.ignore.keys": "records keep their partitions",
    "receive.buffer.bytes": _OWN,
    "reconnect.backoff.max.ms": _OWN,
    "reconnect.backoff.ms": _OWN,
    "retries": "errors that pass by themselves are retried until they do",
    "retry.backoff.max.ms": _OWN,
    "retry.backoff.ms": _OWN,
    "send.buffer.bytes": _OWN,
    "session.timeout.ms": _NO_GROUP,
    "share.acknowledgement.mode": _NO_GROUP,
    "share.acquire.mode": _NO_GROUP,
    "socket.connection.setup.timeout.max.ms": _OWN,
    "socket.connection.setup.timeout.ms": _OWN,
    "value.deserializer": _NOT_CONVERTED,
    "value.serializer": _NOT_CONVERTED,
}
SECURITY_PREFIXES = ("ssl.", "sasl.", "https.ca.")
SECURITY_KEYS = frozenset({"security.protocol", "security.providers", "bootstrap.controllers"})


class Fate(Enum):
    """What a setting without a field means."""

    HONOURED = "honoured"
    WITHOUT_EFFECT = "without effect"
    REFUSED = "refused"
    UNKNOWN = "unknown"


def mirror_fate(key: str, value: str | None = None) -> tuple[Fate, str]:
    """Return what a setting without a field means for workers and flows, and why.

    Args:
        key: without a prefix.
        value: as written; None asks about the key alone.
    """
    if key in ONLY_AS:
        return _only_as(ONLY_AS[key], value)
    if reason := REFUSED.get(key) or _below(key, REFUSED_BELOW):
        return Fate.REFUSED, reason
    if reason := WITHOUT_EFFECT.get(key) or _below(key, WITHOUT_EFFECT_BELOW):
        return Fate.WITHOUT_EFFECT, reason
    return Fate.UNKNOWN, ""


def client_fate(key: str, value: str | None = None) -> tuple[Fate, str]:
    """Return what a setting of a Kafka client means here, and why."""
    if key in CLIENT_ONLY_AS:
        return _only_as(CLIENT_ONLY_AS[key], value)
    if key in CLIENT_REFUSED or key in REFUSED:
        return Fate.REFUSED, CLIENT_REFUSED.get(key) or REFUSED[key]
    if key in CLIENT_WITHOUT_EFFECT:
        return Fate.WITHOUT_EFFECT, CLIENT_WITHOUT_EFFECT[key]
    if is_client_key(key):
        return Fate.HONOURED, ""
    return Fate.UNKNOWN, ""


def is_client_key(key: str) -> bool:
    """Return whether clients take a setting."""
    return key in CLIENT_FIELDS or key in SECURITY_KEYS or key.startswith(SECURITY_PREFIXES)


def known_client_keys() -> frozenset[str]:
    """Return all names that are known, to find the one that is most like another."""
    return CLIENT_FIELDS | SECURITY_KEYS | frozenset({**CLIENT_ONLY_AS, **CLIENT_REFUSED, **CLIENT_WITHOUT_EFFECT})


def known_mirror_keys() -> frozenset[str]:
    """Return the names in the tables for workers and flows."""
    return frozenset({**REFUSED, **WITHOUT_EFFECT, **ONLY_AS})


def _only_as(rule: tuple[str, str], value: str | None) -> tuple[Fate, str]:
    wanted, reason = rule
    if value is None or value.strip().lower() in (wanted, {"all": "-1"}.get(wanted)):
        return Fate.HONOURED, ""
    return Fate.REFUSED, reason


def _below(key: str, reasons: Mapping[str, str]) -> str:
    return next((reason for prefix, reason in reasons.items() if key.startswith(prefix)), "")
