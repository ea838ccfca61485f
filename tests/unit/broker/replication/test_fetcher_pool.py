"""A follower's fetching, against a leader that is played over a real socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode
from structlog.testing import capture_logs

from ottla_broker.config import BrokerConfig
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.partition.truncation import LogTruncation, TruncationContext
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.replication import leader_fetcher
from ottla_broker.replication.fetcher_pool import FetcherPool
from ottla_broker.replication.leader_fetcher import LeaderFetcher
from ottla_core.clock import SystemClock
from ottla_core.cluster.state.model import Endpoint, Member, PartitionState, Role
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.replica_fetch_response import FetchedHead
from tests.support.broker.fake_leader import FakeLeader
from tests.support.broker.partition_logs import append, open_log, read_batches
from tests.support.eventually_async import eventually_async
from tests.support.free_ports import free_port

TOPIC_ID = UUID(int=1)
BROKER_EPOCH = 88
LEADER = 1
FOLLOWER = 2


class Lab:
    """A fake leader, this broker's fetchers, and replicas on both sides."""

    def __init__(self, directory: Path, **settings: int) -> None:
        self.directory = directory
        self.leader = FakeLeader()
        config = BrokerConfig.model_validate(
            {
                "node.id": FOLLOWER,
                "log.dirs": str(directory),
                "etcd.endpoints": "http://127.0.0.1:1",
                "replica.fetch.wait.max.ms": 10_000,
                "replica.fetch.backoff.ms": 50,
                "replica.socket.timeout.ms": 20_000,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        self.fetchers = FetcherPool(config, broker_epoch=lambda: BROKER_EPOCH, clock=SystemClock())
        self.context = ReplicationContext(FOLLOWER, 30_000, lambda: 0, frozenset({LEADER, FOLLOWER}))

    def member(self, epoch: int = 70) -> Member:
        return Member(
            role=Role.BROKER,
            id=LEADER,
            epoch=epoch,
            incarnation=uuid4(),
            rpc_address="127.0.0.1:1",
            version="1",
            endpoints=(Endpoint(listener="PLAINTEXT", host="127.0.0.1", port=self.leader.port),),
        )

    def led(self, index: int = 0) -> PartitionLog:
        """A log of the leader's."""
        directory = self.directory / f"leader-{index}"
        log = self.leader.logs[TOPIC_ID, index] = open_log(directory)
        return log

    def replica(self, index: int = 0, *, leader_epoch: int = 0, config: TopicConfig | None = None) -> Partition:
        log = open_log(self.directory / f"follower-{index}", config=config)
        state = PartitionState(
            topic_id=TOPIC_ID,
            index=index,
            replicas=(LEADER, FOLLOWER),
            isr=(LEADER,),
            leader=LEADER,
            leader_epoch=leader_epoch,
        )
        partition = Partition(TopicPartition("flights", index), log, self.context, state)
        partition.apply(state, leads=False)
        return partition

    def claimed(self) -> list[tuple[int, int]]:
        """Every partition and offset that a fetch named."""
        return [
            (wanted.partition, wanted.fetch_offset)
            for fetch in self.leader.fetches
            for topic in fetch.topics
            for wanted in topic.partitions
        ]


def elect(partition: Partition, leader_epoch: int) -> None:
    partition.apply(replace(partition.state, leader_epoch=leader_epoch), leads=False)


def content(log: PartitionLog) -> bytes:
    return b"".join(batch for _, batch in read_batches(log))


async def caught_up(partition: Partition, log: PartitionLog) -> None:
    await eventually_async(
        lambda: (
            partition.log.log_end_offset == log.log_end_offset and partition.log.high_watermark == log.high_watermark
        ),
        "the follower has everything",
    )
    assert content(partition.log) == content(log)


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    made = Lab(tmp_path)
    async with made.leader.serving():
        try:
            yield made
        finally:
            await made.fetchers.close()


async def test_a_follower_copies_what_is_there_and_what_comes(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica()
    for number in range(20):
        append(log, b"v%d" % number)
    lab.fetchers.follow(partition, lab.member())
    await caught_up(partition, log)
    append(log, b"later")
    await caught_up(partition, log)
    first = lab.leader.fetches[0]
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (FOLLOWER, BROKER_EPOCH)
    assert lab.leader.fetches[1].session_epoch == 1
    assert lab.leader.connections == 1
    assert lab.fetchers.fetched_bytes == log.size_bytes


async def test_batches_larger_than_any_buffer_arrive_whole(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica()
    for number in range(6):
        append(log, bytes([number]) * 300_000)
    lab.fetchers.follow(partition, lab.member())
    await caught_up(partition, log)


async def test_an_offset_is_claimed_only_when_everything_before_it_is_in_the_log(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica()
    too_early: list[int] = []

    def look() -> None:
        topics = lab.leader.fetches[-1].topics
        offsets = [wanted.fetch_offset for topic in topics for wanted in topic.partitions]
        too_early.extend(offset for offset in offsets if offset > partition.log.log_end_offset)

    lab.leader.on_fetch = look
    lab.fetchers.follow(partition, lab.member())
    for number in range(10):
        append(log, b"x" * number)
        await caught_up(partition, log)
    await eventually_async(lambda: len(lab.claimed()) == 11, "the last offset is claimed")
    assert [offset for _, offset in lab.claimed()] == list(range(11))
    assert not too_early


async def test_many_partitions_share_a_session_and_only_what_moved_is_named(lab: Lab) -> None:
    logs = [lab.led(index) for index in range(30)]
    replicas = [lab.replica(index) for index in range(30)]
    for partition in replicas:
        lab.fetchers.follow(partition, lab.member())
    await eventually_async(lambda: len(lab.leader.fetches) > 1, "the session is open")
    append(logs[7], b"new")
    await eventually_async(lambda: lab.claimed()[30:], "the new offset is claimed")
    assert lab.claimed()[30:] == [(7, 1)]


async def test_a_partition_that_is_followed_while_a_fetch_waits_is_asked_for_at_once(lab: Lab) -> None:
    first_log, second_log = lab.led(0), lab.led(1)
    first, second = lab.replica(0), lab.replica(1)
    lab.fetchers.follow(first, lab.member())
    await eventually_async(lambda: len(lab.leader.fetches) > 1, "a fetch waits")
    append(second_log, b"x")
    lab.fetchers.follow(second, lab.member())
    await caught_up(second, second_log)
    assert lab.leader.hurried == 1
    assert lab.leader.connections == 1
    append(first_log, b"y")
    await caught_up(first, first_log)


async def test_a_log_that_departs_from_the_leader_s_is_cut(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica(leader_epoch=2)
    for target in (log, partition.log):
        append(target, b"common", leader_epoch=0)
    append(partition.log, b"never replicated", leader_epoch=1)
    partition.log.high_watermark = 1
    append(log, b"the new leader's", leader_epoch=2)
    lab.leader.diverging[TOPIC_ID, 0] = (0, 1)
    lab.fetchers.follow(partition, lab.member())
    await caught_up(partition, log)
    assert partition.log.leader_epochs.entries == log.leader_epochs.entries


async def parted(lab: Lab, parts: Callable[[Partition], object]) -> tuple[PartitionLog, Partition]:
    """Follow a leader whose log parts at 1 from this replica's, once `parts` has had its way with the latter."""
    log, partition = lab.led(), lab.replica(leader_epoch=2)
    for target in (log, partition.log):
        append(target, b"common", leader_epoch=0)
    append(partition.log, b"never replicated", leader_epoch=1)
    partition.log.high_watermark = 1
    append(log, b"the new leader's", leader_epoch=2)
    lab.leader.diverging[TOPIC_ID, 0] = (0, 1)
    parts(partition)
    lab.fetchers.follow(partition, lab.member())
    return log, partition


async def test_nothing_is_cut_before_the_checkpoints_are_written_nor_fetched_before_the_cut_is_durable(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write, may_settle = asyncio.Event(), asyncio.Event()

    async def write_checkpoints(_: TopicPartition) -> None:
        await may_write.wait()

    async def settle_once(self: LogTruncation) -> None:
        await may_settle.wait()
        await settled(self)

    settled = LogTruncation.settled
    monkeypatch.setattr(LogTruncation, "settled", settle_once)
    log, partition = await parted(
        lab, lambda it: setattr(it.log.truncation, "context", TruncationContext(write_checkpoints))
    )
    await eventually_async(lambda: partition.log.truncation.checkpointed(9) == 1, "the truncation is announced")
    assert partition.log.log_end_offset == 2
    may_write.set()
    await eventually_async(lambda: partition.log.log_end_offset == 1, "the log is cut")
    assert lab.claimed() == [(0, 2)], "nothing is fetched from the new end yet"
    may_settle.set()
    await caught_up(partition, log)
    assert lab.claimed()[1] == (0, 1)


async def test_a_replica_that_leads_by_the_time_a_truncation_is_prepared_keeps_its_records(lab: Lab) -> None:
    may_write = asyncio.Event()

    async def write_checkpoints(_: TopicPartition) -> None:
        await may_write.wait()

    _, partition = await parted(
        lab, lambda it: setattr(it.log.truncation, "context", TruncationContext(write_checkpoints))
    )
    await eventually_async(lambda: partition.log.truncation.checkpointed(9) == 1, "the truncation is announced")
    lab.fetchers.unfollow(partition)
    partition.apply(replace(partition.state, leader=FOLLOWER, leader_epoch=3), leads=True)
    append(partition.log, b"led", leader_epoch=3)
    may_write.set()
    await eventually_async(lambda: partition.log.truncation.checkpointed(9) == 9, "the truncation is given up")
    assert partition.log.log_end_offset == 3


async def test_a_cut_that_is_not_durable_is_settled_by_whoever_fetches_next(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica()
    for _ in range(3):
        append(log, b"x")
        append(partition.log, b"x")
    partition.log.truncate_to(1, 0)
    assert not partition.log.truncation.is_settled
    lab.fetchers.follow(partition, lab.member())
    await caught_up(partition, log)
    assert partition.log.truncation.is_settled


async def test_a_follower_that_fell_out_of_the_leader_s_log_begins_anew_at_its_start(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica()
    append(partition.log, b"old")
    for _ in range(5):
        append(log, b"x")
    log.truncate_fully_and_start_at(5, 0)
    append(log, b"new")
    lab.fetchers.follow(partition, lab.member())
    await caught_up(partition, log)
    assert partition.log.log_start_offset == 5


async def test_a_log_longer_than_that_of_an_unclean_leader_is_cut_at_its_end(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica()
    for target in (log, partition.log):
        append(target, b"common")
    append(partition.log, b"lost")
    lab.fetchers.follow(partition, lab.member())
    await caught_up(partition, log)
    append(log, b"new")
    await caught_up(partition, log)


async def test_a_start_offset_that_moved_at_the_leader_moves_here(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica()
    for _ in range(3):
        append(log, b"x")
    log.delete_records_before(2)
    lab.leader.logs[TOPIC_ID, 0] = log
    append(partition.log, b"x")
    append(partition.log, b"x")
    lab.fetchers.follow(partition, lab.member())
    await eventually_async(lambda: partition.log.log_start_offset == 2, "the start has moved")


@pytest.mark.parametrize(
    "error", [ErrorCode.not_leader_or_follower, ErrorCode.unknown_leader_epoch, ErrorCode.kafka_storage_error]
)
async def test_a_refused_partition_is_tried_again_and_does_not_hold_up_others(lab: Lab, error: ErrorCode) -> None:
    logs, replicas = [lab.led(0), lab.led(1)], [lab.replica(0), lab.replica(1)]
    lab.leader.errors[TOPIC_ID, 0] = error
    for log, partition in zip(logs, replicas, strict=True):
        append(log, b"x")
        lab.fetchers.follow(partition, lab.member())
    await caught_up(replicas[1], logs[1])
    assert replicas[0].log.log_end_offset == 0
    del lab.leader.errors[TOPIC_ID, 0]
    await caught_up(replicas[0], logs[0])


@pytest.mark.parametrize("silence", ["is_silent", "is_silent_about_offsets"])
async def test_a_leader_that_does_not_answer_is_connected_to_anew(tmp_path: Path, silence: str) -> None:
    """Also where the only partition sends no fetch, because it asks where to go on."""
    lab = Lab(tmp_path, replica_socket_timeout_ms=100)
    setattr(lab.leader, silence, True)
    async with lab.leader.serving():
        log, partition = lab.led(), lab.replica()
        append(log, b"x")
        for _ in range(2):
            append(partition.log, b"longer")
        lab.fetchers.follow(partition, lab.member())
        await eventually_async(lambda: lab.leader.connections > 1, "another connection was made")
        setattr(lab.leader, silence, False)
        await eventually_async(lambda: partition.log.log_end_offset == 1, "it is cut at the leader's end")
        await lab.fetchers.close()


async def test_a_leader_that_cannot_be_reached_yet_is_tried_again(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica()
    append(log, b"x")
    lab.leader.port = free_port()
    with capture_logs() as logged:
        lab.fetchers.follow(partition, lab.member())
        await eventually_async(lambda: logged, "an attempt has failed")
    assert logged[0]["event"] == "cannot fetch from a leader; trying again"
    async with lab.leader.serving():
        await caught_up(partition, log)


async def test_a_lost_connection_is_made_anew_with_a_new_session(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica()
    append(log, b"x")
    lab.fetchers.follow(partition, lab.member())
    await caught_up(partition, log)
    await eventually_async(lambda: len(lab.leader.fetches) > 1, "a fetch waits")
    before = len(lab.leader.fetches)
    lab.leader.disconnect()
    append(log, b"y")
    await caught_up(partition, log)
    assert lab.leader.connections == 2
    assert lab.leader.fetches[before].session_epoch == 0


@pytest.mark.parametrize("error", [ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch])
async def test_a_refused_session_is_opened_anew_on_the_same_connection(lab: Lab, error: ErrorCode) -> None:
    log, partition = lab.led(), lab.replica()
    append(log, b"x")
    lab.leader.request_error = error
    lab.fetchers.follow(partition, lab.member())
    await caught_up(partition, log)
    assert lab.leader.connections == 1


@pytest.mark.parametrize(
    "garbage", [b"\x00\x00\x00\x03abc", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00", bytes.fromhex("0000000500000063ff")]
)
async def test_garbage_ends_the_connection_and_nothing_else(lab: Lab, garbage: bytes) -> None:
    log, partition = lab.led(), lab.replica()
    append(log, b"x")
    lab.leader.garbage = garbage
    lab.fetchers.follow(partition, lab.member())
    await caught_up(partition, log)
    assert lab.leader.connections == 2


async def test_a_bug_of_ours_ends_the_connection_and_not_the_fetching(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, partition = lab.led(), lab.replica()
    append(log, b"x")
    real, bugs = LeaderFetcher.on_answered, [RuntimeError("a bug")]

    def on_answered(self: LeaderFetcher, head: FetchedHead) -> None:
        if bugs:
            raise bugs.pop()
        real(self, head)

    monkeypatch.setattr(LeaderFetcher, "on_answered", on_answered)
    lab.fetchers.follow(partition, lab.member())
    await eventually_async(lambda: lab.leader.connections == 2, "it is connected anew")
    append(log, b"y")
    await caught_up(partition, log)


async def test_a_bug_of_ours_in_a_truncation_is_no_end_of_fetching_the_partition(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[object] = []
    cut_log = leader_fetcher.cut_log

    async def failing_once(*arguments: Any, **options: Any) -> None:
        attempts.append(arguments)
        if len(attempts) == 1:
            raise ValueError("a defect")
        await cut_log(*arguments, **options)

    monkeypatch.setattr(leader_fetcher, "cut_log", failing_once)
    log, partition = await parted(lab, lambda _: None)
    await caught_up(partition, log)
    assert len(attempts) == 2


async def test_without_sessions_everything_is_asked_for_each_time(lab: Lab) -> None:
    lab.leader.has_sessions = False
    logs, replicas = [lab.led(0), lab.led(1)], [lab.replica(0), lab.replica(1)]
    for log, partition in zip(logs, replicas, strict=True):
        append(log, b"x")
        lab.fetchers.follow(partition, lab.member())
        await caught_up(partition, log)
    append(logs[0], b"y")
    await caught_up(replicas[0], logs[0])
    assert all(fetch.session_epoch == 0 for fetch in lab.leader.fetches)


async def test_nothing_is_appended_to_a_partition_that_is_followed_no_longer(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica()
    lab.fetchers.follow(partition, lab.member())
    await eventually_async(lambda: len(lab.leader.fetches) > 1, "a fetch waits")
    lab.fetchers.unfollow(partition)
    assert lab.fetchers.count == 0
    append(log, b"x")
    other_log, other = lab.led(1), lab.replica(1)
    append(other_log, b"x")
    lab.fetchers.follow(other, lab.member())
    await caught_up(other, other_log)
    assert partition.log.log_end_offset == 0


async def test_records_of_a_former_leader_epoch_are_not_appended(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica()
    lab.fetchers.follow(partition, lab.member())
    await eventually_async(lambda: len(lab.leader.fetches) > 1, "a fetch waits")
    elect(partition, 3)
    append(log, b"x")
    lab.fetchers.follow(partition, lab.member())
    await caught_up(partition, log)
    epochs = [wanted.current_leader_epoch for fetch in lab.leader.fetches for topic in fetch.topics
              for wanted in topic.partitions]  # fmt: skip
    assert epochs[0] == 0
    assert set(epochs[1:]) == {3}


async def test_a_leader_that_came_back_is_connected_to_anew(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica()
    lab.leader.is_silent = True
    lab.fetchers.follow(partition, lab.member(epoch=70))
    await eventually_async(lambda: lab.leader.fetches, "a fetch waits")
    lab.leader.is_silent = False
    append(log, b"x")
    elect(partition, 1)
    lab.fetchers.follow(partition, lab.member(epoch=71))
    await caught_up(partition, log)
    assert lab.fetchers.count == 1


async def test_with_flush_messages_an_offset_is_claimed_only_after_its_fsync(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica(config=TopicConfig(flush_messages=1))
    lab.fetchers.follow(partition, lab.member())
    for _ in range(5):
        append(log, b"x")
        await caught_up(partition, log)
        end = partition.log.log_end_offset
        await eventually_async(
            lambda end=end: (0, end) in lab.claimed(),  # type: ignore[misc]
            "the offset is claimed",
        )
        assert partition.log.recovery_point == end


async def test_a_full_disk_pauses_one_partition_until_there_is_room(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, replicas = [lab.led(0), lab.led(1)], [lab.replica(0), lab.replica(1)]
    room = [False]
    real = PartitionLog.append_as_follower

    def append_as_follower(self: PartitionLog, records: memoryview, **how: int) -> int:
        if self is replicas[0].log and not room[0]:
            raise self._errors.of("append to", OSError(28, "No space left on device"))
        return real(self, records, **how)

    monkeypatch.setattr(PartitionLog, "append_as_follower", append_as_follower)
    for log, partition in zip(logs, replicas, strict=True):
        append(log, b"x")
        lab.fetchers.follow(partition, lab.member())
    await caught_up(replicas[1], logs[1])
    assert replicas[0].log.log_end_offset == 0
    room[0] = True
    await caught_up(replicas[0], logs[0])


async def test_an_offset_whose_fsync_failed_is_claimed_only_when_one_has_succeeded(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [lab.led(0), lab.led(1)]
    replicas = [lab.replica(0, config=TopicConfig(flush_messages=1)), lab.replica(1)]
    works = [False]
    real = PartitionLog.flushed

    async def flushed(self: PartitionLog, through_offset: int) -> None:
        if not works[0]:
            raise self._errors.of("flush", OSError(28, "No space left on device"))
        await real(self, through_offset)

    monkeypatch.setattr(PartitionLog, "flushed", flushed)
    for log, partition in zip(logs, replicas, strict=True):
        append(log, b"x")
        lab.fetchers.follow(partition, lab.member())
    for _ in range(3):
        append(logs[1], b"y")
        await caught_up(replicas[1], logs[1])
    assert replicas[0].log.log_end_offset == 1
    assert (0, 1) not in lab.claimed()
    works[0] = True
    await eventually_async(lambda: (0, 1) in lab.claimed(), "the offset is claimed")


async def test_a_replica_made_anew_is_fetched_in_place_of_the_former_one(lab: Lab) -> None:
    log, former = lab.led(), lab.replica()
    append(log, b"x")
    lab.fetchers.follow(former, lab.member())
    await caught_up(former, log)
    anew = Partition(former.topic_partition, open_log(lab.directory / "anew"), lab.context, former.state)
    anew.apply(former.state, leads=False)
    lab.fetchers.follow(anew, lab.member())
    await caught_up(anew, log)


async def test_with_flush_messages_another_leader_is_told_of_an_offset_only_after_its_fsync(lab: Lab) -> None:
    log, partition = lab.led(), lab.replica(config=TopicConfig(flush_messages=1))
    for target in (log, partition.log):
        append(target, b"fetched from a former leader")
    claimed: list[tuple[int, int]] = []
    lab.leader.on_fetch = lambda: claimed.append((lab.claimed()[0][1], partition.log.recovery_point))
    lab.fetchers.follow(partition, lab.member())
    await eventually_async(lambda: claimed, "a fetch has come")
    assert claimed[0] == (1, 1)
