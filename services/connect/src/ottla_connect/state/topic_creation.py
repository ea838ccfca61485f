"""Makes the worker's internal topics, and refuses existing ones that would lose what is written to them.

They must be compacted and nothing else: with ``cleanup.policy=delete`` brokers throw settings and offsets away after
a week. The config topic must have one partition, as its records count in the order in which they were written. Kafka
Connect has the same rules (its TopicAdmin and KafkaConfigBackingStore).
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from ottla_connect.state.kafka_clients import ALL_BROKERS_DOWN, REQUEST_TIMEOUT_S, RESOLVE, TIMED_OUT, TRANSPORT
from ottla_connect.state.keyed_log import LogError
from ottla_connect.storage_settings import StorageTopic

RETRY_S = 1.0
CLEANUP_POLICY = "cleanup.policy"
COMPACT = "compact"

# Refusals that pass as a cluster comes up: until enough brokers have registered there are none for the replicas.
PASSING_CODES = frozenset(
    {
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        ALL_BROKERS_DOWN,
        RESOLVE,
        TIMED_OUT,
        TRANSPORT,
    }
)

log = structlog.get_logger("internal topics")


async def ensure_topic(
    admin: AdminClient, topic: StorageTopic, *, setting: str, single_partition: bool, timeout_s: float
) -> int:
    """Make a topic if it is not there, check it if it is, and return how many partitions it has.

    Args:
        admin: an admin client.
        topic: the topic.
        setting: the setting that names it, for messages.
        single_partition: whether it must have one partition.
        timeout_s: for how long the cluster may be unreachable or not ready.

    Raises:
        LogError: it can neither be made nor used.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if await _create(admin, topic):
                log.info("topic created", topic=topic.name, partitions=topic.partitions)
            else:
                await _check_compacted(admin, topic.name, setting)
            return await _partition_count(admin, topic.name, setting, single_partition=single_partition)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            reason = f"topic {topic.name} ({setting}): {error.str()}"
            if time.monotonic() > deadline or not (error.retriable() or error.code() in PASSING_CODES):
                raise LogError(reason) from None
            log.warning("the topic is not ready yet", reason=reason)
            await asyncio.sleep(RETRY_S)


async def _create(admin: AdminClient, topic: StorageTopic) -> bool:
    """Return whether the topic was made now; it may have been there."""
    new = NewTopic(
        topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        config={**topic.configs, CLEANUP_POLICY: COMPACT},
    )
    try:
        await asyncio.wrap_future(admin.create_topics([new], request_timeout=REQUEST_TIMEOUT_S)[topic.name])
    except KafkaException as failure:
        code = failure.args[0].code()
        if code == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        if code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
            log.debug("this worker may not create the topic; it has to be there", topic=topic.name)
            return False
        raise
    return True


async def _check_compacted(admin: AdminClient, topic: str, setting: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        configs: Mapping[str, Any] = await asyncio.wrap_future(
            admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource]
        )
    except KafkaException as failure:
        if failure.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            log.warning("this worker may not see whether the topic is compacted", topic=topic)
            return
        raise
    entry = configs.get(CLEANUP_POLICY)
    policy = entry.value if entry is not None else COMPACT
    if {each.strip() for each in (policy or "").split(",")} != {COMPACT}:
        raise LogError(
            f"topic {topic} ({setting}) has {CLEANUP_POLICY}={policy}, so it would lose what this worker keeps in "
            f"it; set {CLEANUP_POLICY}={COMPACT} on it, or name another topic in {setting}"
        )


async def _partition_count(admin: AdminClient, topic: str, setting: str, *, single_partition: bool) -> int:
    metadata = await asyncio.to_thread(admin.list_topics, topic, REQUEST_TIMEOUT_S)
    described = metadata.topics[topic]
    if described.error is not None:
        raise KafkaException(described.error)
    count = len(described.partitions)
    if single_partition and count != 1:
        raise LogError(
            f"topic {topic} ({setting}) has {count} partitions, but what is in it counts in the order in which it "
            f"was written, so it must have one; name another topic in {setting}"
        )
    return count
