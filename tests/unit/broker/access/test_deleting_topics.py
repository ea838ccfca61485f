"""Deletions of topics: what reaches the controller is what the client's right was asked by, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest as ByNameRequest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32Timedelta

from ottla_broker.authorization import Authorization
from ottla_core.acls import CLUSTER_NAME, AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.cluster.controller_rpc.controller_api import DeletedTopic, TopicReference
from ottla_core.cluster.controller_rpc.controller_messages import TOPIC_REFERENCE
from ottla_core.cluster.state.model import ClusterState, Topic
from ottla_core.principal import Principal
from tests.support.broker.access_lists import authorization_by
from tests.support.broker.broker_parts import Client, ask, broker_of

MALLORY = Principal("User", "mallory")
MINE, VICTIM, UNSEEN = UUID(int=1), UUID(int=2), UUID(int=3)
TIMEOUT = i32Timedelta.parse(timedelta(seconds=1))
DENIED = ErrorCode.topic_authorization_failed
TOPICS = [Topic(name="mine", id=MINE, partitions=()), Topic(name="victim", id=VICTIM, partitions=())]
STATE = ClusterState(topics={each.name: each for each in TOPICS}, topics_by_id={each.id: each for each in TOPICS})


def allowed(operation: AclOperation, name: str, kind: ResourceKind = ResourceKind.TOPIC) -> AclBinding:
    return AclBinding(
        kind=kind,
        pattern=PatternType.LITERAL,
        name=name,
        principal=str(MALLORY),
        host="*",
        operation=operation,
        permission=Permission.ALLOW,
    )


@dataclass
class Controller:
    """Notes what it is to delete, as it arrives on its side."""

    deleted: list[TopicReference] = field(default_factory=list)
    times_asked: int = 0

    async def delete_topics(self, topics: Sequence[TopicReference], *, timeout_s: float) -> list[DeletedTopic]:
        assert timeout_s == 1
        self.times_asked += 1
        self.deleted += TOPIC_REFERENCE.from_messages(TOPIC_REFERENCE.to_messages(topics))
        return [DeletedTopic(name=topic.name, topic_id=topic.topic_id or UUID(int=0)) for topic in topics]


class Reconciler:
    async def wait_reached(self, _revision: int, _timeout_s: float) -> None:
        pass


async def deletions(
    request: Any, *acls: AclBinding, has_authorizer: bool = True
) -> tuple[list[TopicReference], set[tuple[str | None, UUID | None, ErrorCode]]]:
    """Return what reaches the controller, and what the client is told."""
    controller = Controller()
    broker = broker_of(
        SimpleNamespace(state=STATE),
        controller=controller,
        reconciler=Reconciler(),
        authorization=authorization_by(acls) if has_authorizer else Authorization(),
    )
    response = await ask(broker, request, client=Client(principal=MALLORY))
    told = [(each.name, getattr(each, "topic_id", None), each.error_code) for each in response.responses]
    assert len(told) == len(set(told))
    assert controller.times_asked == bool(controller.deleted), "who may delete nothing costs the controller nothing"
    return controller.deleted, set(told)


def request_of(*topics: tuple[str | None, UUID | None]) -> DeleteTopicsRequest:
    states = tuple(
        DeleteTopicState(name=None if name is None else TopicName(name), topic_id=topic_id)
        for name, topic_id in topics
    )
    return DeleteTopicsRequest(topics=states, timeout=TIMEOUT)


@pytest.mark.parametrize("has_authorizer", [True, False])
@pytest.mark.parametrize("name", ["mine", "nowhere", "victim"])
async def test_an_id_beside_a_name_deletes_nothing(name: str, has_authorizer: bool) -> None:
    rights = [allowed(AclOperation.DELETE, "mine"), allowed(AclOperation.DESCRIBE, "nowhere")]
    deleted, told = await deletions(request_of((name, VICTIM)), *rights, has_authorizer=has_authorizer)
    assert (deleted, told) == ([], {(name, VICTIM, ErrorCode.invalid_request)})


async def test_what_names_no_topic_or_one_twice_deletes_nothing() -> None:
    rights = [allowed(AclOperation.DELETE, CLUSTER_NAME, ResourceKind.CLUSTER)]
    request = request_of((None, None), ("mine", None), ("mine", None), (None, VICTIM), (None, VICTIM))
    deleted, told = await deletions(request, *rights)
    assert deleted == []
    assert told == {
        (name, topic_id, ErrorCode.invalid_request)
        for name, topic_id in ((None, None), ("mine", None), (None, VICTIM))
    }
    deleted, told = await deletions(request_of(("mine", None), (None, MINE), ("victim", None)), *rights)
    assert deleted == [TopicReference(name="victim")]
    assert {code for name, _, code in told if name != "victim"} == {ErrorCode.invalid_request}


async def test_a_topic_that_only_the_controller_sees_is_not_deleted_for_a_right_to_describe_it() -> None:
    """The broker's view may be behind; the controller asks nobody."""
    rights = [allowed(AclOperation.DESCRIBE, "new"), allowed(AclOperation.DELETE, "mine")]
    deleted, told = await deletions(request_of(("new", None), (None, UNSEEN), ("hidden", None)), *rights)
    assert deleted == []
    assert told == {
        ("new", None, ErrorCode.unknown_topic_or_partition),
        (None, UNSEEN, ErrorCode.unknown_topic_id),
        ("hidden", None, DENIED),
    }


async def test_who_may_delete_a_name_may_delete_what_this_broker_does_not_see_yet() -> None:
    request = ByNameRequest(topic_names=(TopicName("new"), TopicName("victim")), timeout=TIMEOUT)
    deleted, told = await deletions(request, allowed(AclOperation.DELETE, "new"))
    assert deleted == [TopicReference(name="new")]
    assert told == {("new", None, ErrorCode.none), ("victim", None, DENIED)}


async def test_an_id_is_deleted_by_a_right_on_its_topic_and_its_name_told_by_a_right_to_see_it() -> None:
    rights = [allowed(AclOperation.DELETE, "mine")]
    deleted, told = await deletions(request_of((None, MINE), (None, VICTIM)), *rights)
    assert deleted == [TopicReference(topic_id=MINE)]
    assert told == {(None, MINE, ErrorCode.none), (None, VICTIM, DENIED)}
    _, told = await deletions(request_of((None, VICTIM)), allowed(AclOperation.DESCRIBE, "victim"))
    assert told == {("victim", VICTIM, DENIED)}


async def test_who_may_delete_in_the_whole_cluster_is_answered_by_the_controller() -> None:
    rights = [allowed(AclOperation.DELETE, CLUSTER_NAME, ResourceKind.CLUSTER)]
    deleted, _ = await deletions(request_of(("new", None), (None, UNSEEN)), *rights)
    assert deleted == [TopicReference(name="new"), TopicReference(topic_id=UNSEEN)]
