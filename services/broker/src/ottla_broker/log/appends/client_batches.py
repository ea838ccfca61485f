"""What the settings of a topic ask of a client's batch before it is appended: keys, and a codec.

A batch that is long to unpack is looked into beforehand (`unpacking.py`). Then it is taken as it was found, if the
settings still ask for that.
"""

from ottla_broker.log.appends.append_validation import AppendOrigin, check_batch, check_keys, sole_batch
from ottla_broker.log.appends.recompression import recompress, target_codec
from ottla_broker.log.appends.unpacking import LookedInto, is_long, look_into
from ottla_core.errors import KafkaStorageError
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.record_batch import CODEC_MASK, CONTROL_FLAG, Buffer, RecordBatchHeader


class ClientBatches:
    """The rules of one topic's settings.

    Attributes:
        looks_into_records: whether a batch may have to be unpacked before it is appended.
        keeps_timestamps: whether records keep the timestamps that they come with.
    """

    __slots__ = ("_codec", "_config", "_is_compacted", "_topic_partition", "keeps_timestamps", "looks_into_records")

    def __init__(self, topic_partition: TopicPartition, config: TopicConfig) -> None:
        self._topic_partition = topic_partition
        self._config = config
        self._codec = target_codec(config)
        self._is_compacted = "compact" in config.cleanup_policy
        self.looks_into_records = self._is_compacted or self._codec is not None
        self.keeps_timestamps = config.message_timestamp_type == "CreateTime"

    async def look_into(self, records: Buffer, now_ms: int) -> LookedInto | None:
        """Do what is long about looking into a batch; None if that can be done when it is appended.

        Raises:
            KafkaError: the batch breaks a rule.
        """
        view = sole_batch(memoryview(records), self._topic_partition)
        header = check_batch(view, self._config, now_ms, self._topic_partition)
        if not is_long(view, header):
            return None
        return await look_into(view, header, self._config, self._topic_partition)

    def prepared(
        self, batch: memoryview, header: RecordBatchHeader, origin: AppendOrigin, looked_into: LookedInto | None
    ) -> tuple[RecordBatchHeader, memoryview]:
        """Return the header and the bytes with which a batch is appended.

        Args:
            batch: its bytes.
            header: its header.
            origin: who has made it.
            looked_into: what `look_into` returned for it.

        Raises:
            KafkaError: a record has no key where each needs one, or cannot be read; or the settings have changed
                since it was looked into, and the producer sends it again.
        """
        if looked_into is not None:
            return self._as_looked_into(looked_into)
        if self._is_compacted and origin is AppendOrigin.CLIENT:
            check_keys(batch, header, self._topic_partition)
        is_data = header.record_count and not header.attributes & CONTROL_FLAG
        if self._codec is not None and header.attributes & CODEC_MASK != self._codec and is_data:
            return recompress(batch, header, self._codec, self._config, self._topic_partition)
        return header, batch

    def _as_looked_into(self, found: LookedInto) -> tuple[RecordBatchHeader, memoryview]:
        codec_is_right = self._codec is None or found.header.attributes & CODEC_MASK == self._codec
        if not codec_is_right or (self._is_compacted and not found.has_keys):
            raise KafkaStorageError(
                f"The settings of {self._topic_partition} have just changed; send the batch again"
            )
        return found.header, found.batch
