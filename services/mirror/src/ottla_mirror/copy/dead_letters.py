"""What the target refuses goes into a topic of the target, with headers that say where it comes from and why.

Records are sent without idempotence, as they come from nowhere in order; one that was sent twice can be told by its
headers.
"""

from typing import Final

from kio.schema.errors import ErrorCode

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.errors import Refused
from ottla_core.errors import KafkaError
from ottla_core.wire.produce_request import FIRST_FLEXIBLE_VERSION, FIRST_VERSION_BY_TOPIC_ID
from ottla_core.wire.raw_produce import (
    NEWEST_VERSION,
    OLDEST_VERSION,
    PRODUCE_KEY,
    TopicKey,
    produce_request_body,
    read_produce_response,
)
from ottla_core.wire.record_batch import NO_TIMESTAMP
from ottla_core.wire.records import Record, encode_batch, iterate_records
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.single_request import ask_raw
from ottla_mirror.copy.source_batch import SourceBatch
from ottla_mirror.model import SourcePartition

HEADER_PREFIX: Final = "__ottla.mirror."


def dead_letters(partition: SourcePartition, batch: SourceBatch, reason: str) -> list[Record]:
    """Return the records of a batch with headers: topic, partition, offset at the source, and the reason.

    Raises:
        InvalidRecord: they cannot be read.
    """
    letters = []
    for number, record in enumerate(iterate_records(batch.data, batch.header)):
        offset = batch.base_offset + number if batch.offsets is None else batch.offsets[number]
        told = {"topic": partition.topic, "partition": partition.partition, "offset": offset, "reason": reason}
        headers = tuple((f"{HEADER_PREFIX}{name}", str(value).encode()) for name, value in told.items())
        timestamp = max(record.timestamp, NO_TIMESTAMP)
        letters.append(Record(number, timestamp, record.key, record.value, (*record.headers, *headers)))
    return letters


async def send_dead_letters(cluster: AsyncCluster, topic: str, letters: list[Record], settings: CopySettings) -> None:
    """Write records, one per batch, so that one that is too large stands alone.

    Raises:
        Refused: the topic does not exist, or does not take one either.
        Unreachable, AuthenticationFailed, UnsupportedByBroker: the target does not answer; some may be there.
    """
    metadata = (await cluster.metadata([topic])).topics.get(topic)
    leader = metadata.partitions[0].leader if metadata is not None and metadata.partitions else -1
    if metadata is None or leader < 0:
        raise Refused(f"the dead letter topic {topic} has no partition 0 that could take it")
    connection = await cluster.open_pipelined(leader)
    try:
        version = connection.version_among(PRODUCE_KEY, OLDEST_VERSION, NEWEST_VERSION)
        key: TopicKey = metadata.id if version >= FIRST_VERSION_BY_TOPIC_ID else topic
        for letter in letters:
            batch = encode_batch([letter._replace(offset=0)])
            answer = await ask_raw(
                connection,
                PRODUCE_KEY,
                version,
                produce_request_body(version, settings.produce_timeout_ms, {key: [(0, batch)]}),
                is_flexible=version >= FIRST_FLEXIBLE_VERSION,
                timeout_s=settings.answer_timeout_s,
            )
            for outcome in read_produce_response(answer, version):
                if outcome.error_code is not ErrorCode.none:
                    raise Refused(f"the dead letter topic {topic} does not take it: {outcome.error_code.name}")
    except KafkaError as error:
        raise Refused(f"the dead letter topic {topic} does not take it: {error.message}") from None
    finally:
        connection.close()
