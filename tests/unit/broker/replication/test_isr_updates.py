"""In-sync sets are asked for: together, again when nobody answers, and never twice at once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker.config import BrokerConfig
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_broker.replication import isr_updates
from ottla_broker.replication.isr_updates import IsrUpdates
from ottla_core.cluster.controller_rpc.controller_api import AlteredIsr, IsrChange
from ottla_core.cluster.state.model import ClusterState, Member, PartitionState, Role, Topic
from ottla_core.errors import RequestTimedOut
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.partition_logs import NOW_MS, batch_of, fail, open_log
from tests.support.eventually_async import eventually_async

BROKER = 1
BROKER_EPOCH = 71
FOLLOWER_EPOCHS = {2: 72, 3: 73}
LAG_MAX_MS = 100
FETCHES_MEANWHILE = 30
QUIET_S = 0.05
"""How long nothing may happen: several times what an update takes."""
TOPIC_ID = UUID(int=9)


def member(broker_id: int, *, shutting_down: bool = False) -> Member:
    return Member(
        role=Role.BROKER, id=broker_id, epoch=70 + broker_id, incarnation=UUID(int=broker_id), rpc_address="",
        version="1", shutting_down=shutting_down,
    )  # fmt: skip


class Feed:
    def __init__(self) -> None:
        self.state = ClusterState(brokers={number: member(number) for number in (1, 2, 3)})
        self.listeners: list[Callable[[ClusterState, ClusterState], None]] = []
        self.seen: asyncio.Queue[bool] | None = None  # whether a revision that is waited for comes in time

    def subscribe(self, listener: Callable[[ClusterState, ClusterState], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    async def wait_for_revision(self, revision: int, timeout_s: float) -> None:
        if self.seen is not None and not await self.seen.get():
            raise RequestTimedOut("the watch stalls")

    def publish(self, state: ClusterState) -> None:
        former, self.state = self.state, state
        for listener in self.listeners:
            listener(former, state)


@dataclass
class Registration:
    current: bool = True
    registered_epoch: int = BROKER_EPOCH

    def is_current(self) -> bool:
        return self.current


@dataclass
class Controller:
    """Notes requests and answers them when it is told to."""

    requests: list[list[IsrChange]] = field(default_factory=list)
    answers: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    revision: int = 100

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange], *, timeout_s: float
    ) -> tuple[list[AlteredIsr], int]:
        assert (broker_id, broker_epoch) == (BROKER, BROKER_EPOCH)
        self.requests.append(list(changes))
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return [AlteredIsr(topic_id=each.topic_id, index=each.index, error_code=answer) for each in changes], (
            self.revision
        )


class Leader:
    """A broker that leads some partitions of one topic, of which broker 2 is in sync and broker 3 is not."""

    def __init__(self, directory: Path, partitions: int) -> None:
        self.now_ms = 0
        self.given_again: list[set[str]] = []
        self.feed, self.registration, self.controller = Feed(), Registration(), Controller()
        self.context = ReplicationContext(BROKER, LAG_MAX_MS, lambda: self.now_ms)
        config = BrokerConfig.model_validate({"node.id": BROKER, "log.dirs": (directory,)})
        self.table = PartitionTable(config, self.feed, self.registration)  # type: ignore[arg-type]
        self.partitions = [self._open(directory, index) for index in range(partitions)]
        states = tuple(partition.state for partition in self.partitions)
        topic = Topic(name="t", id=TOPIC_ID, partitions=states)
        self.feed.state = replace(self.feed.state, topics={"t": topic}, topics_by_id={TOPIC_ID: topic})
        self.updates = IsrUpdates(
            context=self.context,
            partitions=self.table,
            feed=self.feed,  # type: ignore[arg-type]
            membership=self.registration,  # type: ignore[arg-type]
            controller=self.controller,
            reconciler=self,
        )

    def _open(self, directory: Path, index: int) -> Partition:
        state = PartitionState(
            topic_id=TOPIC_ID, index=index, replicas=(1, 2, 3), isr=(1, 2), leader=BROKER, leader_epoch=5,
            leader_broker_epoch=BROKER_EPOCH, partition_epoch=90,
        )  # fmt: skip
        name = TopicPartition("t", index)
        partition = Partition(name, open_log(directory / str(name)), self.context, state)
        partition.apply(state, leads=True)
        self.table.add(partition)
        return partition

    def give_roles(self) -> None:
        """Stands for the reconciler: what was accepted is in force."""
        for partition, change in zip(self.partitions, self.controller.requests[-1], strict=False):
            if self.accepts:
                isr = tuple(each.broker_id for each in change.isr)
                partition.apply(
                    replace(partition.state, isr=isr, partition_epoch=self.controller.revision), leads=True
                )

    def give_roles_again(self, topics: Collection[str]) -> None:
        self.given_again.append(set(topics))

    accepts = True

    def fetch(self, follower: int, partition: Partition | None = None) -> None:
        contact = FollowerContact(follower, FOLLOWER_EPOCHS[follower], self.now_ms)
        partition = partition or self.partitions[0]
        partition.record_follower_fetch(contact, offset=partition.log.log_end_offset, log_start_offset=0)

    async def request(self, number: int) -> list[IsrChange]:
        await eventually_async(lambda: len(self.controller.requests) > number, f"request {number} has come")
        return self.controller.requests[number]


@pytest.fixture
async def leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Leader]:
    monkeypatch.setattr(isr_updates, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(isr_updates, "UNREGISTERED_RETRY_SECONDS", 0.01)
    made = Leader(tmp_path, partitions=3)
    made.updates.start()
    yield made
    await made.updates.close()


def members(change: IsrChange) -> dict[int, int]:
    return {each.broker_id: each.broker_epoch for each in change.isr}


async def test_a_follower_that_has_caught_up_is_proposed_with_the_registration_it_fetches_under(
    leader: Leader,
) -> None:
    leader.fetch(2)
    leader.fetch(3)

    (change,) = await leader.request(0)

    assert members(change) == {1: BROKER_EPOCH, 2: 72, 3: 73}
    assert (change.topic_id, change.index, change.leader_epoch, change.partition_epoch) == (TOPIC_ID, 0, 5, 90)
    leader.controller.answers.put_nowait(ErrorCode.none)
    await eventually_async(lambda: leader.updates.expand_count == 1, "the set is larger")
    assert leader.partitions[0].state.isr == (1, 2, 3)


async def test_what_comes_while_a_request_is_under_way_goes_out_together_in_the_next(leader: Leader) -> None:
    leader.fetch(3)
    await leader.request(0)
    for partition in leader.partitions[1:]:
        leader.fetch(3, partition)
    await asyncio.sleep(0)
    assert len(leader.controller.requests) == 1

    leader.controller.answers.put_nowait(ErrorCode.none)
    assert {change.index for change in await leader.request(1)} == {1, 2}


async def test_a_proposal_that_nobody_answered_is_made_again_unchanged(leader: Leader) -> None:
    leader.fetch(3)
    first = await leader.request(0)

    leader.controller.answers.put_nowait(RequestTimedOut("no controller"))

    assert await leader.request(1) == first
    leader.controller.answers.put_nowait(ErrorCode.none)
    await eventually_async(lambda: leader.partitions[0].state.isr == (1, 2, 3), "it is in force")


async def test_a_proposal_is_made_again_after_an_unexpected_failure(leader: Leader) -> None:
    """A leader makes no other one before it knows what has become of it; the set would stay as it is."""
    leader.fetch(3)
    first = await leader.request(0)
    leader.controller.answers.put_nowait(RuntimeError("a defect"))
    assert await leader.request(1) == first
    leader.controller.answers.put_nowait(ErrorCode.none)
    await eventually_async(lambda: leader.partitions[0].state.isr == (1, 2, 3), "it is in force")


async def test_a_refused_proposal_is_thought_over_and_made_anew(leader: Leader) -> None:
    leader.fetch(3)
    await leader.request(0)
    leader.accepts = False

    leader.controller.answers.put_nowait(ErrorCode.ineligible_replica)

    assert members((await leader.request(1))[0]) == {1: BROKER_EPOCH, 2: -1, 3: 73}
    assert leader.updates.failed_count == 1


async def test_nobody_is_asked_while_the_registration_has_lapsed(leader: Leader) -> None:
    leader.registration.current = False
    leader.fetch(3)
    await asyncio.sleep(QUIET_S)  # how long nothing may happen
    assert leader.controller.requests == []

    leader.registration.current = True
    await leader.request(0)


async def test_a_follower_that_lags_is_found_without_a_fetch_of_its(leader: Leader) -> None:
    for partition in leader.partitions:
        leader.fetch(2, partition)
        partition.append(batch_of(b"v"), now_ms=NOW_MS, all_in_sync=False)

    leader.now_ms = LAG_MAX_MS + 1

    changes = await leader.request(0)
    assert {change.index for change in changes} == {0, 1, 2}
    assert all(members(change) == {1: BROKER_EPOCH} for change in changes)


async def test_a_broker_about_to_stop_is_not_proposed_and_is_when_it_is_back(leader: Leader) -> None:
    brokers = leader.feed.state.brokers
    leader.feed.publish(replace(leader.feed.state, brokers={**brokers, 3: member(3, shutting_down=True)}))
    leader.fetch(3)
    await asyncio.sleep(QUIET_S)  # how long nothing may happen
    assert leader.controller.requests == []

    leader.feed.publish(replace(leader.feed.state, brokers=brokers))
    assert members((await leader.request(0))[0]).keys() == {1, 2, 3}


async def test_a_lost_log_is_reported_until_the_controller_has_taken_note(leader: Leader) -> None:
    leader.accepts = False
    lost = leader.partitions[1]
    lost.apply(replace(lost.state, leader=2), leads=False)
    lost.has_lost_log = True
    tell = leader.context.on_lost_log
    assert tell is not None
    tell(lost)

    for number, answer in enumerate((RequestTimedOut("no controller"), ErrorCode.invalid_update_version)):
        (report,) = await leader.request(number)
        assert (report.index, report.lost_log, report.isr) == (1, True, ())
        assert (report.leader_epoch, report.partition_epoch) == (5, 90)
        leader.controller.answers.put_nowait(answer)
    await leader.request(2)
    assert lost.has_lost_log
    leader.controller.answers.put_nowait(ErrorCode.none)
    await eventually_async(lambda: leader.given_again[-1:] == [{"t"}] and not lost.has_lost_log, "it may take part")


async def test_a_replica_whose_log_is_lost_takes_no_part_before_it_sees_what_was_decided(leader: Leader) -> None:
    """The state that it sees may still name it as the leader, and an empty log must not lead by that."""
    leader.accepts = False
    leader.feed.seen = asyncio.Queue()
    lost = leader.partitions[1]
    lost.apply(lost.state, leads=False)
    lost.has_lost_log = True
    tell = leader.context.on_lost_log
    assert tell is not None
    tell(lost)

    for number, is_seen in enumerate((False, True)):
        await leader.request(number)
        leader.controller.answers.put_nowait(ErrorCode.none)
        await asyncio.sleep(QUIET_S)  # how long nothing may happen
        assert lost.has_lost_log
        assert not lost.loss_was_told
        leader.feed.seen.put_nowait(is_seen)
    await eventually_async(lambda: not lost.has_lost_log, "it may take part")
    assert lost.loss_was_told


async def test_a_loss_that_the_state_has_settled_meanwhile_is_not_reported(leader: Leader) -> None:
    lost = leader.partitions[1]
    tell = leader.context.on_lost_log
    assert tell is not None
    tell(lost)
    leader.fetch(3)
    (change,) = await leader.request(0)
    assert not change.lost_log


async def test_a_failed_log_is_reported_until_another_replica_has_taken_its_place(leader: Leader) -> None:
    leader.accepts = False
    failed = leader.partitions[1]
    fail(failed.log)
    for number, answer in enumerate(
        (RequestTimedOut("no controller"), ErrorCode.invalid_update_version, ErrorCode.none, ErrorCode.none)
    ):
        (report,) = await leader.request(number)
        assert (report.index, report.failed_log, report.lost_log, report.isr) == (1, True, False, ())
        assert (report.leader_epoch, report.partition_epoch) == (5, 90)
        leader.controller.answers.put_nowait(answer)
    await leader.request(4)
    failed.apply(replace(failed.state, isr=(2,), leader=2, partition_epoch=91), leads=False)
    leader.controller.answers.put_nowait(ErrorCode.none)
    leader.fetch(3)
    (change,) = await leader.request(5)
    assert (change.index, change.failed_log) == (0, False), "it counts for nothing any more"
    assert leader.given_again == [{"t"}]


async def test_a_failed_log_is_reported_as_soon_as_another_replica_could_take_its_place(leader: Leader) -> None:
    failed = leader.partitions[1]
    alone = replace(failed.state, isr=(1,), eligible_leaders=(2,))
    failed.apply(alone, leads=True)
    brokers = leader.feed.state.brokers
    leader.feed.publish(replace(leader.feed.state, brokers={1: brokers[1]}))
    fail(failed.log)
    await asyncio.sleep(QUIET_S)  # how long nothing may happen
    assert leader.controller.requests == []

    leader.feed.publish(replace(leader.feed.state, brokers=brokers))
    assert (await leader.request(0))[0].failed_log
    leader.controller.answers.put_nowait(RequestTimedOut("no controller"))

    failed.apply(replace(alone, eligible_leaders=(), partition_epoch=91), leads=True)
    leader.controller.answers.put_nowait(RequestTimedOut("no controller"))
    await asyncio.sleep(QUIET_S)  # a request that the answer causes is there by now, and counted
    count = len(leader.controller.requests)
    failed.apply(replace(alone, isr=(1, 3), eligible_leaders=(), partition_epoch=92), leads=True)
    assert (await leader.request(count))[0].partition_epoch == 92


async def test_a_failed_log_is_not_reported_while_the_registration_has_lapsed(leader: Leader) -> None:
    leader.registration.current = False
    fail(leader.partitions[0].log)
    await asyncio.sleep(QUIET_S)  # how long nothing may happen
    assert leader.controller.requests == []

    leader.registration.current = True
    assert (await leader.request(0))[0].failed_log


async def test_tries_do_not_multiply_while_the_registration_has_lapsed(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        isr_updates, "RETRY_SECONDS", 0.007
    )  # unlike the other pause, so that both do not end at once
    tries: list[None] = []

    def lapsed() -> bool:
        tries.append(None)
        return False

    monkeypatch.setattr(leader.registration, "is_current", lapsed)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    fail(leader.partitions[0].log)
    for _ in range(FETCHES_MEANWHILE):
        leader.fetch(3)
        await asyncio.sleep(0.005)  # so that the fetches are spread over several tries
    await asyncio.sleep(0.5)  # for seventy tries of one timer

    # Each try asks twice. One is due to each fetch, and beside them one timer at a time: a timer for each fetch would
    # try thousands of times.
    assert 2 < len(tries) / 2 <= 3 * ((loop.time() - began_s) / 0.007 + FETCHES_MEANWHILE)
