"""Links and linked topics: what may be made, what promotion and the raising of leader epochs come to."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_controller.broker_standing import standings
from ottla_controller.cluster_links import UnknownLink, plan_change, plan_link, plan_link_deletion
from ottla_controller.leader_election import first_state
from ottla_controller.link_promotion import plan_promotion
from ottla_controller.linked_topics import (
    LEADER_EPOCH_MAX,
    plan_following,
    plan_linked_topics,
    plan_more_partitions,
    plan_raises,
)
from ottla_controller.topics import TopicDefaults, plan_growths
from ottla_core.cluster.controller_rpc.controller_api import NewPartitions
from ottla_core.cluster.controller_rpc.link_api import (
    UNLIMITED,
    LeaderEpochRaise,
    LinkChange,
    MorePartitions,
    NewLink,
    NewLinkedTopic,
    SourceLink,
)
from ottla_core.cluster.state.model import ClusterState, Link, PartitionState, Topic, TopicOrigin
from ottla_core.errors import InvalidRequest, KafkaError, PolicyViolation, TopicAlreadyExists
from ottla_core.promotion import PROMOTION_LEAP
from tests.unit.controller.test_topics import BROKERS

DEFAULTS = TopicDefaults(partition_count=4, replication_factor=2)
LINK = Link(
    name="west",
    id=UUID(int=70),
    source_cluster_id="cluster-west",
    bootstrap_servers=("west:9092",),
    topics=("orders.*",),
)
LINKED_ID = UUID(int=200)
SOURCE_ID = UUID(int=201)


def linked_topic(name: str = "orders", *, epochs: tuple[int, ...] = (5, 7)) -> Topic:
    return Topic(
        name=name,
        id=LINKED_ID,
        partitions=tuple(
            replace(first_state(LINKED_ID, index, (1, 2), BROKERS), leader_epoch=epoch, link=LINK.id)
            for index, epoch in enumerate(epochs)
        ),
        origin=TopicOrigin(link_id=LINK.id, source_topic=name, source_topic_id=SOURCE_ID),
        mod_revision=9,
    )


def state_with(*topics: Topic, links: tuple[Link, ...] = (LINK,)) -> ClusterState:
    return ClusterState(
        cluster_id="here",
        revision=50,
        brokers=BROKERS,
        topics={topic.name: topic for topic in topics},
        topics_by_id={topic.id: topic for topic in topics},
        links={link.name: link for link in links},
    )


EMPTY = state_with(links=())
WITH_LINK = state_with()
WITH_TOPIC = state_with(linked_topic())


def test_a_link_is_made_once_however_often_its_request_comes() -> None:
    assert plan_link(NewLink(link=LINK), EMPTY) == LINK
    assert plan_link(NewLink(link=LINK), WITH_LINK) is None
    with pytest.raises(PolicyViolation, match="link 'west' exists already"):
        plan_link(NewLink(link=replace(LINK, id=UUID(int=71))), WITH_LINK)


@pytest.mark.parametrize(
    ("new", "state", "error", "message"),
    [
        (NewLink(link=replace(LINK, source_cluster_id="here")), EMPTY, InvalidRequest, "this cluster to itself"),
        (NewLink(link=replace(LINK, source_cluster_id="")), EMPTY, InvalidRequest, "no id of the source cluster"),
        (NewLink(link=replace(LINK, bootstrap_servers=())), EMPTY, InvalidRequest, "no bootstrap servers"),
        (NewLink(link=replace(LINK, topics=("(",))), EMPTY, InvalidRequest, r"the pattern '\('"),
        (NewLink(link=replace(LINK, bytes_per_second=0)), EMPTY, InvalidRequest, "0 is not above 0"),
        (NewLink(link=replace(LINK, name="a/b")), EMPTY, KafkaError, "characters other than"),
        (
            NewLink(link=replace(LINK, name="x", id=UUID(int=1))),
            WITH_LINK,
            PolicyViolation,
            r"the pattern 'orders\.\*'",
        ),
        (
            NewLink(link=replace(LINK, name="x", id=UUID(int=1), topics=(".*",)), matching_topics=("a", "orders-1")),
            WITH_LINK,
            PolicyViolation,
            "topic 'orders-1' belongs to link 'west' already",
        ),
        (
            NewLink(link=LINK, matching_topics=("other", "orders")),
            state_with(linked_topic(), links=()),
            TopicAlreadyExists,
            "topic 'orders' exist here already",
        ),
        (
            NewLink(
                link=LINK,
                matching_topics=("orders-1",),
                source_links=(SourceLink(name="back", source_cluster_id="here", topics=(".*-1",)),),
            ),
            EMPTY,
            PolicyViolation,
            "a cycle: link 'back'",
        ),
    ],
)
def test_a_link_is_refused_with_what_is_wrong_with_it(
    new: NewLink, state: ClusterState, error: type[KafkaError], message: str
) -> None:
    with pytest.raises(error, match=message):
        plan_link(new, state)


def test_a_source_that_follows_other_topics_of_this_cluster_is_no_cycle() -> None:
    back = SourceLink(name="back", source_cluster_id="here", topics=("payments",))
    elsewhere = SourceLink(name="on", source_cluster_id="third", topics=("orders.*",))
    new = NewLink(link=LINK, matching_topics=("orders-1",), source_links=(back, elsewhere))
    assert plan_link(new, EMPTY) == LINK


def test_a_change_sets_what_is_named_and_leaves_the_rest() -> None:
    state = state_with(links=(replace(LINK, settings={"a": "1", "b": "2"}, bytes_per_second=5),))
    changed = plan_change(LinkChange(name="west", paused=True, settings={"a": None, "c": "3"}), state)
    assert (changed.paused, dict(changed.settings), changed.bytes_per_second) == (True, {"b": "2", "c": "3"}, 5)
    assert plan_change(LinkChange(name="west", bytes_per_second=UNLIMITED), state).bytes_per_second is None
    with pytest.raises(UnknownLink, match="there is no link 'east'"):
        plan_change(LinkChange(name="east", paused=True), state)


def test_a_link_that_topics_follow_cannot_be_deleted() -> None:
    assert plan_link_deletion("west", WITH_LINK) == LINK
    with pytest.raises(PolicyViolation, match="'orders' follows link 'west'; promote or delete"):
        plan_link_deletion("west", WITH_TOPIC)


def new_topic(**changes: Any) -> NewLinkedTopic:
    wanted: dict[str, Any] = {
        "name": "orders",
        "source_topic": "orders",
        "source_topic_id": SOURCE_ID,
        "source_leader_epochs": (0, 12),
        "topic_id": LINKED_ID,
    }
    return NewLinkedTopic(**{**wanted, **changes})


def test_a_linked_topic_has_the_partitions_and_at_least_the_leader_epochs_of_its_source() -> None:
    (plan,) = plan_linked_topics("west", [new_topic()], WITH_LINK, DEFAULTS)
    assert plan.result.error_code is ErrorCode.none
    assert plan.topic is not None
    assert [(each.leader_epoch, each.link) for each in plan.topic.partitions] == [(0, LINK.id), (12, LINK.id)]
    assert [len(each.replicas) for each in plan.topic.partitions] == [2, 2]
    assert plan.topic.origin == TopicOrigin(link_id=LINK.id, source_topic="orders", source_topic_id=SOURCE_ID)


@pytest.mark.parametrize(
    ("new", "state", "code"),
    [
        (new_topic(topic_id=UUID(int=3), source_topic_id=UUID(int=3)), WITH_TOPIC, ErrorCode.topic_already_exists),
        (new_topic(name="__consumer_offsets"), WITH_LINK, ErrorCode.invalid_topic_exception),
        (new_topic(source_leader_epochs=()), WITH_LINK, ErrorCode.invalid_partitions),
        (new_topic(source_topic_id=UUID(int=0)), WITH_LINK, ErrorCode.invalid_request),
        (
            new_topic(),
            state_with(links=(LINK, replace(LINK, name="x", id=UUID(int=5), topics=("ord.*",)))),
            ErrorCode.policy_violation,
        ),
    ],
)
def test_a_linked_topic_is_refused(new: NewLinkedTopic, state: ClusterState, code: ErrorCode) -> None:
    (plan,) = plan_linked_topics("west", [new], state, DEFAULTS)
    assert (plan.result.error_code, plan.topic) == (code, None)


def test_a_repeated_creation_finds_its_own_topic() -> None:
    (plan,) = plan_linked_topics("west", [new_topic()], WITH_TOPIC, DEFAULTS)
    assert (plan.result.error_code, plan.topic) == (ErrorCode.none, None)


def test_a_linked_topic_grows_with_its_source_and_not_for_clients() -> None:
    (plan,) = plan_more_partitions([MorePartitions(topic="orders", source_leader_epochs=(5, 8, 31))], WITH_TOPIC)
    assert plan.topic is not None
    assert [(each.index, each.leader_epoch, each.link) for each in plan.added] == [(2, 31, LINK.id)]
    assert plan.topic.partitions[:2] == WITH_TOPIC.topics["orders"].partitions
    (same,) = plan_more_partitions([MorePartitions(topic="orders", source_leader_epochs=(5, 8))], WITH_TOPIC)
    assert (same.result.error_code, same.topic) == (ErrorCode.none, None)
    (refused,) = plan_growths([NewPartitions(topic="orders", total_count=4)], WITH_TOPIC)
    assert refused.result.error_code is ErrorCode.policy_violation


def test_a_promoted_topic_does_not_grow_with_its_former_source() -> None:
    promoted = plan_promotion("west", [], WITH_TOPIC).topics[0]
    (plan,) = plan_more_partitions(
        [MorePartitions(topic="orders", source_leader_epochs=(5, 8, 31))], state_with(promoted)
    )
    assert plan.result.error_code is ErrorCode.policy_violation


def test_promotion_ends_the_following_and_leaps_above_all_epochs_of_the_source_in_one_change() -> None:
    plan = plan_promotion("west", ["orders"], WITH_TOPIC)
    former = WITH_TOPIC.topics["orders"].partitions
    assert plan.partitions == tuple(
        replace(each, link=None, leader_epoch=each.leader_epoch + PROMOTION_LEAP) for each in former
    )
    assert [topic.origin for topic in plan.topics] == [None]
    assert [(each.topic, each.index, each.leader_epoch) for each in plan.results] == [
        ("orders", index, each.leader_epoch + PROMOTION_LEAP) for index, each in enumerate(former)
    ]


def test_leader_epochs_do_not_overflow() -> None:
    plan = plan_promotion("west", [], state_with(linked_topic(epochs=(LEADER_EPOCH_MAX - 1,))))
    assert plan.partitions[0].leader_epoch == LEADER_EPOCH_MAX


def test_a_promotion_that_was_cut_short_is_finished_and_its_partitions_leap_once() -> None:
    topic = linked_topic()
    half = replace(
        topic, partitions=(replace(topic.partitions[0], link=None, leader_epoch=80_000), topic.partitions[1])
    )
    plan = plan_promotion("west", [], state_with(half))
    assert [each.index for each in plan.partitions] == [1]
    assert [each.leader_epoch for each in plan.results] == [80_000, 7 + PROMOTION_LEAP]


def test_a_topic_that_does_not_follow_the_link_cannot_be_promoted() -> None:
    with pytest.raises(PolicyViolation, match="'payments' does not follow link 'west'"):
        plan_promotion("west", ["payments"], WITH_TOPIC)


def wanted_raise(**changes: Any) -> LeaderEpochRaise:
    wanted: dict[str, Any] = {
        "topic_id": LINKED_ID, "index": 0, "link_id": LINK.id, "leader_epoch": 5, "raised_to": 9,
    }  # fmt: skip
    return LeaderEpochRaise(**{**wanted, **changes})


def raised(wanted: LeaderEpochRaise, *, broker: int = 1, epoch: int = 10) -> list[PartitionState]:
    present = standings(BROKERS, {})
    return plan_raises(broker, epoch, [wanted], WITH_TOPIC, present)


def test_a_leader_gets_its_epoch_raised_to_that_of_the_source_and_stays_leader() -> None:
    (partition,) = raised(wanted_raise())
    assert partition == replace(WITH_TOPIC.topics["orders"].partitions[0], leader_epoch=9)


@pytest.mark.parametrize(
    ("wanted", "broker", "epoch"),
    [
        (wanted_raise(leader_epoch=4), 1, 10),
        (wanted_raise(raised_to=5), 1, 10),
        (wanted_raise(raised_to=LEADER_EPOCH_MAX + 1), 1, 10),
        (wanted_raise(link_id=UUID(int=1)), 1, 10),
        (wanted_raise(topic_id=UUID(int=1)), 1, 10),
        (wanted_raise(index=2), 1, 10),
        (wanted_raise(), 2, 20),
        (wanted_raise(), 1, 11),
    ],
)
def test_an_outdated_wish_to_raise_an_epoch_changes_nothing(
    wanted: LeaderEpochRaise, broker: int, epoch: int
) -> None:
    assert raised(wanted, broker=broker, epoch=epoch) == []


def own_topic(*, link: UUID | None = None) -> Topic:
    topic = linked_topic()
    partitions = tuple(replace(each, link=link) for each in topic.partitions)
    return replace(topic, partitions=partitions, origin=None)


def following(new: NewLinkedTopic, state: ClusterState) -> Any:
    (plan,) = plan_following("west", [new], state)
    return plan


def test_a_topic_that_exists_follows_with_later_epochs_and_the_mark_of_what_was_written_here() -> None:
    plan = following(new_topic(source_leader_epochs=(80_000, 3)), state_with(own_topic()))
    assert [(each.link, each.leader_epoch, each.set_aside_up_to) for each in plan.added] == [
        (LINK.id, 80_000, 5),
        (LINK.id, 8, 7),
    ]
    assert plan.topic.origin == TopicOrigin(link_id=LINK.id, source_topic="orders", source_topic_id=SOURCE_ID)


def test_a_repetition_does_not_take_what_came_through_the_link_for_written_here() -> None:
    first = following(new_topic(source_leader_epochs=(80_000, 3)), state_with(own_topic()))
    half = replace(first.topic, partitions=(first.added[0], first.topic.partitions[1]))
    plan = following(new_topic(source_leader_epochs=(90_000, 3)), state_with(half))
    assert [each.index for each in plan.added] == [1]


@pytest.mark.parametrize(
    ("new", "state", "code"),
    [
        (new_topic(name="payments"), WITH_LINK, ErrorCode.unknown_topic_or_partition),
        (new_topic(source_leader_epochs=(1,)), state_with(own_topic()), ErrorCode.invalid_partitions),
        (new_topic(), state_with(own_topic(link=UUID(int=9))), ErrorCode.policy_violation),
    ],
)
def test_a_topic_that_cannot_follow_is_refused(new: NewLinkedTopic, state: ClusterState, code: ErrorCode) -> None:
    assert following(new, state).result.error_code is code


def test_promotion_forgets_what_was_written_before() -> None:
    turned = following(new_topic(source_leader_epochs=(80_000, 3)), state_with(own_topic()))
    plan = plan_promotion("west", [], state_with(replace(turned.topic, partitions=turned.added)))
    assert {each.set_aside_up_to for each in plan.partitions} == {-1}


def test_topics_that_are_here_may_follow_but_not_in_a_cycle_however_the_patterns_are_spelt() -> None:
    back = SourceLink(name="there", source_cluster_id="here", topics=("ord.*",))
    new = NewLink(link=LINK, matching_topics=("orders",), existing=True)
    state = state_with(replace(linked_topic(), origin=None), links=())
    assert plan_link(new, state) == LINK
    with pytest.raises(TopicAlreadyExists):
        plan_link(replace(new, existing=False), state)
    with pytest.raises(PolicyViolation, match="links would form a cycle: link 'there'"):
        plan_link(replace(new, source_links=(back,)), state)


def test_a_link_is_not_altered_to_follow_what_another_one_does() -> None:
    other = replace(LINK, name="east", id=UUID(int=71), topics=("payments",))
    state = state_with(linked_topic(), links=(LINK, other))
    with pytest.raises(PolicyViolation, match="topic 'orders' belongs to link 'west' already"):
        plan_change(LinkChange(name="east", topics=(".*",)), state)
    with pytest.raises(PolicyViolation, match=r"the pattern 'orders\.\*' belongs to link 'west' already"):
        plan_change(LinkChange(name="east", topics=("orders.*", "payments")), replace(state, topics={}))
    excluded = plan_change(LinkChange(name="east", topics=(".*",), properties={"topics.exclude": "orders.*"}), state)
    assert excluded.topics == (".*",)
    with pytest.raises(PolicyViolation, match="topic 'orders'"):
        plan_change(
            LinkChange(name="east", properties={"topics.exclude": None}),
            replace(state, links={"west": LINK, "east": excluded}),
        )
    assert plan_change(LinkChange(name="west", topics=("orders.*", "bills")), state).topics == ("orders.*", "bills")
