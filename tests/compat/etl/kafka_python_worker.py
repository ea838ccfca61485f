"""A worker of an ETL with kafka-python; `python -m tests.compat.etl.kafka_python_worker SPEC`."""

from collections.abc import Iterable
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from tests.compat.etl.worker_program import (
    BATCH_RECORDS_MAX,
    DELIVERY_DEADLINE_S,
    HEARTBEAT_INTERVAL_MS,
    READ_S,
    RECONNECT_MS_MAX,
    SESSION_TIMEOUT_MS,
    Notes,
    Record,
    Result,
    WorkerSpec,
    run_worker,
)


class Listener(ConsumerRebalanceListener):  # type: ignore[misc] # the library has no types
    """Notes what is assigned and taken."""

    def __init__(self, notes: Notes):
        self._notes = notes

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._notes.partitions("assigned", _numbers(assigned))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._notes.partitions("revoked", _numbers(revoked))

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._notes.partitions("lost", _numbers(lost))


class KafkaPythonEtl:
    """A KafkaConsumer and a KafkaProducer."""

    def __init__(self, spec: WorkerSpec, notes: Notes):
        self._spec = spec
        common = {
            "bootstrap_servers": spec.bootstrap.split(","),
            "client_id": spec.worker,
            "reconnect_backoff_max_ms": RECONNECT_MS_MAX,
        }
        self._consumer = KafkaConsumer(
            **common,
            group_id=spec.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=BATCH_RECORDS_MAX,
        )
        self._producer = KafkaProducer(
            **common,
            acks="all",
            enable_idempotence=True,
            linger_ms=2,
            delivery_timeout_ms=int(DELIVERY_DEADLINE_S * 1000),
        )
        self._consumer.subscribe(topics=[spec.source], listener=Listener(notes))

    def read(self) -> list[Record]:
        polled = self._consumer.poll(timeout_ms=int(READ_S * 1000))
        return [
            Record(each.partition, each.offset, each.value.decode()) for those in polled.values() for each in those
        ]

    def publish(self, results: list[Result]) -> None:
        sent = [
            self._producer.send(self._spec.sink, value=result.value.encode(), partition=result.partition)
            for result in results
        ]
        self._producer.flush(timeout=2 * DELIVERY_DEADLINE_S)
        for each in sent:
            each.get(timeout=DELIVERY_DEADLINE_S)

    def commit(self, offsets: dict[int, int]) -> None:
        self._consumer.commit(
            {
                TopicPartition(self._spec.source, partition): OffsetAndMetadata(offset, "", -1)
                for partition, offset in offsets.items()
            }
        )

    def close(self) -> None:
        self._consumer.close(autocommit=False)
        self._producer.close(timeout=DELIVERY_DEADLINE_S)


def _numbers(partitions: Iterable[Any]) -> list[int]:
    return [each.partition for each in partitions]


if __name__ == "__main__":
    run_worker(KafkaPythonEtl)
