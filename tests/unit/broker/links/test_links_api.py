"""The API "links" through the dispatcher: what is answered here, what goes to the controller, and what is hidden."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16

from ottla_broker.config import BrokerConfig
from ottla_broker.dispatch import APIS
from ottla_broker.links.link_statuses import LinkStatuses
from ottla_broker.tls.connecting import PeerAccess
from ottla_core.client import links
from ottla_core.client.framing import LENGTH_SIZE, request_frame
from ottla_core.client.links import Answer, Question
from ottla_core.cluster.controller_rpc.link_api import (
    LinkChange,
    LinkedPartitionState,
    LinkKeeping,
    LinkProblem,
    LinkProblemKind,
    PartitionStatus,
)
from ottla_core.cluster.state.model import ClusterState, Link, PartitionState, Topic, TopicOrigin
from ottla_core.errors import CodedError, PolicyViolation
from ottla_core.wire.links_messages import LINKS_KEY, LinksMethod, LinksRequest
from ottla_core.wire.messages import message_codec
from ottla_proto.gen.ottla import links_pb2 as pb
from tests.support.broker.broker_parts import ask_frame, broker_of
from tests.support.groups.group_cluster import StatedFeed

LINK = Link(
    name="west",
    id=UUID(int=70),
    source_cluster_id="there",
    bootstrap_servers=("a:1",),
    settings={"sasl.username": "u", "sasl.password": "s3cret", "ssl.key.password": "${file:/x:key}"},
    topics=("t.*",),
)
PARTITIONS = tuple(
    PartitionState(
        topic_id=UUID(int=1), index=index, replicas=(1,), isr=(1,), leader=leader, leader_epoch=4, link=LINK.id
    )
    for index, leader in enumerate((1, -1))
)
TOPIC = Topic(
    name="t1",
    id=UUID(int=1),
    partitions=(*PARTITIONS, replace(PARTITIONS[0], index=2, link=None)),
    origin=TopicOrigin(link_id=LINK.id, source_topic="t1", source_topic_id=UUID(int=2)),
)
STATE = ClusterState(
    cluster_id="here", links={"west": LINK}, topics={"t1": TOPIC}, topics_by_id={TOPIC.id: TOPIC}, revision=9
)
CONFIG = BrokerConfig.model_validate({"node.id": 1, "log.dirs": (Path("/nowhere"),)})
KEEPING = LinkKeeping(
    link="west",
    broker=1,
    failure="no answer",
    topics_ms=1000,
    groups=3,
    problems=(LinkProblem(kind=LinkProblemKind.TOPIC_NOT_LINKED, name="t2", reason="it is here"),),
    problems_left_off=2,
)
OWN = PartitionStatus(link="west", topic="t1", index=0, state=LinkedPartitionState.RUNNING, log_end_offset=8)


class Links:
    def statuses(self, names: Any) -> list[PartitionStatus]:
        return [OWN] if not names or "west" in names else []


async def look_now(_: Any) -> list[LinkKeeping]:
    return [replace(KEEPING, topics_ms=2000)]


class Controller:
    """Notes what it is asked, and answers or refuses."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []

    async def forward(self, method: str, request: Any, *, timeout_s: float) -> Any:
        self.asked.append((method, request))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Reconciler:
    async def wait_reached(self, _revision: int, _timeout_s: float) -> bool:
        return True


async def ask(question: Question[Answer], controller: Controller | None = None) -> Answer:
    feed = StatedFeed(STATE)
    statuses = LinkStatuses(
        CONFIG,
        state=lambda: feed.state,
        partitions=Links().statuses,
        keepings=lambda _: [KEEPING],
        look_now=look_now,
        peers=PeerAccess(),
    )
    broker = broker_of(feed, link_statuses=statuses, controller=controller, reconciler=Reconciler())
    frame = request_frame(LINKS_KEY, 0, 7, "client", question.request)
    answer = await ask_frame(broker, frame[LENGTH_SIZE:])
    response = message_codec(LINKS_KEY, 0).read_response(len(answer).to_bytes(4) + answer)
    return links._answer(question, response)


async def test_links_are_described_with_their_topics_and_without_secrets() -> None:
    found = await ask(links.describe_links())
    assert found.cluster_id == "here"
    (described,) = found.links
    assert described.link.settings == {
        "sasl.username": "u",
        "sasl.password": "[hidden]",
        "ssl.key.password": "${file:/x:key}",
    }
    assert [(topic.name, topic.partition_count, topic.linked_count) for topic in described.topics] == [("t1", 3, 2)]


async def test_a_partition_of_which_no_broker_speaks_has_no_leader() -> None:
    found = await ask(links.link_status())
    assert [(each.index, each.state) for each in found.partitions] == [
        (0, LinkedPartitionState.RUNNING),
        (1, LinkedPartitionState.NO_LEADER),
    ]
    assert found.partitions[0] == OWN
    assert (await ask(links.link_status(of_this_broker=True))).partitions == (OWN,)
    assert (await ask(links.link_status(["east"]))).partitions == ()


async def test_how_links_are_kept_is_told_and_looked_at_anew_on_request() -> None:
    assert (await ask(links.link_status())).keepings == (KEEPING,)
    assert (await ask(links.keep_links())).keepings == (replace(KEEPING, topics_ms=2000),)
    assert (await ask(links.keep_links(of_this_broker=True))).keepings == (replace(KEEPING, topics_ms=2000),)


async def test_changes_go_to_the_controller_and_its_answer_comes_back_without_secrets() -> None:
    answer = pb.AlterLinkResponse(revision=9)
    answer.link.name, answer.link.id, answer.link.settings["sasl.password"] = "west", LINK.id.bytes, "s3cret"
    controller = Controller(answer)
    altered = await ask(links.alter_link(LinkChange(name="west", paused=True)), controller)
    assert altered.settings == {"sasl.password": "[hidden]"}
    ((method, request),) = controller.asked
    assert (method, request.name, request.paused) == ("AlterLink", "west", True)


@pytest.mark.parametrize(
    "question", [links.delete_link("west"), links.promote("west", ["t1"]), links.create_linked_topics("west", [])]
)
async def test_a_refusal_has_the_controllers_words(question: Question[Any]) -> None:
    with pytest.raises(CodedError, match="because") as refused:
        await ask(question, Controller(PolicyViolation("because")))
    assert refused.value.code is ErrorCode.policy_violation


@pytest.mark.parametrize(
    ("method", "body", "message"),
    [(99, b"", "no method 99"), (LinksMethod.PROMOTE, b"\xff\xff", "no message of this method")],
)
async def test_what_nobody_understands_is_refused(method: int, body: bytes, message: str) -> None:
    question = Question(LinksRequest(method=i16(method), body=body), lambda found: found)
    with pytest.raises(CodedError, match=message):
        await ask(question, Controller(None))


async def test_an_unknown_link_is_named() -> None:
    with pytest.raises(CodedError, match="there is no link 'east'"):
        await ask(links.describe_links(["east"]))


def test_the_api_is_not_advertised() -> None:
    assert LINKS_KEY not in APIS
