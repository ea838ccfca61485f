"""Owning shards: fencing, loading, losing, handing over."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.list_groups.v4.request import ListGroupsRequest
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.types import GroupId, TopicName, TransactionalId
from kio.static.primitive import i32

from ottla_core.cluster.state.model import NO_COORDINATOR
from ottla_core.shards import TRANSACTION_TOPIC
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.compression import Codec
from ottla_core.wire.records import Record, encode_batch
from ottla_group_coordinator import coordinator as coordinator_module
from ottla_group_coordinator.records import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from ottla_group_coordinator.runtime import remote_shard_log, shard_loading, shard_runtime
from ottla_group_coordinator.runtime.remote_shard_log import APPENDS_IN_FLIGHT_MAX
from ottla_group_coordinator.runtime.shard_batches import ShardProducer, fencing_batch
from tests.support.eventually_async import eventually_async
from tests.support.groups.coordinator_under_test import (
    FLIGHTS,
    PRODUCER_ID,
    CoordinatorUnderTest,
    assign,
    commit,
    commit_code,
    committed,
    fetch,
    fetched,
    set_leader,
    shard_of,
)
from tests.support.groups.fake_relay_broker import FakeRelayBroker
from tests.support.groups.group_cluster import BROKER_EPOCH, StatedFeed, group_topic

Start = Callable[..., Any]
ALL_SHARDS = -1


def offset_record(number: int, *, group: str = "group", partition: int = 0, offset: int = 0) -> Record:
    key = OffsetCommitKey(group=group, topic="flights", partition=partition)
    value = OffsetCommitValue(offset=offset, commit_timestamp=1_700_000_000_000)
    return Record(number, 1_700_000_000_000, encode_key(key), encode_value(value))


async def test_a_new_owner_fences_then_loads_then_serves(feed: StatedFeed, start: Start, connect: Start) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    broker.logs[0].put(encode_batch([offset_record(0, offset=7)]))
    broker.appends.clear()
    broker.reads.clear()

    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "not_coordinator"
    assign(feed, shard_of(coordinator, producer_epoch=4))
    await eventually_async(lambda: broker.append_count, "the fencing batch is sent")
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "coordinator_load_in_progress"
    assert not broker.read_offsets, "nothing is read before former owners are fenced"
    broker.appends.set()
    await eventually_async(lambda: broker.read_offsets, "the log is read")
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "coordinator_load_in_progress"
    broker.reads.set()
    await coordinator.serves()

    fence, _ = broker.logs[0].batches[1]
    assert (fence.record_count, fence.last_offset_delta, fence.base_sequence) == (0, 0, 0)
    assert (fence.producer_id, fence.producer_epoch) == (PRODUCER_ID, 4)
    assert await committed(broker, "group") == {0: 7}


async def test_loading_reads_all_kinds_of_batches_in_chunks(feed: StatedFeed, start: Start, connect: Start) -> None:
    coordinator: CoordinatorUnderTest = await start(settings={"offsets.load.buffer.size": 300})
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    log = broker.logs[0]
    share_group_key = (10).to_bytes(2) + b"\0\5group"
    tombstone = offset_record(0, partition=1)._replace(value=None)
    log.put(
        encode_batch([offset_record(0, group="before the start"), offset_record(1, partition=1, offset=1)]),
        encode_batch([offset_record(0, partition=0, offset=2)], codec=Codec.ZSTD),
        encode_batch([Record(0, 0, b"\0\0\0\0", b"\0\0\0\0\0\0")], is_transactional=True, is_control=True),
        encode_batch([Record(0, 0, share_group_key, b"whatever"), tombstone._replace(offset=1)]),
        encode_batch([Record(0, 0, b"\0\1\0", b"a key that is cut short")]),
        *(encode_batch([offset_record(0, partition=2, offset=number)]) for number in range(20)),
    )
    log.log_start_offset = 1

    assign(feed, shard_of(coordinator))
    await coordinator.serves()

    assert await committed(broker, "group") == {0: 2, 2: 19}
    assert await committed(broker, "before the start") == {}
    assert len(broker.read_offsets) > 5
    assert coordinator.coordinator.counts.unreadable_records == 1


async def test_what_is_stored_when_the_leader_does_not_show_it_yet_is_waited_for(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    log = broker.logs[0]
    log.put(encode_batch([offset_record(0, offset=7)]))
    shown, log.read = log.read, lambda _offset, _bytes_max: b""

    assign(feed, shard_of(coordinator))
    await eventually_async(lambda: len(broker.read_offsets) > 2, "the log is read again")
    assert coordinator.status() == "loading"
    log.read = shown
    await coordinator.serves()

    assert await committed(broker, "group") == {0: 7}


async def test_a_shard_moves_from_one_coordinator_to_another_with_all_that_was_stored(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    first: CoordinatorUnderTest = await start(1, epoch=100)
    second: CoordinatorUnderTest = await start(2, epoch=200)
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), first)
    to_second = await connect(FakeRelayBroker(1, BROKER_EPOCH, broker.logs), second)
    assign(feed, shard_of(first, producer_epoch=0))
    await first.serves()
    for number in range(10):
        assert commit_code(await broker.ask(0, 8, commit("group", number, partition=number % 3))) == "none"

    assign(feed, shard_of(second, producer_epoch=1))
    await second.serves()

    assert commit_code(await broker.ask(0, 8, commit("group", 99))) == "not_coordinator"
    assert await committed(to_second, "group") == {0: 9, 1: 7, 2: 8}
    assert commit_code(await to_second.ask(0, 8, commit("group", 10, partition=1))) == "none"
    assign(feed, shard_of(first, producer_epoch=2))
    await first.serves()
    assert await committed(broker, "group") == {0: 9, 1: 10, 2: 8}
    assert first.status() == "serving"
    assert second.status() is None


async def test_a_process_whose_lease_has_run_out_answers_and_writes_nothing(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"
    end_offset = broker.logs[0].end_offset

    coordinator.place.lose()

    assert fetched(await broker.ask(0, 8, fetch("group")))[0] == "coordinator_load_in_progress"
    assert commit_code(await broker.ask(0, 8, commit("group", 2))) == "not_coordinator"
    assert broker.logs[0].end_offset == end_offset


async def test_an_answer_does_not_leave_when_the_lease_runs_out_while_it_is_stored(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    broker.appends.clear()
    asked = broker.ask_later(0, 8, commit("group", 1))
    await eventually_async(lambda: broker.append_count == 2, "the commit is sent")

    coordinator.place.lose()
    broker.appends.set()

    assert commit_code(await asked.response()) == "not_coordinator"


async def test_a_zombie_is_stopped_by_the_log_and_waits_for_a_new_assignment(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    later_owner = encode_batch(
        [offset_record(0, offset=50)], producer_id=PRODUCER_ID, producer_epoch=1, base_sequence=0
    )
    broker.logs[0].append(later_owner)

    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "not_coordinator"
    assert fetched(await broker.ask(0, 8, fetch("group")))[0] == "coordinator_load_in_progress"
    assert coordinator.status() == "ended"
    feed.publish()
    assert coordinator.status() == "ended"

    assign(feed, shard_of(coordinator, producer_epoch=2))
    await coordinator.serves()
    assert await committed(broker, "group") == {0: 50}


async def test_a_former_owner_that_does_not_know_it_yet_tells_no_offsets(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"
    later_owner = encode_batch(
        [offset_record(0, offset=50)], producer_id=PRODUCER_ID, producer_epoch=1, base_sequence=0
    )
    broker.logs[0].append(later_owner)

    assert fetched(await broker.ask(0, 8, fetch("group")))[0] == "coordinator_load_in_progress"
    assert coordinator.status() == "ended"


async def test_a_former_owner_that_does_not_know_it_yet_does_not_say_that_all_groups_are_set_back(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    nobody_is_behind = commit("", 40, leader_epoch=FLIGHTS.partitions[0].leader_epoch)
    assert commit_code(await broker.ask(0, 8, nobody_is_behind, sets_all_back=True)) == "none"
    later_owner = encode_batch(
        [offset_record(0, offset=50)], producer_id=PRODUCER_ID, producer_epoch=1, base_sequence=0
    )
    broker.logs[0].append(later_owner)

    assert commit_code(await broker.ask(0, 8, nobody_is_behind, sets_all_back=True)) == "not_coordinator"
    assert coordinator.status() == "ended"


async def test_a_former_owner_that_does_not_know_it_yet_does_not_say_that_a_group_is_as_far_already(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    assert commit_code(await broker.ask(0, 8, commit("group", 50))) == "none"
    assert commit_code(await broker.ask(0, 8, commit("group", 40), only_forward=True)) == "none"
    set_back = encode_batch([offset_record(0, offset=10)], producer_id=PRODUCER_ID, producer_epoch=1, base_sequence=0)
    broker.logs[0].append(set_back)

    answer = await broker.ask(0, 8, commit("group", 40), only_forward=True)
    assert commit_code(answer) == "not_coordinator"
    assert coordinator.status() == "ended"


async def test_a_former_owner_that_does_not_know_it_yet_does_not_say_that_an_offset_is_deleted(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    assert commit_code(await broker.ask(0, 8, commit("group", 1, partition=1))) == "none"
    deletion = OffsetDeleteRequest(
        group_id=GroupId("group"),
        topics=(
            OffsetDeleteRequestTopic(
                name=TopicName("flights"), partitions=(OffsetDeleteRequestPartition(partition_index=i32(0)),)
            ),
        ),
    )
    assert (await broker.ask(0, 0, deletion)).topics[0].partitions[0].error_code is ErrorCode.none
    later_owner = encode_batch(
        [offset_record(0, offset=50)], producer_id=PRODUCER_ID, producer_epoch=1, base_sequence=0
    )
    broker.logs[0].append(later_owner)

    assert (await broker.ask(0, 0, deletion)).error_code is ErrorCode.not_coordinator
    assert coordinator.status() == "ended"


async def test_what_nobody_who_owns_the_shard_has_written_calls_for_a_new_ownership(
    feed: StatedFeed, start: Start, connect: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_runtime, "SUCCESSOR_TIMEOUT_S", 0.05)
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    broker.logs[0].put(encode_batch([offset_record(0, offset=50)]))  # as Kafka lets its administrators do

    assert fetched(await broker.ask(0, 8, fetch("group")))[0] == "coordinator_load_in_progress"
    await eventually_async(lambda: coordinator.sequences_lost == 1, "the coordinator asks for another ownership")


async def test_offsets_are_told_when_the_leader_shows_all_that_was_stored(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"
    log = broker.logs[0]
    log.end_offset -= 1  # a leader that has just been elected does not know yet how much is replicated
    asked = broker.ask_later(0, 8, fetch("group"))
    count = len(broker.read_offsets)
    await eventually_async(lambda: len(broker.read_offsets) > count + 1, "the leader is asked again")
    assert not asked.is_answered
    log.end_offset += 1

    assert fetched(await asked.response()) == ("none", {0: 1})


async def test_an_owner_whose_epoch_only_the_log_has_seen_asks_for_a_later_one(
    feed: StatedFeed, start: Start, connect: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_runtime, "SUCCESSOR_TIMEOUT_S", 0.05)
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    of_an_earlier_life = {"producer_id": PRODUCER_ID, "producer_epoch": 7, "base_sequence": 0}
    broker.logs[0].append(encode_batch([offset_record(0, offset=50)], **of_an_earlier_life))

    assign(feed, shard_of(coordinator, producer_epoch=3))  # as an etcd counts that was restored from a backup
    await eventually_async(lambda: coordinator.epoch_floor == 7, "the coordinator asks for a later epoch than 7")

    assert coordinator.sequences_lost == 0
    assign(feed, shard_of(coordinator, producer_epoch=8))
    await coordinator.serves()
    assert await committed(broker, "group") == {0: 50}


async def test_a_fence_that_is_taken_for_one_of_an_earlier_life_does_not_hide_what_was_stored_behind_it(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    broker.logs[0].append(fencing_batch(ShardProducer(PRODUCER_ID, 3), 0))
    of_an_earlier_life = {"producer_id": PRODUCER_ID, "producer_epoch": 3, "base_sequence": 1}
    broker.logs[0].append(encode_batch([offset_record(0, offset=50)], **of_an_earlier_life))

    assign(feed, shard_of(coordinator, producer_epoch=3))

    await eventually_async(lambda: coordinator.sequences_lost == 1, "the coordinator asks for another ownership")
    assert fetched(await broker.ask(0, 8, fetch("group")))[0] == "coordinator_load_in_progress"


async def test_a_fence_that_the_log_has_from_an_earlier_life_with_many_batches_behind_it_calls_for_a_new_ownership(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    broker.logs[0].append(fencing_batch(ShardProducer(PRODUCER_ID, 3), 0))
    for number in range(2 * APPENDS_IN_FLIGHT_MAX):  # more than a log recognizes as repetitions
        of_an_earlier_life = {"producer_id": PRODUCER_ID, "producer_epoch": 3, "base_sequence": 1 + number}
        broker.logs[0].append(encode_batch([offset_record(0, offset=50 + number)], **of_an_earlier_life))

    assign(feed, shard_of(coordinator, producer_epoch=3))

    await eventually_async(lambda: coordinator.sequences_lost == 1, "the coordinator asks for another ownership")
    assign(feed, shard_of(coordinator, producer_epoch=4))
    await coordinator.serves()
    assert await committed(broker, "group") == {0: 49 + 2 * APPENDS_IN_FLIGHT_MAX}


async def test_a_log_that_lost_what_was_stored_calls_for_a_new_ownership(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    await broker.ask(0, 8, commit("group", 1))
    await broker.ask(0, 8, commit("group", 2))

    broker.logs[0].forget_last_batch()

    assert commit_code(await broker.ask(0, 8, commit("group", 3))) == "not_coordinator"
    assert coordinator.sequences_lost == 1
    coordinator.place.epoch += 50  # as a new registration gives
    assign(feed, shard_of(coordinator, producer_epoch=1))
    await coordinator.serves()
    assert await committed(broker, "group") == {0: 1}


async def test_a_log_that_lost_what_was_stored_is_found_out_by_who_asks_for_offsets(
    feed: StatedFeed, start: Start, connect: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_shard_log, "CONFIRM_PATIENCE_S", 0.1)
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    await broker.ask(0, 8, commit("group", 1))
    await broker.ask(0, 8, commit("group", 2))

    broker.logs[0].forget_last_batch()

    assert fetched(await broker.ask(0, 8, fetch("group")))[0] == "coordinator_load_in_progress"
    assert coordinator.sequences_lost == 1


async def test_a_leader_that_is_slow_to_show_what_it_has_is_asked_by_an_append(
    feed: StatedFeed, start: Start, connect: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_shard_log, "CONFIRM_PATIENCE_S", 0.1)
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"
    broker.unshown_offsets = 1

    assert fetched(await broker.ask(0, 8, fetch("group"))) == ("none", {0: 1})
    broker.unshown_offsets = 0
    assert commit_code(await broker.ask(0, 8, commit("group", 2))) == "none"
    assert fetched(await broker.ask(0, 8, fetch("group"))) == ("none", {0: 2})


async def test_requests_that_wait_are_refused_when_the_shard_goes(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    broker.appends.clear()
    asked = [broker.ask_later(0, 8, commit("group", number)) for number in range(5)]
    await eventually_async(lambda: broker.append_count == 2, "a commit is sent")

    assign(feed, _unassigned(coordinator))

    assert {commit_code(await one.response()) for one in asked} == {"not_coordinator"}
    assert coordinator.status() is None


async def test_a_log_that_lost_everything_calls_for_a_new_ownership(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"
    while broker.logs[0].batches:
        broker.logs[
            0
        ].forget_last_batch()  # with the last one the broker forgets the producer: any sequence may follow

    assert commit_code(await broker.ask(0, 8, commit("group", 2))) == "not_coordinator"
    assert coordinator.sequences_lost == 1


async def test_a_fence_that_the_log_has_lost_is_stored_anew(
    feed: StatedFeed, start: Start, connect: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_loading, "STALL_TIMEOUT_S", 0.2)
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    broker.reads.clear()
    assign(feed, shard_of(coordinator))
    await eventually_async(lambda: broker.read_offsets, "the shard is fenced and the log is read")
    broker.logs[0].forget_last_batch()
    broker.reads.set()

    await coordinator.serves()
    assert len(broker.logs[0].batches) == 1


async def test_shards_that_cannot_be_read_do_not_hold_up_others(
    feed: StatedFeed, start: Start, connect: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_loading, "STALL_TIMEOUT_S", 0.2)
    monkeypatch.setattr(coordinator_module, "LOADS_AT_ONCE", 1)
    coordinator: CoordinatorUnderTest = await start()
    stuck = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    await connect(FakeRelayBroker(2, BROKER_EPOCH), coordinator)
    set_leader(feed, 2, shard=1)
    stuck.reads.clear()
    assign(feed, shard_of(coordinator, 0))
    await eventually_async(lambda: stuck.read_offsets, "the shard is being read")

    assign(feed, shard_of(coordinator, 0), shard_of(coordinator, 1))
    await coordinator.serves(1)
    assert coordinator.status(0) == "loading"


async def test_a_registration_that_is_known_late_or_lost_decides_what_is_owned(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    shard = shard_of(coordinator)
    epoch = coordinator.place.epoch
    coordinator.place.lose()
    assign(feed, shard)
    assert coordinator.status() is None

    coordinator.place.epoch = epoch
    coordinator.coordinator.on_place_changed()
    await coordinator.serves()

    coordinator.place.lose()
    coordinator.coordinator.on_place_changed()
    assert coordinator.status() is None


async def test_a_stop_answers_what_is_stored_and_refuses_the_rest(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    broker.appends.clear()
    first = broker.ask_later(0, 8, commit("group", 1))
    await eventually_async(lambda: broker.append_count == 2, "the commit is sent")
    second = broker.ask_later(0, 8, commit("group", 2))
    listed = broker.ask_later(ALL_SHARDS, 4, ListGroupsRequest(states_filter=()))

    closing = coordinator.coordinator.close_shards()
    broker.appends.set()
    await closing

    assert commit_code(await first.response()) == "none"
    assert commit_code(await second.response()) == "not_coordinator"
    assert (await listed.response()).error_code is ErrorCode.none
    assert commit_code(await broker.ask(0, 8, commit("group", 3))) == "not_coordinator"
    assert len(broker.logs[0].records()) == 1


async def test_shards_of_two_topics_are_kept_apart(feed: StatedFeed, start: Start, connect: Start) -> None:
    """Each has its own log, led by whoever leads its topic's partition, its own rules, and its own requests."""
    other = replace(group_topic(1), name=TRANSACTION_TOPIC, id=UUID(int=77))
    feed.publish(topics={**feed.state.topics, other.name: other})
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator), shard_of(coordinator, topic=other.name, producer_epoch=5))
    await coordinator.serves(0)
    served = coordinator.coordinator.transaction_shards.get(TopicPartition(other.name, 0))
    assert served is not None
    await eventually_async(lambda: served.status.value == "serving", "the shard of the other topic is served")

    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"
    init = InitProducerIdRequest(transactional_id=TransactionalId("t"), transaction_timeout=timedelta(seconds=10))
    begun = await broker.ask(0, 4, init, topic=other.name, fresh_producer_id=7)
    assert (begun.error_code.name, begun.producer_id, begun.producer_epoch) == ("none", 7, 0)

    assert await committed(broker, "group") == {0: 1}
    assert (broker.logs[0].newest_epoch, broker.other_logs[other.name][0].newest_epoch) == (0, 5)
    assert commit_code(await broker.ask(1, 8, commit("group", 3))) == "not_coordinator"
    elsewhere = await broker.ask(1, 4, init, topic=other.name, fresh_producer_id=8)
    assert elsewhere.error_code is ErrorCode.not_coordinator
    strange = await broker.ask(0, 4, init)
    assert strange.error_code is ErrorCode.unsupported_version


async def test_groups_are_listed_over_all_shards(feed: StatedFeed, start: Start, connect: Start) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)

    async def listed() -> tuple[str, set[str]]:
        response = await broker.ask(ALL_SHARDS, 4, ListGroupsRequest(states_filter=()))
        return response.error_code.name, {group.group_id for group in response.groups}

    assert await listed() == ("none", set())
    assign(feed, *(shard_of(coordinator, index) for index in range(3)))
    await coordinator.serves(0, 1, 2)
    for index in range(3):
        await broker.ask(index, 8, commit(f"group-{index}", 1))
    assert await listed() == ("none", {"group-0", "group-1", "group-2"})

    broker.reads.clear()
    assign(feed, shard_of(coordinator, 3))
    assert await listed() == ("coordinator_load_in_progress", set())
    broker.reads.set()
    await coordinator.serves(3)
    assert await listed() == ("none", {"group-0", "group-1", "group-2"})


async def test_the_partition_is_found_at_its_new_leader(feed: StatedFeed, start: Start, connect: Start) -> None:
    coordinator: CoordinatorUnderTest = await start()
    first = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    second = await connect(FakeRelayBroker(2, BROKER_EPOCH, first.logs), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    first.appends.clear()  # a leader that has gone deaf
    asked = first.ask_later(0, 8, commit("group", 1))
    await eventually_async(lambda: first.append_count == 2, "the commit is sent")

    set_leader(feed, 2)

    assert commit_code(await asked.response()) == "none"
    assert second.append_count == 1
    assert len(first.logs[0].records()) == 1


def _unassigned(coordinator: CoordinatorUnderTest) -> Any:
    shard = shard_of(coordinator)
    return type(shard)(
        topic_partition=shard.topic_partition,
        coordinator=NO_COORDINATOR,
        coordinator_epoch=-1,
        producer_id=shard.producer_id,
        producer_epoch=shard.producer_epoch + 1,
    )
