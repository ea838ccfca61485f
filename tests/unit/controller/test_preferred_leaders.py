"""Elections on request, and leaderships that go back by themselves."""

from kio.schema.errors import ErrorCode

from ottla_controller.preferred_leaders import ElectionPlan, due_elections, plan_elections
from ottla_core.cluster.controller_rpc.controller_api import ElectionType
from ottla_core.cluster.state.model import Member, PartitionState
from ottla_core.topic_partition import TopicPartition
from tests.support.controller.replica_rules import live, partition, rules, stand, state_of

BROKERS = live("1@5", "2@6", "3@7")


def elect(
    type_: ElectionType,
    *partitions: PartitionState,
    brokers: dict[int, Member] = BROKERS,
    requested: list[TopicPartition] | None = None,
) -> list[ElectionPlan]:
    state = state_of(*partitions, brokers=brokers)
    return plan_elections(type_, requested, state, stand(brokers), rules_of=lambda _: rules(2))


def test_the_preferred_leader_is_elected_when_it_is_in_sync() -> None:
    (plan,) = elect(ElectionType.PREFERRED, partition("123", "2@6", 3))
    assert (plan.result.error_code, plan.partition) == (ErrorCode.none, partition("123", "1@5", 4))


def test_the_preferred_leader_is_not_elected_when_it_is_behind_away_or_departing() -> None:
    plans = (
        elect(ElectionType.PREFERRED, partition("23", "2@6", 3)),
        elect(ElectionType.PREFERRED, partition("23", "2@6", 3), brokers=live("2@6", "3@7")),
        elect(ElectionType.PREFERRED, partition("123", "2@6", 3), brokers=live("1@5!", "2@6", "3@7")),
    )
    for (plan,) in plans:
        assert (plan.result.error_code, plan.partition) == (ErrorCode.preferred_leader_not_available, None)


def test_of_all_partitions_only_those_that_need_an_election_are_answered() -> None:
    led, strayed = partition("123", "1@5"), partition("123", "3@7", index=1)
    assert [plan.result.index for plan in elect(ElectionType.PREFERRED, led, strayed)] == [1]
    (plan,) = elect(ElectionType.PREFERRED, led, requested=[TopicPartition("t", 0)])
    assert plan.result.error_code is ErrorCode.election_not_needed


def test_an_unclean_election_gives_a_partition_without_leader_one() -> None:
    offline = partition("", "none", 3, eligible="1")
    (plan,) = elect(ElectionType.UNCLEAN, offline, brokers=live("2@6", "3@7"))
    assert plan.partition == partition("2", "2@6", 4)
    (plan,) = elect(ElectionType.UNCLEAN, offline, brokers=live())
    assert plan.result.error_code is ErrorCode.eligible_leaders_not_available
    assert elect(ElectionType.UNCLEAN, partition("12", "1@5")) == []


def test_unknown_partitions_are_named() -> None:
    for name in (TopicPartition("u", 0), TopicPartition("t", 1), TopicPartition("t", -1)):
        (plan,) = elect(ElectionType.PREFERRED, partition("1", "1@5"), requested=[name])
        assert plan.result.error_code is ErrorCode.unknown_topic_or_partition
        assert str(name) in (plan.result.error_message or "")


def due(*partitions: PartitionState, percentage: int) -> list[int]:
    state = state_of(*partitions, brokers=BROKERS)
    elected = due_elections(
        state.topics.values(), stand(BROKERS), rules_of=lambda _: rules(), imbalance_percentage=percentage
    )
    assert all(one.leader == one.replicas[0] for one in elected)
    return [one.index for one in elected]


def test_leaderships_go_back_when_a_broker_leads_too_few_of_its_partitions() -> None:
    own = [partition("123", "1@5", index=index) for index in range(9)]
    strayed = partition("123", "2@6", index=9)
    assert due(*own, strayed, percentage=10) == []
    assert due(*own, strayed, percentage=9) == [9]
    behind = partition("23", "2@6", index=10)
    assert due(*own, strayed, behind, percentage=10) == [9]
