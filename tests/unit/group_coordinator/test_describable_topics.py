"""What clients may describe is asked of the broker that they have come to, once for each version of their rights."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla_group_coordinator import describable_topics
from ottla_group_coordinator.describable_topics import CLIENTS_MAX, Asker, DescribableTopics, RightsUnknown
from ottla_proto.gen.ottla import group_relay_pb2 as pb

ANN = Asker(1, 7, "User", "ann", "/10.0.0.7")
FLIGHTS, BOTH = frozenset({"flights"}), frozenset({"fares", "flights"})


class Broker:
    """Answers at once, or never."""

    def __init__(self, *describable: str, answers: bool = True) -> None:
        self.broker_id = 1
        self.describable = describable
        self.answers = answers
        self.questions: list[pb.TopicRightsQuestion] = []

    def ask_rights(self, question: pb.TopicRightsQuestion) -> asyncio.Future[pb.TopicRights]:
        self.questions.append(question)
        asked: asyncio.Future[pb.TopicRights] = asyncio.get_running_loop().create_future()
        if self.answers:
            asked.set_result(pb.TopicRights(describable=self.describable))
        return asked


async def ask(rights: DescribableTopics, broker: Any, *, asker: Asker = ANN, version: int = 1) -> frozenset[str]:
    return await rights.ask(broker, asker, version, BOTH)


async def test_a_client_is_known_until_its_rights_may_have_changed() -> None:
    rights, broker = DescribableTopics(), Broker("flights", "of nobody")
    assert rights.visible(ANN, 1, BOTH) is None
    assert await ask(rights, broker) == FLIGHTS
    assert (broker.questions[0].principal.name, broker.questions[0].client_host) == ("ann", "/10.0.0.7")
    assert rights.visible(ANN, 1, BOTH) == FLIGHTS
    assert rights.visible(ANN, 1, frozenset({"fares"})) == frozenset()
    assert rights.visible(ANN, 2, BOTH) is None
    assert rights.visible(ANN, 1, BOTH | {"new"}) is None
    assert rights.visible(ANN._replace(broker_epoch=8), 1, BOTH) is None


async def test_an_answer_under_another_version_replaces_what_was_known() -> None:
    rights = DescribableTopics()
    await ask(rights, Broker(*BOTH))
    assert await ask(rights, Broker(), version=2) == frozenset()
    assert rights.visible(ANN, 1, BOTH) is None
    assert rights.visible(ANN, 2, BOTH) == frozenset()


async def test_a_broker_that_does_not_answer_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describable_topics, "ANSWER_TIMEOUT_S", 0.01)
    rights = DescribableTopics()
    with pytest.raises(RightsUnknown, match="broker 1 does not say"):
        await ask(rights, Broker(answers=False))
    assert rights.visible(ANN, 1, BOTH) is None


async def test_heartbeats_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describable_topics, "WAITING_MAX", 1)
    rights = DescribableTopics()
    waiting = asyncio.ensure_future(ask(rights, Broker(answers=False)))
    await asyncio.sleep(0)
    with pytest.raises(RightsUnknown, match="wait for the rights"):
        await ask(rights, Broker())
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await ask(rights, Broker("flights")) == FLIGHTS


async def test_clients_that_are_remembered_are_bounded() -> None:
    rights = DescribableTopics()
    for number in range(CLIENTS_MAX + 1):
        await ask(rights, Broker(), asker=ANN._replace(name=f"user {number}"))
    assert rights.visible(ANN._replace(name="user 0"), 1, BOTH) is None
    assert rights.visible(ANN._replace(name=f"user {CLIENTS_MAX}"), 1, BOTH) == frozenset()


def test_what_an_expression_matches_is_looked_up_again_when_topics_have_come_or_gone() -> None:
    looked_up: list[str] = []

    def matched(pattern: str, names: Any) -> frozenset[str]:
        looked_up.append(pattern)
        return frozenset(names)

    rights = DescribableTopics(matched)
    state = SimpleNamespace(topics={"flights": None})
    shard: Any = SimpleNamespace(topic_names_revision=1, cluster_state=state, groups={})

    def matches(**said: Any) -> frozenset[str] | None:
        fields = {"group_id": "g", "member_id": "a", "member_epoch": 3, "subscribed_topic_regex": "f.*", **said}
        request: Any = SimpleNamespace(message=SimpleNamespace(**fields))
        return rights.matches(shard, request)

    assert matches() is matches()
    assert looked_up == ["f.*"]
    shard.topic_names_revision = 2
    assert matches() == FLIGHTS
    assert looked_up == ["f.*", "f.*"]
    assert matches(subscribed_topic_regex=None) is None, "a member that nobody knows has none"
    assert matches(member_epoch=-1) is None, "who leaves is given nothing"
