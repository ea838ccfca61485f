"""A worker of an ETL with confluent-kafka; `python -m tests.compat.etl.confluent_worker SPEC`."""

import contextlib
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

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


class ConfluentEtl:
    """librdkafka's consumer and producer."""

    def __init__(self, spec: WorkerSpec, notes: Notes):
        self._spec = spec
        self._consumer = Consumer(_consumer_settings(spec))
        self._producer = Producer(
            {
                **_common_settings(spec),
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "delivery.timeout.ms": int(DELIVERY_DEADLINE_S * 1000),
            }
        )
        self._consumer.subscribe(
            [spec.source],
            on_assign=lambda _, partitions: notes.partitions("assigned", _numbers(partitions)),
            on_revoke=lambda _, partitions: notes.partitions("revoked", _numbers(partitions)),
            on_lost=lambda _, partitions: notes.partitions("lost", _numbers(partitions)),
        )

    def read(self) -> list[Record]:
        records = []
        for message in self._consumer.consume(BATCH_RECORDS_MAX, READ_S):
            if error := message.error():
                if error.fatal():
                    raise KafkaException(error)
                continue
            value, partition, offset = message.value(), message.partition(), message.offset()
            assert isinstance(value, bytes)
            assert partition is not None
            assert offset is not None
            records.append(Record(partition, offset, value.decode()))
        return records

    def publish(self, results: list[Result]) -> None:
        failures: list[KafkaError] = []
        for result in results:
            self._producer.produce(
                self._spec.sink,
                value=result.value,
                partition=result.partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        left = self._producer.flush(2 * DELIVERY_DEADLINE_S)
        if left or failures:
            raise RuntimeError(f"{left} results were not acknowledged, {len(failures)} failed: {failures[:1]}")

    def commit(self, offsets: dict[int, int]) -> None:
        wanted = [TopicPartition(self._spec.source, partition, offset) for partition, offset in offsets.items()]
        for answered in self._consumer.commit(offsets=wanted, asynchronous=False) or []:
            if answered.error:
                raise KafkaException(answered.error)

    def close(self) -> None:
        with contextlib.suppress(KafkaException):
            self._consumer.close()
        self._producer.purge()


def _consumer_settings(spec: WorkerSpec) -> dict[str, Any]:
    settings = {
        **_common_settings(spec),
        "group.id": spec.group,
        "group.protocol": spec.protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "check.crcs": True,
    }
    if spec.protocol == "classic":  # the consumer protocol leaves these to the coordinator
        settings["session.timeout.ms"] = SESSION_TIMEOUT_MS
        settings["heartbeat.interval.ms"] = HEARTBEAT_INTERVAL_MS
    return settings


def _common_settings(spec: WorkerSpec) -> dict[str, Any]:
    return {
        "bootstrap.servers": spec.bootstrap,
        "client.id": spec.worker,
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        # After its re-bootstrap librdkafka 2.16 sometimes asks no broker any more.
        "metadata.recovery.strategy": "none",
    }


def _numbers(partitions: list[TopicPartition]) -> list[int]:
    return [each.partition for each in partitions]


if __name__ == "__main__":
    run_worker(ConfluentEtl)
