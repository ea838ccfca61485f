"""What of a link's source is not so here."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_broker.links.keeping_plan import KeepingPlan, plan_keeping, topics_to_describe
from ottla_core.client.cluster_metadata import PartitionMetadata, TopicMetadata
from ottla_core.cluster.controller_rpc.link_api import LinkProblemKind
from ottla_core.cluster.state.model import ClusterState, Link, PartitionState, Topic, TopicOrigin
from ottla_core.described_settings import DEFAULT_CONFIG, TOPIC_CONFIG, TopicSetting
from ottla_core.random_ids import random_uuid

LINK = Link(
    name="west",
    id=UUID(int=70),
    source_cluster_id="there",
    bootstrap_servers=("west:9092",),
    topics=("orders.*",),
    properties={"topics.exclude": ".*-private"},
)
SOURCE_ID = UUID(int=5)


def of_source(name: str, *, partitions: int = 2, **changes: Any) -> TopicMetadata:
    found = {
        index: PartitionMetadata(index=index, leader=1, leader_epoch=3 + index, replicas=(1,), error=ErrorCode.none)
        for index in range(partitions)
    }
    topic = TopicMetadata(name=name, id=SOURCE_ID, is_internal=False, partitions=found, error=ErrorCode.none)
    return replace(topic, **changes)


def here(name: str, *, linked: bool = True, configs: dict[str, str] | None = None) -> Topic:
    partitions = tuple(
        PartitionState(
            topic_id=UUID(int=1),
            index=index,
            replicas=(1,),
            isr=(1,),
            leader=1,
            leader_epoch=4,
            link=LINK.id if linked else None,
        )
        for index in range(2)
    )
    origin = TopicOrigin(link_id=LINK.id, source_topic=name, source_topic_id=SOURCE_ID) if linked else None
    return Topic(name=name, id=UUID(int=1), partitions=partitions, origin=origin, configs=configs or {})


def planned(
    *source: TopicMetadata, topics: tuple[Topic, ...] = (), settings: Any = None, link: Link = LINK
) -> KeepingPlan:
    found = {topic.name: topic for topic in source}
    state = ClusterState(links={"west": link}, topics={topic.name: topic for topic in topics})
    described = {name: {} for name in topics_to_describe(link, found, state)}
    return plan_keeping(link, found, {**described, **(settings or {})}, state, random_uuid)


def problems(plan: KeepingPlan) -> list[tuple[LinkProblemKind, str]]:
    return [(each.kind, each.name) for each in plan.problems]


def test_topics_that_match_are_linked_with_the_settings_that_they_have_themselves() -> None:
    settings = {
        "retention.ms": TopicSetting(value="5", source=TOPIC_CONFIG),
        "segment.ms": TopicSetting(value="6", source=DEFAULT_CONFIG),
        "min.insync.replicas": TopicSetting(value="2", source=TOPIC_CONFIG),
    }
    internal = of_source("orders-offsets", is_internal=True)
    plan = planned(
        of_source("orders"),
        of_source("orders-private"),
        of_source("payments"),
        internal,
        settings={"orders": settings},
    )
    (wanted,) = plan.wanted
    assert (wanted.name, wanted.source_leader_epochs, wanted.configs) == ("orders", (3, 4), {"retention.ms": "5"})
    assert plan.problems == ()


def test_a_topic_that_is_here_and_does_not_follow_is_named_and_left() -> None:
    plan = planned(of_source("orders", partitions=5), topics=(here("orders", linked=False),))
    assert plan.wanted == ()
    assert problems(plan) == [(LinkProblemKind.TOPIC_NOT_LINKED, "orders")]


def test_a_promoted_topic_is_not_linked_again() -> None:
    link = replace(LINK, promoted_topics=frozenset({"orders"}))
    gone = planned(of_source("orders"), link=link)
    assert (gone.wanted, problems(gone)) == ((), [(LinkProblemKind.TOPIC_PROMOTED, "orders")])
    assert planned(of_source("orders"), topics=(here("orders", linked=False),), link=link) == KeepingPlan((), ())


def test_a_topic_that_is_gone_from_the_source_is_named_and_stays() -> None:
    plan = planned(topics=(here("orders"),))
    assert (plan.wanted, problems(plan)) == ((), [(LinkProblemKind.TOPIC_DELETED, "orders")])


def test_partitions_and_settings_that_differ_are_asked_for_and_nothing_else() -> None:
    own = {"retention.ms": "5", "min.insync.replicas": "2"}
    same = {"orders": {"retention.ms": TopicSetting(value="5", source=TOPIC_CONFIG)}}
    assert planned(of_source("orders"), topics=(here("orders", configs=own),), settings=same).wanted == ()
    (other,) = planned(of_source("orders"), topics=(here("orders", configs=own),)).wanted
    assert other.configs == {}
    (grown,) = planned(of_source("orders", partitions=3), topics=(here("orders", configs=own),), settings=same).wanted
    assert (grown.source_leader_epochs, grown.configs) == ((3, 4, 5), {"retention.ms": "5"})


def test_settings_that_the_source_does_not_tell_stay_as_they_are() -> None:
    found, topic = of_source("orders", partitions=3), here("orders", configs={"retention.ms": "5"})
    state = ClusterState(links={"west": LINK}, topics={"orders": topic})
    (grown,) = plan_keeping(LINK, {"orders": found}, {}, state, random_uuid).wanted
    assert grown.configs == {"retention.ms": "5"}
    untold = plan_keeping(LINK, {"orders": found}, {}, ClusterState(links={"west": LINK}), random_uuid)
    assert (untold.wanted, problems(untold)) == ((), [(LinkProblemKind.TOPIC_REFUSED, "orders")])


def test_another_topic_of_the_name_in_the_source_changes_nothing() -> None:
    other = of_source("orders", partitions=5, id=UUID(int=6))
    assert planned(other, topics=(here("orders"),)).wanted == ()


def test_what_the_source_does_not_say_whole_is_refused_by_name() -> None:
    hole = of_source("orders")
    hole = replace(hole, partitions={1: hole.partitions[1]})
    old = of_source("orders-old", id=UUID(int=0))
    forbidden = of_source("orders-x", partitions=0, error=ErrorCode.topic_authorization_failed)
    plan = planned(hole, old, forbidden)
    assert plan.wanted == ()
    assert problems(plan) == [(LinkProblemKind.TOPIC_REFUSED, name) for name in ("orders", "orders-old", "orders-x")]
    assert planned(replace(hole, error=ErrorCode.unknown_topic_or_partition)) == KeepingPlan((), ())
