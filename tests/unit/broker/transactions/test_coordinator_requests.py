"""What coordinators are asked about partitions of transactions, and what comes of their answers."""

import asyncio
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from ottla_broker.groups.errors import NotCoordinator
from ottla_broker.transactions import coordinator_requests
from ottla_broker.transactions.coordinator_requests import CoordinatorRequests
from ottla_core.shards import transaction_shard_of
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.conversion import message_of
from ottla_core.wire.messages import message_codec
from tests.support.broker.fake_relay import Answering, Asked, FakeRelay, by_partition, partition_codes
from tests.support.broker.scripted_coordinator import ScriptedCoordinator
from tests.support.groups.group_cluster import group_state, with_transactions

STATE = with_transactions(group_state(ScriptedCoordinator(1).member()))
FLIGHTS, TRAINS = TopicPartition("flights", 3), TopicPartition("trains", 0)
NONE = ErrorCode.none


def setting(
    answering: Answering, timeout_s: float = 10.0, state: Any = STATE
) -> tuple[CoordinatorRequests, FakeRelay]:
    relay = FakeRelay(answering)
    return CoordinatorRequests(relay, lambda: state, "broker-1", timeout_s), relay  # type: ignore[arg-type]


async def test_a_question_says_whose_transaction_it_is_and_whether_partitions_are_to_be_added() -> None:
    requests, relay = setting(partition_codes(NONE))

    for adds in (True, False):
        assert await requests.errors_of("transfer", 7, 2, (FLIGHTS, TRAINS), adds=adds) == {}

    assert [each.shard for each in relay.asked] == [transaction_shard_of("transfer", 2)] * 2
    for asked, adds in zip(relay.asked, (True, False), strict=True):
        (transaction,) = asked.message.transactions
        assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == (
            "transfer",
            7,
            2,
        )
        assert transaction.verify_only is not adds
        assert {each.name: each.partitions for each in transaction.topics} == {"flights": (3,), "trains": (0,)}


async def test_errors_are_told_by_partition() -> None:
    code_of = {FLIGHTS: NONE, TRAINS: ErrorCode.transaction_abortable}
    requests, _ = setting(by_partition(code_of.__getitem__))
    errors = await requests.errors_of("transfer", 7, 2, (FLIGHTS, TRAINS), adds=False)
    assert errors == {TRAINS: ErrorCode.transaction_abortable}


async def test_what_comes_together_goes_on_together_and_each_id_once() -> None:
    requests, relay = setting(partition_codes(NONE))
    same_shard = [name for name in map(str, range(50)) if transaction_shard_of(name, 2).partition == 0][:3]
    asked = [requests.errors_of(name, 7, 0, (FLIGHTS,), adds=True) for name in (*same_shard, same_shard[0])]

    await asyncio.gather(*asked)

    assert [[each.transactional_id for each in asked.message.transactions] for asked in relay.asked] == [
        same_shard,
        [same_shard[0]],
    ]


async def test_what_an_answer_leaves_out_counts_as_not_asked() -> None:
    def forgetful(asked: Asked) -> Any:
        return message_of(message_codec(asked.api_key, asked.version).response_type)

    requests, _ = setting(forgetful)
    assert await requests.errors_of("transfer", 7, 2, (FLIGHTS,), adds=False) == {
        FLIGHTS: ErrorCode.network_exception
    }

    def partial(asked: Asked) -> Any:
        whole = partition_codes(NONE)(asked)
        (result,) = whole.results_by_transaction
        return replace(whole, results_by_transaction=(replace(result, topic_results=result.topic_results[:1]),))

    requests, _ = setting(partial)
    errors = await requests.errors_of("transfer", 7, 2, (FLIGHTS, TRAINS), adds=False)
    assert errors == {TRAINS: ErrorCode.network_exception}


async def test_a_coordinator_that_cannot_be_reached_or_is_silent_confirms_nothing() -> None:
    requests, _ = setting(lambda _: NotCoordinator("the stream broke"))
    assert await requests.errors_of("t", 7, 2, (FLIGHTS,), adds=False) == {FLIGHTS: ErrorCode.not_coordinator}
    requests, _ = setting(lambda _: None, timeout_s=0.01)
    assert await requests.errors_of("t", 7, 2, (FLIGHTS,), adds=False) == {FLIGHTS: ErrorCode.network_exception}
    requests, relay = setting(partition_codes(NONE), state=group_state())
    errors = await requests.errors_of("t", 7, 2, (FLIGHTS,), adds=False)
    assert errors == {FLIGHTS: ErrorCode.transactional_id_authorization_failed}
    assert relay.asked == []


async def test_no_more_questions_wait_than_there_is_room_for(monkeypatch: Any) -> None:
    monkeypatch.setattr(coordinator_requests, "WAITING_MAX", 2)
    requests, _ = setting(lambda _: None)
    waiting = [asyncio.create_task(requests.errors_of(str(n), 7, 0, (FLIGHTS,), adds=True)) for n in range(2)]
    await asyncio.sleep(0)

    errors = await requests.errors_of("one more", 7, 0, (FLIGHTS,), adds=True)

    assert errors == {FLIGHTS: ErrorCode.not_coordinator}
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert requests._waiting_count == 0
