"""What coordinators may do to the logs of shards, over real logs; some of it through a real stream."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker.config import BrokerConfig
from ottla_broker.groups import relay_session, shard_log_access
from ottla_broker.groups.relay import GroupRelay
from ottla_broker.groups.shard_log_access import READ_BYTES_MAX, ShardLogAccess
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_core.clock import SystemClock
from ottla_core.shards import GROUP_TOPIC
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.record_batch import iterate_batches
from ottla_proto.gen.ottla import group_relay_pb2 as pb
from tests.support.broker.partition_logs import batch_of, empty_batch, open_log
from tests.support.broker.scripted_coordinator import ScriptedCoordinator, scripted_coordinator
from tests.support.eventually_async import eventually_async
from tests.support.groups.group_cluster import BROKER, BROKER_EPOCH, PRODUCER_ID, StatedFeed, group_state, shards_of

OWNER = ScriptedCoordinator(1).member()
COMPACTED = replace(TopicConfig(), cleanup_policy=frozenset({"compact"}), segment_bytes=1 << 20)


@dataclass
class Registration:
    current: bool = True
    registered_epoch: int = BROKER_EPOCH

    def is_current(self) -> bool:
        return self.current


class Shard:
    """Shard 0 on a broker that leads it."""

    def __init__(self, directory: Path, config: TopicConfig = COMPACTED) -> None:
        self.feed = StatedFeed(group_state(OWNER, shard_count=2))
        self.log: PartitionLog = open_log(directory, config=config)
        state = self.feed.state.topics[GROUP_TOPIC].partitions[0]
        self.partition = Partition(
            TopicPartition(GROUP_TOPIC, 0), self.log, ReplicationContext(BROKER, 30_000, int), state
        )
        self.partition.apply(state, leads=True)
        broker = BrokerConfig.model_validate({"node.id": BROKER, "log.dirs": (directory,)})
        self.table = PartitionTable(broker, self.feed, Registration())  # type: ignore[arg-type]
        self.table.add(self.partition)
        self.access = ShardLogAccess(self.table, lambda: self.feed.state, SystemClock())

    async def append(self, batch: bytes, shard: int = 0) -> pb.LogAppended:
        answer = self.access.append(pb.LogAppend(shard=shard, batch=batch))
        return answer if isinstance(answer, pb.LogAppended) else await answer

    async def read(self, offset: int, bytes_max: int = 1 << 20, shard: int = 0) -> pb.LogRecords:
        return await self.access.read(pb.LogRead(shard=shard, offset=offset, bytes_max=bytes_max))


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    return Shard(tmp_path / "log")


def of_owner(epoch: int, sequence: int) -> tuple[int, int, int]:
    return PRODUCER_ID, epoch, sequence


def code(answer: pb.LogAppended | pb.LogRecords) -> ErrorCode:
    return ErrorCode(answer.error_code)


async def test_batches_with_and_without_records_are_appended_and_read(shard: Shard) -> None:
    fenced = await shard.append(empty_batch(of_owner(0, 0)))
    stored = await shard.append(batch_of(b"a", b"b", producer=of_owner(0, 1)))

    read = await shard.read(0)

    assert [(code(a), a.base_offset) for a in (fenced, stored)] == [(ErrorCode.none, 0), (ErrorCode.none, 1)]
    assert [(h.base_offset, h.last_offset, h.record_count) for h, _ in iterate_batches(read.batches)] == [
        (0, 0, 0),
        (1, 2, 2),
    ]
    assert (read.log_start_offset, read.high_watermark) == (0, 3)
    assert (shard.access.append_count, shard.access.read_count) == (2, 1)


async def test_a_batch_that_comes_again_is_stored_once(shard: Shard) -> None:
    batches = [empty_batch(of_owner(0, 0)), batch_of(b"a", producer=of_owner(0, 1))]

    offsets = [(await shard.append(batch)).base_offset for batch in (*batches, *batches)]

    assert offsets == [0, 1, 0, 1]
    assert shard.log.log_end_offset == 2


async def test_the_log_refuses_a_former_owner_once_the_next_has_fenced(shard: Shard) -> None:
    await shard.append(empty_batch(of_owner(0, 0)))
    await shard.append(empty_batch(of_owner(1, 0)))

    late = await shard.append(batch_of(b"a", producer=of_owner(0, 1)))

    assert code(late) is ErrorCode.invalid_producer_epoch
    assert late.error_message
    assert shard.log.log_end_offset == 2


async def test_a_former_owner_is_refused_as_soon_as_this_broker_knows_the_next(shard: Shard) -> None:
    await shard.append(empty_batch(of_owner(0, 0)))
    shard.feed.publish(shards=shards_of([OWNER], 2, producer_epoch=1))

    assert code(await shard.append(batch_of(b"a", producer=of_owner(0, 1)))) is ErrorCode.invalid_producer_epoch
    assert code(await shard.append(empty_batch(of_owner(1, 0)))) is ErrorCode.none


async def test_a_former_owner_is_refused_also_when_the_log_has_forgotten_its_producers(shard: Shard) -> None:
    await shard.append(empty_batch(of_owner(3, 0)))
    shard.feed.publish(shards=shards_of([OWNER], 2, producer_epoch=3))
    assert shard.log.expire_producers(1 << 60) == 1

    assert code(await shard.append(batch_of(b"a", producer=of_owner(2, 7)))) is ErrorCode.invalid_producer_epoch
    assert code(await shard.append(batch_of(b"a", producer=of_owner(3, 7)))) is ErrorCode.none


async def test_the_owner_under_a_later_producer_id_is_not_a_former_one(shard: Shard) -> None:
    shard.feed.publish(shards=shards_of([OWNER], 2, producer_epoch=32767))

    assert code(await shard.append(empty_batch((PRODUCER_ID + 500, 0, 0)))) is ErrorCode.none
    assert code(await shard.append(empty_batch((PRODUCER_ID - 1, 32767, 0)))) is ErrorCode.invalid_producer_epoch


async def test_the_newest_writer_fences_before_this_broker_hears_of_it(shard: Shard) -> None:
    await shard.append(empty_batch(of_owner(32767, 0)))
    assert code(await shard.append(empty_batch((PRODUCER_ID + 500, 0, 0)))) is ErrorCode.none

    late = await shard.append(batch_of(b"a", producer=of_owner(32767, 1)))

    assert code(late) is ErrorCode.invalid_producer_epoch
    assert f"producer {PRODUCER_ID + 500} with epoch 0" in late.error_message
    assert shard.log.log_end_offset == 2


async def test_a_batch_of_no_producer_is_refused(shard: Shard) -> None:
    assert code(await shard.append(batch_of(b"a"))) is ErrorCode.invalid_producer_epoch


async def test_a_gap_in_the_sequence_is_refused(shard: Shard) -> None:
    await shard.append(empty_batch(of_owner(0, 0)))

    late = await shard.append(batch_of(b"a", producer=of_owner(0, 2)))

    assert code(late) is ErrorCode.out_of_order_sequence_number


@pytest.mark.parametrize("batch", [b"", b"garbage", bytes(61), empty_batch((PRODUCER_ID, 0, 0))[:-1]])
async def test_what_is_no_batch_is_answered_with_an_error(shard: Shard, batch: bytes) -> None:
    answer = await shard.append(batch)

    assert code(answer) in {
        ErrorCode.corrupt_message,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.invalid_record,
    }
    assert shard.log.log_end_offset == 0


async def test_a_partition_that_is_not_led_here_is_refused(shard: Shard) -> None:
    shard.partition.leads = False

    assert code(await shard.append(empty_batch(of_owner(0, 0)))) is ErrorCode.not_leader_or_follower
    assert code(await shard.read(0)) is ErrorCode.not_leader_or_follower
    assert code(await shard.append(empty_batch(of_owner(0, 0)), shard=1)) is ErrorCode.not_leader_or_follower
    assert code(await shard.read(0, shard=9)) is ErrorCode.unknown_topic_or_partition


async def test_a_bug_is_an_answer_too(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("oh")

    monkeypatch.setattr(Partition, "append", fail)
    monkeypatch.setattr(Partition, "read", fail)

    assert code(await shard.append(empty_batch(of_owner(0, 0)))) is ErrorCode.unknown_server_error
    assert code(await shard.read(0)) is ErrorCode.unknown_server_error


async def test_an_append_waits_for_the_other_replicas(shard: Shard) -> None:
    shard.partition.apply(replace(shard.partition.state, replicas=(BROKER, 2), isr=(BROKER, 2)), leads=True)
    appending = asyncio.create_task(shard.append(empty_batch(of_owner(0, 0))))
    await eventually_async(lambda: shard.log.log_end_offset == 1, "the leader has the batch")
    assert not appending.done()
    assert (await shard.read(0)).batches == b""

    shard.partition.apply(replace(shard.partition.state, isr=(BROKER,), partition_epoch=2), leads=True)

    assert code(await appending) is ErrorCode.none


async def test_an_append_that_waits_is_told_when_this_broker_leads_no_more(shard: Shard) -> None:
    shard.partition.apply(replace(shard.partition.state, replicas=(BROKER, 2), isr=(BROKER, 2)), leads=True)
    appending = asyncio.create_task(shard.append(empty_batch(of_owner(0, 0))))
    await eventually_async(lambda: shard.log.log_end_offset == 1, "the leader has the batch")

    shard.partition.apply(replace(shard.partition.state, leader=2, leader_epoch=1), leads=False)

    assert code(await appending) is ErrorCode.not_leader_or_follower


async def test_another_leaders_records_at_its_offset_do_not_make_an_append_safe(shard: Shard) -> None:
    """Leadership goes, and comes back with the offset replicated, before whoever waits has had its turn."""
    shard.partition.apply(replace(shard.partition.state, replicas=(BROKER, 2), isr=(BROKER, 2)), leads=True)
    answer = shard.access.append(pb.LogAppend(shard=0, batch=empty_batch(of_owner(0, 0))))
    assert not isinstance(answer, pb.LogAppended)

    shard.partition.apply(replace(shard.partition.state, leader=2, leader_epoch=1), leads=False)
    lead_again = replace(shard.partition.state, leader=BROKER, leader_epoch=2, isr=(BROKER,), partition_epoch=3)
    shard.partition.apply(lead_again, leads=True)
    assert shard.log.high_watermark == 1

    assert code(await answer) is ErrorCode.not_leader_or_follower


async def test_an_append_that_is_safe_at_once_needs_no_task(shard: Shard) -> None:
    answer = shard.access.append(pb.LogAppend(shard=0, batch=empty_batch(of_owner(0, 0))))

    assert isinstance(answer, pb.LogAppended)
    assert code(answer) is ErrorCode.none


async def test_an_append_does_not_wait_for_ever(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_log_access, "REPLICATION_TIMEOUT_SECONDS", 0.01)
    shard.partition.apply(replace(shard.partition.state, replicas=(BROKER, 2), isr=(BROKER, 2)), leads=True)

    assert code(await shard.append(empty_batch(of_owner(0, 0)))) is ErrorCode.request_timed_out


async def test_an_append_waits_for_the_disk_where_that_is_asked_for(tmp_path: Path) -> None:
    shard = Shard(tmp_path / "log", replace(COMPACTED, flush_messages=1))

    assert code(await shard.append(empty_batch(of_owner(0, 0)))) is ErrorCode.none
    assert shard.log.recovery_point == 1


async def test_a_read_gives_whole_batches_and_at_least_one(shard: Shard) -> None:
    batches = [batch_of(bytes(1000), producer=of_owner(0, number)) for number in range(10)]
    for batch in batches:
        await shard.append(batch)
    size = len(batches[0])

    assert len((await shard.read(0, bytes_max=1)).batches) == size
    assert len((await shard.read(0, bytes_max=3 * size + 5)).batches) == 3 * size
    assert next(iterate_batches((await shard.read(7, bytes_max=1)).batches))[0].base_offset == 7
    assert (await shard.read(10)).batches == b""


async def test_a_read_stops_at_what_one_message_carries(tmp_path: Path) -> None:
    shard = Shard(tmp_path / "log", replace(COMPACTED, segment_bytes=1 << 26))
    size = 0
    for number in range(12):
        batch = batch_of(bytes(500_000), producer=of_owner(0, number))
        await shard.append(batch)
        size += len(batch)

    read = await shard.read(0, bytes_max=1 << 30)

    assert READ_BYTES_MAX - size / 12 < len(read.batches) <= READ_BYTES_MAX
    assert all(header.record_count == 1 for header, _ in iterate_batches(read.batches))


async def test_a_read_outside_the_log_says_where_the_log_is(shard: Shard) -> None:
    for number in range(3):
        await shard.append(batch_of(b"v", producer=of_owner(0, number)))
    shard.log.delete_records_before(2)

    for offset in (1, 4):
        answer = await shard.read(offset)
        assert code(answer) is ErrorCode.offset_out_of_range
        assert (answer.log_start_offset, answer.high_watermark) == (2, 3)


@pytest.mark.parametrize("in_thread_from_bytes", [0, 1 << 30])
async def test_a_shard_whose_log_cannot_be_read_gets_another_leader(
    shard: Shard, monkeypatch: pytest.MonkeyPatch, in_thread_from_bytes: int
) -> None:
    await shard.append(empty_batch(of_owner(0, 0)))
    await shard.read(0)
    monkeypatch.setattr(shard_log_access, "READ_IN_THREAD_BYTES_MIN", in_thread_from_bytes)
    refused = OSError(errno.EIO, os.strerror(errno.EIO))
    with patch.object(os, "pread", side_effect=refused):
        assert code(await shard.read(0)) is ErrorCode.kafka_storage_error
    assert "a read failed" in str(shard.log.failure)


@asynccontextmanager
async def stream_to(shard: Shard) -> AsyncIterator[ScriptedCoordinator]:
    """A coordinator with a stream from the shard's broker."""
    async with scripted_coordinator(1) as coordinator:
        shard.feed.publish(coordinators={1: coordinator.member()})
        relay = GroupRelay(shard.feed, BROKER, shard.access)  # type: ignore[arg-type]
        relay.start()
        try:
            await eventually_async(lambda: coordinator.metadata, "the stream is open")
            yield coordinator
        finally:
            await relay.close()


async def test_a_coordinator_appends_and_reads_through_the_stream(shard: Shard) -> None:
    async with stream_to(shard) as coordinator:
        batches = [batch_of(b"%d" % number, producer=of_owner(0, number)) for number in range(50)]
        appended = await asyncio.gather(*(coordinator.append(0, batch) for batch in batches))
        read = await coordinator.read(0, 0)

        assert [answer.base_offset for answer in appended] == list(range(50))
        assert [header.base_sequence for header, _ in iterate_batches(read.batches)] == list(range(50))


async def test_errors_do_not_end_the_stream(shard: Shard) -> None:
    async with stream_to(shard) as coordinator:
        assert code(await coordinator.append(0, b"garbage")) is ErrorCode.corrupt_message
        assert code(await coordinator.read(7, 0)) is ErrorCode.unknown_topic_or_partition
        assert code(await coordinator.append(0, empty_batch(of_owner(0, 0)))) is ErrorCode.none
        assert len(coordinator.metadata) == 1


async def test_many_large_reads_are_answered_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_session, "UNSENT_BYTES_BEFORE_READ_MAX", 1)
    shard = Shard(tmp_path / "log", replace(COMPACTED, segment_bytes=1 << 26))
    for number in range(4):
        await shard.append(batch_of(bytes(900_000), producer=of_owner(0, number)))
    async with stream_to(shard) as coordinator:
        answers = await asyncio.gather(*(coordinator.read(0, 0, 1 << 22) for _ in range(20)))

        assert {len(answer.batches) for answer in answers} == {shard.log.size_bytes}


async def test_a_coordinator_that_asks_too_much_at_once_is_told_to_ask_again(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_session, "LOG_REQUESTS_MAX", 2)
    shard.partition.apply(replace(shard.partition.state, replicas=(BROKER, 2), isr=(BROKER, 2)), leads=True)
    async with stream_to(shard) as coordinator:
        waiting = [asyncio.create_task(coordinator.append(0, empty_batch(of_owner(0, n)))) for n in range(2)]
        await eventually_async(lambda: shard.log.log_end_offset == 2, "both wait for replicas")

        assert code(await coordinator.append(0, empty_batch(of_owner(0, 2)))) is ErrorCode.request_timed_out
        assert code(await coordinator.read(0, 0)) is ErrorCode.request_timed_out

        shard.partition.apply(replace(shard.partition.state, isr=(BROKER,), partition_epoch=2), leads=True)
        assert {code(answer) for answer in await asyncio.gather(*waiting)} == {ErrorCode.none}


# Other topics


async def test_only_topics_that_are_sharded_among_coordinators_are_written_and_read(shard: Shard) -> None:
    append = pb.LogAppend(topic="flights", shard=0, batch=empty_batch(of_owner(0, 0)))
    refused = shard.access.append(append)

    assert isinstance(refused, pb.LogAppended)
    assert code(refused) is ErrorCode.unknown_topic_or_partition
    assert code(await shard.access.read(pb.LogRead(topic="flights", shard=0))) is ErrorCode.unknown_topic_or_partition
    assert shard.log.log_end_offset == 0


async def test_the_owner_of_a_shard_is_no_owner_of_the_same_partition_of_another_topic(
    shard: Shard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_log_access, "SHARDED_TOPICS", (GROUP_TOPIC, "__other"))
    state = shard.feed.state.topics[GROUP_TOPIC].partitions[0]
    log = open_log(tmp_path / "other", config=COMPACTED)
    other = Partition(TopicPartition("__other", 0), log, ReplicationContext(BROKER, 30_000, int), state)
    other.apply(state, leads=True)
    shard.table.add(other)
    topics = shard.feed.state.topics
    shard.feed.publish(
        topics={**topics, "__other": replace(topics[GROUP_TOPIC], name="__other")},
        shards=shards_of([OWNER], 2, producer_epoch=4),
    )

    own = shard.access.append(pb.LogAppend(topic="__other", shard=0, batch=empty_batch(of_owner(2, 0))))
    former = await shard.append(empty_batch(of_owner(2, 0)))

    assert isinstance(own, pb.LogAppended)
    assert (code(own), code(former)) == (ErrorCode.none, ErrorCode.invalid_producer_epoch)
    assert (log.log_end_offset, shard.log.log_end_offset) == (1, 0)
    read = await shard.access.read(pb.LogRead(topic="__other", shard=0, bytes_max=1 << 20))
    assert (code(read), read.high_watermark) == (ErrorCode.none, 1)
