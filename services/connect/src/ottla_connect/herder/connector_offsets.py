"""Offsets of connectors as the REST API has them (KIP-875), and as the stores take them. Pure.

A source's partitions and offsets are its own affair, objects of text, numbers and booleans; a sink's are
``{"kafka_topic", "kafka_partition"}`` and ``{"kafka_offset"}``, and belong to its consumer group.
"""

from collections.abc import Mapping

from ottla_connect.config import WorkerConfig
from ottla_connect.herder.api import ConnectorOffsets
from ottla_connect.sink_offset_documents import OFFSET_KEY, PARTITION_KEY, TOPIC_KEY, OffsetsMalformed, sink_offsets
from ottla_connect.state.offset_records import NotStorable, check_storable
from ottla_core.rest.errors import BadRequest
from ottla_sdk import TopicPartition

CONSUMER_OVERRIDES = "consumer.override."
ADMIN_OVERRIDES = "admin.override."
GROUP_ID = "group.id"
PARTITION_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1


def sink_group_id(connector: str, settings: Mapping[str, str], worker: WorkerConfig) -> str:
    """Return the consumer group of a sink connector: its own word, the worker's, or ``connect-NAME``."""
    configured = worker.with_prefix("consumer.").get(GROUP_ID)
    return settings.get(f"{CONSUMER_OVERRIDES}{GROUP_ID}") or configured or f"connect-{connector}"


def admin_overrides(settings: Mapping[str, str]) -> dict[str, str]:
    """Return what a connector says of its admin client.

    References to config providers are resolved in the processes of connectors only. Where there is one, as for a
    password, the connector's word is left aside as a whole, and the worker's own account has to do.
    """
    overrides = {
        key.removeprefix(ADMIN_OVERRIDES): value for key, value in settings.items() if key.startswith(ADMIN_OVERRIDES)
    }
    return {} if any("${" in value for value in overrides.values()) else overrides


def check_overrides(settings: Mapping[str, str], worker: WorkerConfig) -> None:
    """Return if a connector may choose the client by which its offsets are read and changed, and its group.

    That client is the worker's own, so that no process of the connector has asked the policy for it.

    Raises:
        BadRequest: the worker's policy does not allow what the connector overrides.
    """
    problems = worker.override_problems("admin", admin_overrides(settings))
    if f"{CONSUMER_OVERRIDES}{GROUP_ID}" in settings:
        problems += worker.override_problems("consumer", {GROUP_ID: settings[f"{CONSUMER_OVERRIDES}{GROUP_ID}"]})
    if problems:
        raise BadRequest(f"The connector's offsets cannot be read or changed: {'; '.join(problems)}")


def sink_document(offsets: Mapping[TopicPartition, int]) -> ConnectorOffsets:
    """Return a consumer group's offsets as the REST API has them, in the order of topics and partitions."""
    return [
        ({TOPIC_KEY: topic, PARTITION_KEY: partition}, {OFFSET_KEY: offset})
        for (topic, partition), offset in sorted(offsets.items())
    ]


def parse_sink(offsets: ConnectorOffsets) -> dict[TopicPartition, int | None]:
    """Return the offset of each partition; None removes it.

    Raises:
        BadRequest: they are not of a sink's form.
    """
    try:
        parsed = sink_offsets(offsets)
    except OffsetsMalformed as error:
        raise BadRequest(str(error)) from None
    for (topic, partition), offset in parsed.items():
        if not topic or partition > PARTITION_MAX or (offset is not None and offset > OFFSET_MAX):
            raise BadRequest(f"There is no partition {partition} of topic {topic!r} with an offset {offset}")
    return parsed


def check_source(offsets: ConnectorOffsets) -> None:
    """Return if a source's offsets can be stored.

    Raises:
        BadRequest: they cannot; the message names what is wrong.
    """
    for partition, offset in offsets:
        try:
            check_storable(partition)
            if offset is not None:
                check_storable(offset)
        except NotStorable as problem:
            raise BadRequest(f"The offsets of a source connector cannot be set so: {problem}") from None
