"""A member of a group with aiokafka; `python -m tests.compat.aiokafka.member SPEC`.

The client lives in an event loop that runs while the driver polls, which is nearly always; between polls its
heartbeats wait for a moment.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.compat.group_member_program import POLL_S, MemberSpec, Partition, Report, run_member

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc] # the library has no types
    """Reports what is assigned and revoked."""

    def __init__(self, report: Report):
        self._report = report

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._report.partitions("assigned", _pairs(assigned))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._report.partitions("revoked", _pairs(revoked))


class AioKafkaDriver:
    """An AIOKafkaConsumer with an event loop of its own."""

    def __init__(self, spec: MemberSpec, report: Report):
        self._report = report
        self._loop = asyncio.new_event_loop()
        self._commits: set[asyncio.Task[None]] = set()
        self._consumer: Any = self._loop.run_until_complete(_joined(spec, report))

    def poll(self) -> None:
        fetched = self._loop.run_until_complete(self._consumer.getmany(timeout_ms=int(POLL_S * 1000)))
        for records in fetched.values():
            for record in records:
                self._report.record(record.topic, record.partition, record.offset)

    def commit(self, offsets: dict[Partition, int], metadata: str, *, is_async: bool) -> None:
        wanted = {TopicPartition(*each): (offset, metadata) for each, offset in offsets.items()}
        commit = self._loop.create_task(self._commit(wanted))
        if not is_async:
            self._loop.run_until_complete(commit)
            return
        self._commits.add(commit)
        commit.add_done_callback(self._commits.discard)

    def seek(self, partition: Partition, offset: int) -> None:
        self._run(lambda: self._consumer.seek(TopicPartition(*partition), offset))

    def pause(self, partitions: list[Partition]) -> None:
        self._run(lambda: self._consumer.pause(*(TopicPartition(*partition) for partition in partitions)))

    def resume(self, partitions: list[Partition]) -> None:
        self._run(lambda: self._consumer.resume(*(TopicPartition(*partition) for partition in partitions)))

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())

    def _run(self, action: Callable[[], None]) -> None:
        """Runs what does not wait for anything and still wants a running loop."""

        async def run() -> None:
            action()

        self._loop.run_until_complete(run())

    async def _commit(self, offsets: dict[Any, tuple[int, str]]) -> None:
        await self._consumer.commit(offsets)
        self._report.committed()


async def _joined(spec: MemberSpec, report: Report) -> Any:
    consumer = AIOKafkaConsumer(
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
    consumer.subscribe(**subscription, listener=Listener(report))
    await consumer.start()
    return consumer


def _pairs(partitions: Iterable[Any]) -> list[Partition]:
    return [(each.topic, each.partition) for each in partitions]


if __name__ == "__main__":
    run_member(AioKafkaDriver)
