"""A client that says it is a broker, and may not replicate, gets no session of a broker's."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v15.request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kio.schema.types import BrokerId
from kio.static.primitive import i32, i32Timedelta, i64

from ottla_broker.broker import Broker
from ottla_broker.fetch_sessions import FetchSessionCache
from ottla_core.acls import CLUSTER_NAME, AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import UnknownTopicId
from ottla_core.principal import Principal
from ottla_core.throttle_config import UNLIMITED
from tests.support.broker.access_lists import authorization_by
from tests.support.broker.broker_parts import Client, ask, broker_of

SESSION_ID = 77
BROKERS = Principal("User", "brokers")
MALLORY = Principal("User", "mallory")
RIGHT = AclBinding(
    kind=ResourceKind.CLUSTER,
    pattern=PatternType.LITERAL,
    name=CLUSTER_NAME,
    principal=str(BROKERS),
    host="*",
    operation=AclOperation.CLUSTER_ACTION,
    permission=Permission.ALLOW,
)


class NoPartitions:
    def leader_of(self, *_: Any) -> Any:
        raise UnknownTopicId("there is none")

    replica_of = readable_replica = leader_of


def request_of(epoch: int, session_id: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=i32(0), fetch_offset=i64(0), partition_max_bytes=i32(1))
    return FetchRequest(
        replica_state=ReplicaState(replica_id=BrokerId(2), replica_epoch=i64(1 << 40)),
        max_wait=i32Timedelta.parse(timedelta(0)),
        min_bytes=i32(1),
        session_id=i32(session_id),
        session_epoch=i32(epoch),
        topics=(FetchTopic(topic_id=UUID(int=7), partitions=(wanted,)),),
        forgotten_topics_data=(),
    )


def guarded(sessions: FetchSessionCache) -> Broker:
    """A broker where `BROKERS` may replicate and nobody else may do anything."""
    return broker_of(
        SimpleNamespace(state=ClusterState()),
        fetch_sessions=sessions,
        partitions=NoPartitions(),
        fetchers=SimpleNamespace(throttles=SimpleNamespace(leader=SimpleNamespace(rate=UNLIMITED))),
        authorization=authorization_by([RIGHT]),
    )


@pytest.mark.parametrize("may_replicate", [True, False])
async def test_only_who_may_replicate_gets_a_session_as_a_broker(may_replicate: bool) -> None:
    sessions = FetchSessionCache(10, lambda: SESSION_ID)
    broker = guarded(sessions)
    client = Client(principal=BROKERS if may_replicate else MALLORY)
    answer = await ask(broker, request_of(0), client=client)
    (topic,) = answer.responses
    refused = ErrorCode.unknown_topic_id if may_replicate else ErrorCode.topic_authorization_failed
    assert topic.partitions[0].error_code is refused
    assert (answer.session_id, len(sessions)) == ((SESSION_ID, 1) if may_replicate else (0, 0))


async def test_a_brokers_session_is_not_gone_on_with_by_who_may_not_replicate() -> None:
    sessions = FetchSessionCache(10, lambda: SESSION_ID)
    broker = guarded(sessions)
    await ask(broker, request_of(0), client=Client(principal=BROKERS))
    answer = await ask(broker, request_of(1, SESSION_ID), client=Client(principal=MALLORY))
    assert answer.error_code is ErrorCode.fetch_session_id_not_found
    assert (
        await ask(broker, request_of(1, SESSION_ID), client=Client(principal=BROKERS))
    ).error_code is ErrorCode.none
