"""Reading what arrives in a topic, without waiting, and without falling behind for ever.

Whoever looks at a topic that gets more than can be looked at wants what is new: a reading that is too far behind goes
on shortly before the end, and says how many offsets it has passed over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla_operations.errors import OperationError
from ottla_operations.kafka_access import describe_error, plain_errors
from ottla_operations.records.bounded_reading import SETTINGS
from ottla_operations.records.reading_plan import Place, resumed
from ottla_operations.records.received_record import to_record
from ottla_operations.records.record_line import Record

if TYPE_CHECKING:
    from confluent_kafka import Message

OWN_SETTINGS: Final[Mapping[str, Any]] = {
    **SETTINGS,
    "enable.partition.eof": False,
    "auto.offset.reset": "latest",  # what was to be read has been deleted meanwhile
    "fetch.wait.max.ms": 500,
    "queued.max.messages.kbytes": 8 * 1024,
}


@dataclass(frozen=True, slots=True)
class Arrived:
    """Records that arrived, and offsets that were passed over before the next ones."""

    records: Sequence[Record]
    passed_over: int


class LiveReading:
    """Reads from a place on; not thread-safe.

    Args:
        config: librdkafka's settings.
        topic: that is read.
        place: where it begins, in each partition that is read.

    Attributes:
        place: where it goes on.

    Raises:
        OperationError: a setting cannot be used.
    """

    def __init__(self, config: Mapping[str, Any], topic: str, place: Place) -> None:
        from confluent_kafka import Consumer  # noqa: PLC0415 - takes a tenth of a second

        self._topic = topic
        self._bootstrap = str(config["bootstrap.servers"])
        self.place = dict(place)
        with plain_errors(self._bootstrap, f"topic {topic}"):
            self._consumer = Consumer({**config, **OWN_SETTINGS})
            self._assign()

    def take(self, most: int) -> Arrived:
        """Return what has arrived, at most so many records, without waiting.

        Raises:
            OperationError: the cluster refuses.
        """
        with plain_errors(self._bootstrap, f"topic {self._topic}"):
            messages = self._consumer.consume(most, timeout=0)
            records = [record for each in messages if (record := self._record(each)) is not None]
            passed_over = self._catch_up() if len(messages) == most else 0
        return Arrived(records, passed_over)

    def close(self) -> None:
        """End the reading."""
        self._consumer.close()

    def _record(self, message: "Message") -> Record | None:
        from confluent_kafka import KafkaError  # noqa: PLC0415

        error = message.error()
        if error is not None:
            if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                return None  # librdkafka looks for the group's coordinator; reading needs a right on the topic alone
            if error.retriable() and not error.fatal():
                return None
            if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                return None  # librdkafka looks for the group's coordinator; reading needs a right on the topic alone
            raise OperationError(describe_error(error, self._bootstrap, f"topic {self._topic}"))
        record = to_record(message)
        assert record.partition is not None
        assert record.offset is not None
        self.place[record.partition] = record.offset + 1
        return record

    def _catch_up(self) -> int:
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        ends = {}
        for partition in self.place:
            known: Any = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
            if known is not None and known[1] >= 0:
                ends[partition] = known[1]
        self.place, passed_over = resumed(self.place, ends)
        if passed_over:
            self._assign()
        return passed_over

    def _assign(self) -> None:
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        self._consumer.assign([TopicPartition(self._topic, each, offset) for each, offset in self.place.items()])
