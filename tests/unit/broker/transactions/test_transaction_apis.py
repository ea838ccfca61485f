"""The APIs of transactions as clients see them: what goes on to which coordinator, and what is refused before."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker
from ottla_broker.groups.errors import NotCoordinator, VerificationNeeded
from ottla_broker.groups.routing import broker_for
from ottla_broker.handlers import txn_offset_commit
from ottla_broker.partition_table import PartitionTable
from ottla_broker.transactions.coordinator_requests import CoordinatorRequests
from ottla_core.acls import AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.cluster.state.model import ClusterState, Topic
from ottla_core.errors import RequestTimedOut
from ottla_core.shards import shard_of, transaction_shard_of
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.messages import message_codec
from tests.support.broker.access_lists import authorization_by
from tests.support.broker.broker_parts import ask, broker_of
from tests.support.broker.fake_relay import Answering, Asked, FakeRelay, by_partition, partition_codes, refusing
from tests.support.broker.scripted_coordinator import ScriptedCoordinator
from tests.support.clients.right_probes import made
from tests.support.groups.group_cluster import StatedFeed, group_state, with_transactions

FLIGHTS = UUID(int=5)
ID, GROUP = "transfer", "shop"
PRODUCER = {"producer_id": 7, "producer_epoch": 2}
NONE = ErrorCode.none
DENIED = ErrorCode.transactional_id_authorization_failed
UNKNOWN, NOT_ATTEMPTED = ErrorCode.unknown_topic_or_partition, ErrorCode.operation_not_attempted
FRESH = 1000


class Ids:
    """Gives producer ids, or an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.next = FRESH

    async def take(self, _timeout_s: float) -> int:
        if self.error is not None:
            raise self.error
        self.next += 1
        return self.next - 1


def state_of(brokers: Sequence[int] = (1,)) -> ClusterState:
    """A cluster with transactions and a topic of two partitions."""
    state = with_transactions(group_state(ScriptedCoordinator(1).member(), brokers=brokers))
    partitions = tuple(replace(each, topic_id=FLIGHTS) for each in state.topics["__transaction_state"].partitions)
    topic = Topic(name="flights", id=FLIGHTS, partitions=partitions)
    return replace(
        state, topics={**state.topics, topic.name: topic}, topics_by_id={**state.topics_by_id, FLIGHTS: topic}
    )


def setting(answering: Answering, state: ClusterState | None = None, **parts: Any) -> tuple[Broker, FakeRelay]:
    relay, feed = FakeRelay(answering), StatedFeed(state or state_of())
    coordinators = CoordinatorRequests(relay, lambda: feed.state, "b", 10)  # type: ignore[arg-type]
    partitions = PartitionTable(broker_of(feed).config, feed, None)  # type: ignore[arg-type]  # which has none
    own = {
        "groups": relay,
        "transaction_coordinators": coordinators,
        "producer_ids": Ids(),
        "partitions": partitions,
    }
    return broker_of(feed, **{**own, **parts}), relay


def request(api_key: int, version: int, **values: Any) -> Any:
    return made(load_request_schema(api_key, version), values)


def init(version: int = 4, transactional_id: str | None = ID, **values: Any) -> Any:
    return request(
        22, version, transactional_id=transactional_id, **{"producer_id": -1, "producer_epoch": -1, **values}
    )


def add_partitions(*topics: tuple[str, tuple[int, ...]], version: int = 3) -> Any:
    return request(
        24,
        version,
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=2,
        v3_and_below_topics=[{"name": name, "partitions": indexes} for name, indexes in topics],
    )


def end_txn(version: int = 4, epoch: int = 2) -> Any:
    return request(26, version, transactional_id=ID, producer_id=7, producer_epoch=epoch, committed=True)


def commit(*topics: tuple[str, tuple[int, ...]], version: int = 3) -> Any:
    return request(
        28,
        version,
        transactional_id=ID,
        group_id=GROUP,
        **PRODUCER,
        **({"generation_id": -1} if version >= 3 else {}),
        topics=[
            {
                "name": name,
                "partitions": [
                    {"partition_index": index, "committed_offset": 5, "committed_metadata": ""} for index in indexes
                ],
            }
            for name, indexes in topics
        ],
    )


REQUESTS = {
    "InitProducerId": init(),
    "AddPartitionsToTxn": add_partitions(("flights", (0,))),
    "AddOffsetsToTxn": request(25, 3, transactional_id=ID, **PRODUCER, group_id=GROUP),
    "EndTxn": end_txn(),
    "TxnOffsetCommit": commit(("flights", (0,))),
    "DescribeTransactions": request(65, 0, transactional_ids=(ID,)),
}


def codes_in(message: Any) -> list[ErrorCode]:
    """All errors in a response."""
    if not hasattr(message, "__dataclass_fields__"):
        return []
    found = []
    for name in message.__dataclass_fields__:
        value = getattr(message, name)
        if name in {"error_code", "partition_error_code"}:
            found.append(value)
        for each in value if isinstance(value, tuple) else ():
            found += codes_in(each)
    return found


@pytest.mark.parametrize("name", REQUESTS)
async def test_requests_go_on_to_the_owner_of_their_shard_and_the_answer_comes_back(name: str) -> None:
    broker, relay = setting(refusing(ErrorCode.invalid_txn_state))

    answer = await ask(broker, REQUESTS[name])

    (asked,) = relay.asked
    assert asked.shard == (shard_of(GROUP, 4) if name == "TxnOffsetCommit" else transaction_shard_of(ID, 2))
    assert asked.message == REQUESTS[name]
    assert set(codes_in(answer)) == {ErrorCode.invalid_txn_state}


@pytest.mark.parametrize("name", REQUESTS)
async def test_below_the_level_of_transactions_clients_are_told_to_give_up(name: str) -> None:
    state = replace(state_of(), features=group_state().features)
    broker, relay = setting(refusing(NONE), state)
    assert set(codes_in(await ask(broker, REQUESTS[name]))) == {DENIED}
    assert relay.asked == []


@pytest.mark.parametrize("name", REQUESTS)
async def test_without_an_owner_clients_look_for_the_coordinator_again(name: str) -> None:
    broker, _ = setting(lambda _: NotCoordinator("nobody owns it"))
    assert set(codes_in(await ask(broker, REQUESTS[name]))) == {ErrorCode.not_coordinator}


# InitProducerId and EndTxn


async def test_a_fresh_producer_id_goes_along_where_the_coordinator_may_need_one() -> None:
    broker, relay = setting(refusing(NONE))
    await ask(broker, init())
    await ask(broker, end_txn(epoch=32_764))
    await ask(broker, end_txn(epoch=32_765))
    assert [each.fresh_producer_id for each in relay.asked] == [FRESH, None, FRESH + 1]


async def test_while_there_are_no_producer_ids_clients_come_again() -> None:
    broker, relay = setting(refusing(NONE), producer_ids=Ids(RequestTimedOut("no controller")))
    for each in (init(), init(transactional_id=None), end_txn(epoch=32_766)):
        assert (await ask(broker, each)).error_code is ErrorCode.coordinator_load_in_progress
    assert relay.asked == []


@pytest.mark.parametrize("transactional_id", [ID, None])
async def test_a_producer_names_its_id_with_its_epoch(transactional_id: str | None) -> None:
    broker, relay = setting(refusing(NONE))
    for known in ({"producer_id": 7}, {"producer_epoch": 0}):
        answer = await ask(broker, init(transactional_id=transactional_id, **known))
        assert answer.error_code is ErrorCode.invalid_request
    assert relay.asked == []


# AddPartitionsToTxn


async def test_all_partitions_are_added_or_none() -> None:
    broker, relay = setting(refusing(NONE))
    answer = await ask(broker, add_partitions(("flights", (0, 2)), ("trains", (0,))))
    told = {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }
    assert told == {("flights", 0): NOT_ATTEMPTED, ("flights", 2): UNKNOWN, ("trains", 0): UNKNOWN}
    assert relay.asked == []


async def test_the_topic_of_transactions_is_no_part_of_one() -> None:
    broker, relay = setting(partition_codes(NONE))
    topics = tuple({"name": name, "partitions": (0,)} for name in ("__transaction_state", "__consumer_offsets"))
    answer = await ask(broker, request(24, 5, transactions=[{"transactional_id": ID, **PRODUCER, "topics": topics}]))
    assert codes_in(answer) == [NONE, ErrorCode.topic_authorization_failed, NOT_ATTEMPTED]
    assert relay.asked == []


async def test_a_topic_that_follows_another_cluster_is_not_added() -> None:
    state = state_of()
    flights = state.topics["flights"]
    first, second = flights.partitions
    linked = replace(flights, partitions=(replace(first, link=UUID(int=9)), second))
    broker, relay = setting(refusing(NONE), replace(state, topics={**state.topics, "flights": linked}))
    answer = await ask(broker, add_partitions(("flights", (0, 1))))
    assert codes_in(answer) == [ErrorCode.policy_violation, NOT_ATTEMPTED]
    assert relay.asked == []


async def test_questions_of_brokers_about_several_transactions_go_to_each_ones_coordinator() -> None:
    broker, relay = setting(partition_codes(ErrorCode.transaction_abortable))
    topics = ({"name": "flights", "partitions": (0, 1)},)
    transactions = [
        {"transactional_id": name, **PRODUCER, "verify_only": True, "topics": topics} for name in ("a", "b")
    ] + [{"transactional_id": "c", **PRODUCER, "topics": ({"name": "trains", "partitions": (0,)},)}]
    answer = await ask(broker, request(24, 5, transactions=transactions))

    assert [each.transactional_id for each in answer.results_by_transaction] == ["a", "b", "c"]
    assert codes_in(answer) == [NONE, *[ErrorCode.transaction_abortable] * 4, UNKNOWN]
    assert [each.shard for each in relay.asked] == [transaction_shard_of(name, 2) for name in ("a", "b")]


# TxnOffsetCommit


class GroupShard:
    """A group's shard that wants so many guards before it takes offsets, and a coordinator of transactions."""

    def __init__(self, guards: int, verified: ErrorCode = NONE) -> None:
        self.guards = guards
        self.seen: list[int | None] = []
        self.verifications: list[Any] = []
        self._verified = partition_codes(verified)

    def __call__(self, asked: Asked) -> Any:
        if asked.api_key == 24:
            self.verifications.append(asked.message.transactions[0])
            return self._verified(asked)
        self.seen.append(asked.verification_guard)
        if len(self.seen) <= self.guards:
            return VerificationNeeded(len(self.seen))
        return refusing(NONE)(asked)


@pytest.mark.parametrize(("version", "verifies_only"), [(0, True), (3, True), (4, True), (5, False)])
async def test_a_shard_takes_offsets_when_the_transactions_coordinator_knows_it(
    version: int, verifies_only: bool
) -> None:
    shard = GroupShard(guards=1)
    broker, _ = setting(shard)
    answer = await ask(broker, commit(("flights", (0,)), version=version))

    assert codes_in(answer) == [NONE]
    assert shard.seen == [None, 1]
    (verified,) = shard.verifications
    assert verified.verify_only is verifies_only
    assert [(each.name, each.partitions) for each in verified.topics] == [
        ("__consumer_offsets", (shard_of(GROUP, 4).partition,))
    ]


async def test_a_guard_that_became_void_is_replaced_so_often_and_no_more() -> None:
    shard = GroupShard(guards=txn_offset_commit.TRIES_MAX)
    assert codes_in(await ask(setting(shard)[0], commit(("flights", (0,))))) == [NONE]
    shard = GroupShard(guards=txn_offset_commit.TRIES_MAX + 1)
    answer = await ask(setting(shard)[0], commit(("flights", (0,))))
    assert codes_in(answer) == [ErrorCode.coordinator_load_in_progress]
    assert shard.seen == [None, 1, 2, 3]


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (ErrorCode.invalid_txn_state, 3, ErrorCode.invalid_txn_state),
        (ErrorCode.transaction_abortable, 3, ErrorCode.invalid_txn_state),
        (ErrorCode.transaction_abortable, 4, ErrorCode.transaction_abortable),
        (ErrorCode.producer_fenced, 5, ErrorCode.invalid_producer_epoch),
        (ErrorCode.not_coordinator, 5, ErrorCode.coordinator_load_in_progress),
        (ErrorCode.network_exception, 1, ErrorCode.coordinator_not_available),
        (ErrorCode.concurrent_transactions, 3, ErrorCode.coordinator_load_in_progress),
        (ErrorCode.concurrent_transactions, 5, ErrorCode.concurrent_transactions),
    ],
)
async def test_no_offset_is_kept_for_a_transaction_that_does_not_have_the_shard(
    code: ErrorCode, version: int, told: ErrorCode
) -> None:
    shard = GroupShard(guards=1, verified=code)
    answer = await ask(setting(shard)[0], commit(("flights", (0,)), version=version))
    assert codes_in(answer) == [told]
    assert shard.seen == [None]


async def test_offsets_of_partitions_that_are_not_there_are_refused_alone() -> None:
    shard = GroupShard(guards=0)
    broker, relay = setting(shard)
    answer = await ask(broker, commit(("flights", (0, 9)), ("trains", (0,))))
    told = {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}
    assert told == {("flights", 0): NONE, ("flights", 9): UNKNOWN, ("trains", 0): UNKNOWN}
    assert [(each.name, len(each.partitions)) for each in relay.asked[0].message.topics] == [("flights", 1)]

    answer = await ask(broker, commit(("trains", (0,))))
    assert codes_in(answer) == [UNKNOWN]
    assert len(relay.asked) == 1


# Listing and describing


def described(asked: Asked) -> Any:
    response = message_codec(65, 0).response_type
    state_type = item_type(response, "transaction_states")
    topic_type = item_type(state_type, "topics")
    topics = tuple(message_of(topic_type, topic=name, partitions=(0,)) for name in ("flights", "hidden"))
    return message_of(
        response,
        transaction_states=tuple(
            message_of(
                state_type,
                transactional_id=each,
                transaction_start_time=datetime.fromtimestamp(0, UTC),
                topics=topics,
            )
            for each in asked.message.transactional_ids
        ),
    )


def listed(asked: Asked) -> Any:
    response = message_codec(66, asked.version).response_type
    state_type = item_type(response, "transaction_states")
    states = tuple(message_of(state_type, transactional_id=name) for name in NAMES)
    return message_of(response, transaction_states=states, unknown_state_filters=("Odd",))


NAMES = tuple(f"transfer-{number}" for number in range(12))


async def test_each_transactional_id_is_described_by_its_own_coordinator() -> None:
    broker, relay = setting(described)
    answer = await ask(broker, request(65, 0, transactional_ids=NAMES))
    assert [each.transactional_id for each in answer.transaction_states] == [*NAMES]
    assert {each.shard.partition for each in relay.asked} == {0, 1}


async def test_each_transactional_id_is_listed_by_one_broker() -> None:
    broker, relay = setting(listed, state_of(brokers=(1, 2)))
    answer = await ask(broker, request(66, 1))
    assert [each.transactional_id for each in answer.transaction_states] == [
        name for name in NAMES if broker_for(name, [1, 2]) == 1
    ]
    assert answer.unknown_state_filters == ("Odd",)
    assert [each.shard for each in relay.asked] == [TopicPartition("__transaction_state", -1)]


async def test_before_there_is_a_transaction_the_list_is_empty() -> None:
    state = state_of()
    topics = {name: each for name, each in state.topics.items() if name != "__transaction_state"}
    broker, relay = setting(listed, replace(state, topics=topics))
    assert (await ask(broker, request(66, 1))).transaction_states == ()
    assert relay.asked == []


# Rights


def allowed(kind: ResourceKind, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        kind=kind,
        pattern=PatternType.LITERAL,
        name=name,
        principal="User:ANONYMOUS",
        host="*",
        operation=operation,
        permission=Permission.ALLOW,
    )


WRITES = allowed(ResourceKind.TRANSACTIONAL_ID, ID, AclOperation.WRITE)
DESCRIBES = allowed(ResourceKind.TRANSACTIONAL_ID, ID, AclOperation.DESCRIBE)
IN_GROUP = allowed(ResourceKind.GROUP, GROUP, AclOperation.READ)
READS = allowed(ResourceKind.TOPIC, "flights", AclOperation.READ)


@pytest.mark.parametrize(
    ("name", "rights", "code"),
    [
        ("InitProducerId", [], DENIED),
        ("AddPartitionsToTxn", [], DENIED),
        ("AddPartitionsToTxn", [WRITES], ErrorCode.topic_authorization_failed),
        ("AddOffsetsToTxn", [IN_GROUP], DENIED),
        ("AddOffsetsToTxn", [WRITES], ErrorCode.group_authorization_failed),
        ("EndTxn", [DESCRIBES], DENIED),
        ("TxnOffsetCommit", [IN_GROUP, READS], DENIED),
        ("TxnOffsetCommit", [WRITES, READS], ErrorCode.group_authorization_failed),
        ("TxnOffsetCommit", [WRITES, IN_GROUP], ErrorCode.topic_authorization_failed),
        ("DescribeTransactions", [], DENIED),
    ],
)
async def test_what_a_client_may_not_do_reaches_no_coordinator(
    name: str, rights: list[AclBinding], code: ErrorCode
) -> None:
    broker, relay = setting(refusing(NONE), authorization=authorization_by(rights))
    assert set(codes_in(await ask(broker, REQUESTS[name]))) == {code}
    assert relay.asked == []


async def test_questions_of_brokers_are_taken_from_brokers_only() -> None:
    topics = ({"name": "flights", "partitions": (0,)},)
    question = request(24, 5, transactions=({"transactional_id": ID, **PRODUCER, "topics": topics},))
    broker, relay = setting(by_partition(lambda _: NONE), authorization=authorization_by([WRITES, READS]))
    assert (await ask(broker, question)).error_code is ErrorCode.cluster_authorization_failed
    assert relay.asked == []


async def test_to_prepare_commits_for_others_takes_a_right_of_its_own() -> None:
    two_phases = allowed(ResourceKind.TRANSACTIONAL_ID, ID, AclOperation.TWO_PHASE_COMMIT)
    for rights, code in (([WRITES], DENIED), ([WRITES, two_phases], NONE)):
        broker, _ = setting(refusing(NONE), authorization=authorization_by(rights))
        assert (await ask(broker, init(version=6, enable2_pc=True))).error_code is code


async def test_lists_and_descriptions_have_only_what_a_client_may_see() -> None:
    may_see = [allowed(ResourceKind.TRANSACTIONAL_ID, NAMES[3], AclOperation.DESCRIBE), READS]
    broker, _ = setting(listed, authorization=authorization_by(may_see))
    answer = await ask(broker, request(66, 1))
    assert [each.transactional_id for each in answer.transaction_states] == [NAMES[3]]

    broker, _ = setting(described, authorization=authorization_by(may_see))
    answer = await ask(broker, request(65, 0, transactional_ids=NAMES[2:4]))
    states = {each.transactional_id: each for each in answer.transaction_states}
    assert {name: each.error_code for name, each in states.items()} == {NAMES[2]: DENIED, NAMES[3]: NONE}
    assert [each.topic for each in states[NAMES[3]].topics] == ["flights"]
