"""A member of a group with confluent-kafka; `python -m tests.compat.confluent.member SPEC`."""

from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.compat.group_member_program import POLL_S, MemberSpec, Partition, Report, run_member

BATCH_RECORDS_MAX = 500


class ConfluentDriver:
    """A librdkafka consumer."""

    def __init__(self, spec: MemberSpec, report: Report):
        self._report = report
        self._consumer = Consumer(consumer_settings(spec), on_commit=self._on_commit)
        topics = list(spec.topics) if spec.pattern is None else [f"^{spec.pattern}"]
        self._consumer.subscribe(
            topics,
            on_assign=lambda _, partitions: report.partitions("assigned", _pairs(partitions)),
            on_revoke=lambda _, partitions: report.partitions("revoked", _pairs(partitions)),
            on_lost=lambda _, partitions: report.partitions("lost", _pairs(partitions)),
        )

    def poll(self) -> None:
        for message in self._consumer.consume(BATCH_RECORDS_MAX, POLL_S):
            error = message.error()
            if error is None:
                self._report.record(message.topic() or "", message.partition() or 0, message.offset() or 0)
            elif error.code() not in (KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART):
                raise RuntimeError(f"{error.name()}: {error.str()}")

    def commit(self, offsets: dict[Partition, int], metadata: str, *, is_async: bool) -> None:
        wanted = [TopicPartition(*partition, offset, metadata=metadata) for partition, offset in offsets.items()]
        if is_async:
            self._consumer.commit(offsets=wanted, asynchronous=True)
            return
        answered = self._consumer.commit(offsets=wanted, asynchronous=False) or []
        self._report.committed(next((each.error for each in answered if each.error), None))

    def seek(self, partition: Partition, offset: int) -> None:
        self._consumer.seek(TopicPartition(*partition, offset))

    def pause(self, partitions: list[Partition]) -> None:
        self._consumer.pause([TopicPartition(*partition) for partition in partitions])

    def resume(self, partitions: list[Partition]) -> None:
        self._consumer.resume([TopicPartition(*partition) for partition in partitions])

    def close(self) -> None:
        self._consumer.close()

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        self._report.committed(error or next((each.error for each in partitions if each.error), None))


def consumer_settings(spec: MemberSpec) -> dict[str, Any]:
    """librdkafka's settings for a member."""
    settings: dict[str, Any] = {
        "bootstrap.servers": spec.bootstrap,
        "group.id": spec.group,
        "group.protocol": spec.protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": spec.auto_commit_ms is not None,
        "topic.metadata.refresh.interval.ms": 1000,
        "fetch.wait.max.ms": 50,
        "log_level": 3,
    }
    if spec.auto_commit_ms is not None:
        settings["auto.commit.interval.ms"] = spec.auto_commit_ms
    if spec.instance_id is not None:
        settings["group.instance.id"] = spec.instance_id
    if spec.protocol == "classic":  # the consumer protocol leaves these to the coordinator
        settings["session.timeout.ms"] = spec.session_timeout_ms
        settings["heartbeat.interval.ms"] = spec.heartbeat_interval_ms
        settings["partition.assignment.strategy"] = spec.assignor or "range"
    elif spec.assignor is not None:
        settings["group.remote.assignor"] = spec.assignor
    return settings


def _pairs(partitions: list[TopicPartition]) -> list[Partition]:
    return [(each.topic, each.partition) for each in partitions]


if __name__ == "__main__":
    run_member(ConfluentDriver)
