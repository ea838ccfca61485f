"""A member of a group with kafka-python; `python -m tests.compat.kafka_python.member SPEC`."""

from collections.abc import Iterable
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.compat.group_member_program import POLL_S, MemberSpec, Partition, Report, run_member

# Long enough for a whole rebalance; `test_kafka_python_groups.py` says what happens to shorter polls.
PATTERN_POLL_S = 10.0
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc] # the library has no types
    """Reports what is assigned and revoked."""

    def __init__(self, report: Report):
        self._report = report

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._report.partitions("assigned", _pairs(assigned))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._report.partitions("revoked", _pairs(revoked))

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._report.partitions("lost", _pairs(lost))


class KafkaPythonDriver:
    """A KafkaConsumer."""

    def __init__(self, spec: MemberSpec, report: Report):
        self._report = report
        self._poll_ms = int((POLL_S if spec.pattern is None else PATTERN_POLL_S) * 1000)
        self._consumer = KafkaConsumer(
            bootstrap_servers=spec.bootstrap,
            group_id=spec.group,
            group_instance_id=spec.instance_id,
            session_timeout_ms=spec.session_timeout_ms,
            heartbeat_interval_ms=spec.heartbeat_interval_ms,
            partition_assignment_strategy=[ASSIGNORS[spec.assignor or "range"]],
            auto_offset_reset="earliest",
            enable_auto_commit=spec.auto_commit_ms is not None,
            auto_commit_interval_ms=spec.auto_commit_ms or 5000,
            metadata_max_age_ms=1000,
            fetch_max_wait_ms=50,
        )
        subscription = {"topics": list(spec.topics)} if spec.pattern is None else {"pattern": spec.pattern}
        self._consumer.subscribe(**subscription, listener=Listener(report))

    def poll(self) -> None:
        for records in self._consumer.poll(timeout_ms=self._poll_ms).values():
            for record in records:
                self._report.record(record.topic, record.partition, record.offset)

    def commit(self, offsets: dict[Partition, int], metadata: str, *, is_async: bool) -> None:
        wanted = {TopicPartition(*each): OffsetAndMetadata(offset, metadata, -1) for each, offset in offsets.items()}
        if is_async:
            self._consumer.commit_async(wanted, callback=self._on_commit)
            return
        self._consumer.commit(wanted)
        self._report.committed()

    def seek(self, partition: Partition, offset: int) -> None:
        self._consumer.seek(TopicPartition(*partition), offset)

    def pause(self, partitions: list[Partition]) -> None:
        self._consumer.pause(*(TopicPartition(*partition) for partition in partitions))

    def resume(self, partitions: list[Partition]) -> None:
        self._consumer.resume(*(TopicPartition(*partition) for partition in partitions))

    def close(self) -> None:
        self._consumer.close()

    def _on_commit(self, _offsets: Any, response: Any) -> None:
        self._report.committed(response if isinstance(response, Exception) else None)


def _pairs(partitions: Iterable[Any]) -> list[Partition]:
    return [(each.topic, each.partition) for each in partitions]


if __name__ == "__main__":
    run_member(KafkaPythonDriver)
