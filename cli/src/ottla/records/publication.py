"""The lines that `ottla produce` hands to librdkafka, and what becomes of each: published, failed or unconfirmed."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from ottla.records.stalled_publishing import StalledPublishing
from ottla_operations.records.number_ranges import NumberRanges
from ottla_operations.records.record_line import Record

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

INTERRUPT_FLUSH_S = 1.0
POLL_S = 0.1
UNSET_PARTITION = -1
"""For librdkafka: by the key."""


class Publication:
    """The records of one command and what became of each."""

    def __init__(
        self,
        producer: "Producer",
        topic: str,
        partition: int,
        headers: list[tuple[str, bytes]],
        stalled: StalledPublishing,
    ) -> None:
        self.topic = topic
        self.read = 0
        self.delivered: Counter[int] = Counter()
        self.failed: dict[str, NumberRanges] = {}
        self.failed_count = 0
        self.unconfirmed = 0
        self.is_interrupted = False
        self._under_way = 0
        self._producer = producer
        self._partition = partition
        self._headers = headers
        self._stalled = stalled

    def publish(self, record: Record, line_number: int) -> None:
        """Hand one record to the client, waiting while its queue is full."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        optional: dict[str, Any] = {} if record.timestamp is None else {"timestamp": record.timestamp}
        partition = self._partition
        if partition == UNSET_PARTITION and record.partition is not None:
            partition = record.partition
        while True:
            try:
                self._producer.produce(
                    self.topic,
                    value=record.value,
                    key=record.key,
                    partition=partition,
                    headers=[*record.headers, *self._headers],
                    on_delivery=self._outcome_of(line_number),
                    **optional,
                )
            except BufferError:
                if not len(self._producer):  # else it would wait for ever
                    self.fail(line_number, "it does not fit into the client's queue (queue.buffering.max.kbytes)")
                    return
                self._wait()
                continue
            except KafkaException as exception:
                self.fail(line_number, str(exception.args[0].str()))
            else:
                self._under_way += 1
            self._producer.poll(0)
            return

    def fail(self, line_number: int, reason: str) -> None:
        """Note that a line was not published."""
        self.failed.setdefault(reason, NumberRanges()).add(line_number)
        self.failed_count += 1

    def finish(self) -> None:
        """Wait until the fate of every record is known."""
        while self._producer.flush(POLL_S):
            self._look()

    def finish_interrupted(self) -> None:
        """Give records under way `INTERRUPT_FLUSH_S`; those without an answer then count as unconfirmed."""
        self.is_interrupted = True
        self._producer.flush(INTERRUPT_FLUSH_S)
        self.unconfirmed = max(0, self._under_way)  # not those in the queue: the interrupt may have taken an answer

    def _wait(self) -> None:
        """Wait a moment for room in the client's queue."""
        self._producer.poll(POLL_S)
        self._look()

    def _look(self) -> None:
        self._stalled.look(self.delivered.total() + self.failed_count)

    def _outcome_of(self, line_number: int) -> Any:
        def on_delivery(error: "KafkaError | None", message: "Message") -> None:
            if error is None:
                self.delivered[message.partition() or 0] += 1
            else:
                self.fail(line_number, self._reason_of(error))
            self._under_way -= 1

        return on_delivery

    def _reason_of(self, error: "KafkaError") -> str:
        from confluent_kafka import KafkaError  # noqa: PLC0415

        if error.code() != KafkaError._MSG_TIMED_OUT:  # noqa: SLF001 - a public name
            return str(error.str())
        return f"not acknowledged in time{self._stalled.reason and f': {self._stalled.reason}'}"
