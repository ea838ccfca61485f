"""Proposals of in-sync sets: which are accepted, and with what answer the others are refused."""

from dataclasses import replace
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_controller.isr_changes import IsrPlan, plan_isr_changes
from ottla_core.cluster.controller_rpc.controller_api import AlteredIsr, InSyncReplica, IsrChange
from ottla_core.cluster.state.model import Member, PartitionState
from tests.support.controller.replica_rules import ID, live, partition, remembered, rules, stand, state_of

BROKERS = live("1@5", "2@6", "3@7")
PRESENT = partition("12", "1@5", 3)


def proposal(*members: str, leader_epoch: int = 3, partition_epoch: int = 42, index: int = 0) -> IsrChange:
    """A proposal whose members are words like `2@6`."""
    named = [tuple(map(int, member.split("@"))) for member in members]
    return IsrChange(
        topic_id=ID,
        index=index,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        isr=tuple(InSyncReplica(broker_id=broker_id, broker_epoch=epoch) for broker_id, epoch in named),
    )


def judge(
    change: IsrChange,
    *more: IsrChange,
    present: PartitionState = PRESENT,
    brokers: dict[int, Member] = BROKERS,
    proposer: tuple[int, int] = (1, 5),
    min_insync: int = 1,
) -> list[IsrPlan]:
    topics = state_of(present, brokers=brokers).topics_by_id
    return plan_isr_changes(*proposer, [change, *more], topics, stand(brokers), rules_of=lambda _: rules(min_insync))


def lost(**changes: int) -> IsrChange:
    return replace(proposal(**changes), lost_log=True)


def test_a_follower_that_has_lost_its_log_leaves_the_set_and_the_eligible_leaders() -> None:
    (out,) = judge(lost(), proposer=(2, 6), min_insync=2)
    assert (out.result.error_code, out.partition) == (ErrorCode.none, replace(PRESENT, isr=(1,)))
    waiting = partition("1", "1@5", 3, eligible="2")
    (out,) = judge(lost(), proposer=(2, 6), present=waiting, min_insync=2)
    assert out.partition == replace(waiting, eligible_leaders=())


def test_a_leader_that_has_lost_its_log_is_replaced_by_one_in_sync_or_eligible() -> None:
    (out,) = judge(lost())
    assert out.partition == partition("2", "2@6", 4)
    (out,) = judge(lost(), present=partition("1", "1@5", 3, eligible="3"), min_insync=2)
    assert out.partition == partition("3", "3@7", 4)


def test_nobody_leads_when_the_only_one_in_sync_has_lost_its_log() -> None:
    (out,) = judge(lost(), present=partition("1", "1@5", 3))
    assert (out.result.error_code, out.partition) == (ErrorCode.none, partition("", "none", 4))


def failed(**changes: int) -> IsrChange:
    return replace(proposal(**changes), failed_log=True)


@pytest.mark.parametrize(
    ("story", "present", "reporter", "after"),
    [
        ("a follower leaves", PRESENT, (2, 6), partition("1", "1@5", 3)),
        ("a leader makes way", PRESENT, (1, 5), partition("2", "2@6", 4)),
        ("for an eligible one", partition("1", "1@5", 3, eligible="3"), (1, 5), partition("3", "3@7", 4)),
        ("an eligible one is so no more", partition("1", "1@5", 3, eligible="23"), (2, 6),
         partition("1", "1@5", 3, eligible="3")),
    ],
)  # fmt: skip
def test_a_replica_whose_log_has_failed_makes_way(
    story: str, present: PartitionState, reporter: tuple[int, int], after: PartitionState
) -> None:
    (plan,) = judge(failed(), present=present, proposer=reporter, min_insync=2)
    assert plan.result.error_code is ErrorCode.none
    assert plan.partition == after, story


@pytest.mark.parametrize(
    ("story", "present", "brokers"),
    [
        ("it is alone", partition("1", "1@5", 3), BROKERS),
        ("it is the only replica", partition("1", "1@5", 3, replicas="1"), BROKERS),
        ("the others are gone", partition("12", "1@5", 3), live("1@5", "3@7")),
        ("who is eligible is gone", partition("1", "1@5", 3, eligible="2"), live("1@5", "3@7")),
        ("it counts for nothing anyway", partition("23", "2@6", 3), BROKERS),
    ],
)
def test_a_replica_whose_log_has_failed_stays_where_nobody_can_take_its_place(
    story: str, present: PartitionState, brokers: dict[int, Member]
) -> None:
    (plan,) = judge(failed(), present=present, brokers=brokers, min_insync=2)
    assert plan == IsrPlan(AlteredIsr(topic_id=ID, index=0)), story


def test_nobody_makes_way_for_one_that_may_lack_records() -> None:
    for word in ("2@9?", "2@9~"):
        brokers = live("1@5", word)
        topics = state_of(PRESENT, brokers=brokers).topics_by_id
        (plan,) = plan_isr_changes(
            1, 5, [failed()], topics, stand(brokers, remembered("1@5", "2@6")), rules_of=lambda _: rules()
        )
        assert plan.partition is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (failed(leader_epoch=2), ErrorCode.fenced_leader_epoch),
        (failed(partition_epoch=41), ErrorCode.invalid_update_version),
        (failed(partition_epoch=43), ErrorCode.not_controller),
    ],
)
def test_a_failure_counts_for_the_newest_state_alone(change: IsrChange, code: ErrorCode) -> None:
    (plan,) = judge(change, proposer=(2, 6))
    assert (plan.result.error_code, plan.partition) == (code, None)


def test_an_unclean_election_prefers_others_and_begins_a_new_epoch_in_any_case() -> None:
    alone = partition("1", "1@5", 3, replicas="12")
    for brokers, elected in ((BROKERS, "2@6"), (live("1@5"), "1@5")):
        plans = plan_isr_changes(
            1, 5, [lost()], state_of(alone, brokers=brokers).topics_by_id, stand(brokers),
            rules_of=lambda _: rules(1, unclean=True),
        )  # fmt: skip
        assert plans[0].partition == partition(elected[0], elected, 4, replicas="12")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lost(leader_epoch=2), ErrorCode.fenced_leader_epoch),
        (lost(partition_epoch=41), ErrorCode.invalid_update_version),
        (lost(partition_epoch=43), ErrorCode.not_controller),
    ],
)
def test_a_loss_that_is_told_of_an_older_state_counts_for_nothing(change: IsrChange, code: ErrorCode) -> None:
    (refused,) = judge(change)
    assert (refused.result.error_code, refused.partition) == (code, None)


def longest(*members: str, **changes: int) -> IsrChange:
    return replace(proposal(*members, **changes), longest_log=True)


@pytest.mark.parametrize(("named", "after"), [("3@7", partition("3", "3@7", 4)), ("1@5", partition("1", "1@5", 4))])
def test_the_longest_log_leads_alone_in_a_new_epoch(named: str, after: PartitionState) -> None:
    for before in (partition("1", "1@5", 3), partition("12", "1@5", 3), partition("1", "1@5", 3, eligible="2")):
        (plan,) = judge(longest(named), present=before, min_insync=3)
        assert (plan.result.error_code, plan.partition) == (ErrorCode.none, after)


@pytest.mark.parametrize(
    ("change", "proposer", "code"),
    [
        (longest("3@6"), (1, 5), ErrorCode.ineligible_replica),
        (longest("4@8"), (1, 5), ErrorCode.invalid_request),
        (longest("2@6", "3@7"), (1, 5), ErrorCode.invalid_request),
        (longest(), (1, 5), ErrorCode.invalid_request),
        (longest("3@7"), (2, 6), ErrorCode.invalid_request),
        (longest("3@7"), (1, 9), ErrorCode.fenced_leader_epoch),
        (longest("3@7", leader_epoch=2), (1, 5), ErrorCode.fenced_leader_epoch),
        (longest("3@7", partition_epoch=41), (1, 5), ErrorCode.invalid_update_version),
        (longest("3@7", partition_epoch=43), (1, 5), ErrorCode.not_controller),
    ],
)
def test_only_the_present_leader_may_name_the_longest_log_of_a_live_replica(
    change: IsrChange, proposer: tuple[int, int], code: ErrorCode
) -> None:
    (plan,) = judge(change, proposer=proposer, present=partition("1", "1@5", 3))
    assert (plan.result.error_code, plan.partition) == (code, None)


def test_the_isr_grows_and_shrinks_as_proposed() -> None:
    (grown,) = judge(proposal("1@5", "2@6", "3@7"))
    assert (grown.result.error_code, grown.partition) == (ErrorCode.none, replace(PRESENT, isr=(1, 2, 3)))
    (shrunk,) = judge(proposal("1@5"), min_insync=2)
    assert shrunk.partition == replace(PRESENT, isr=(1,), eligible_leaders=(2,))


def test_a_proposal_of_the_present_isr_is_written_all_the_same() -> None:
    (same,) = judge(proposal("1@5", "2@6"))
    assert (same.result.error_code, same.partition) == (ErrorCode.none, PRESENT)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (replace(proposal("1@5"), topic_id=UUID(int=9)), ErrorCode.unknown_topic_id),
        (proposal("1@5", index=1), ErrorCode.unknown_topic_or_partition),
        (proposal("1@5", index=-1), ErrorCode.unknown_topic_or_partition),
        (proposal("1@5", leader_epoch=4), ErrorCode.not_controller),
        (proposal("1@5", partition_epoch=43), ErrorCode.not_controller),
        (proposal("1@5", leader_epoch=2), ErrorCode.fenced_leader_epoch),
        (proposal("1@5", partition_epoch=41), ErrorCode.invalid_update_version),
        (proposal("1@5", "4@8"), ErrorCode.invalid_request),
        (proposal("1@5", "2@6", "2@6"), ErrorCode.invalid_request),
        (proposal("2@6"), ErrorCode.invalid_request),
        (proposal(), ErrorCode.invalid_request),
        (proposal("1@5", "3@6"), ErrorCode.ineligible_replica),
    ],
)
def test_refusals(change: IsrChange, code: ErrorCode) -> None:
    (plan,) = judge(change)
    assert (plan.result.error_code, plan.partition) == (code, None)


@pytest.mark.parametrize(
    ("proposer", "code"), [((2, 6), ErrorCode.invalid_request), ((1, 9), ErrorCode.fenced_leader_epoch)]
)
def test_only_the_leader_under_the_registration_it_was_elected_with_may_propose(
    proposer: tuple[int, int], code: ErrorCode
) -> None:
    (plan,) = judge(proposal("1@5", "2@6"), proposer=proposer)
    assert (plan.result.error_code, plan.partition) == (code, None)


def test_who_is_away_or_shutting_down_cannot_join() -> None:
    for brokers in (live("1@5", "2@6"), live("1@5", "2@6", "3@7!")):
        (plan,) = judge(proposal("1@5", "2@6", "3@7"), brokers=brokers)
        assert (plan.result.error_code, plan.partition) == (ErrorCode.ineligible_replica, None)


def test_a_departing_leader_may_let_others_join_and_is_replaced_by_them() -> None:
    (plan,) = judge(proposal("1@5", "2@6"), present=partition("1", "1@5", 3), brokers=live("1@5!", "2@6"))
    assert plan.result.error_code is ErrorCode.new_leader_elected
    assert plan.partition == partition("2", "2@6", 4)


def test_a_proposal_that_completes_a_reassignment_may_come_with_another_leader() -> None:
    moving = partition("12", "1@5", 3, replicas="231", adding="3", removing="1")
    (plan,) = judge(proposal("1@5", "2@6", "3@7"), present=moving)
    assert plan.result.error_code is ErrorCode.new_leader_elected
    assert plan.partition == partition("23", "2@6", 4, replicas="23")


def test_of_two_proposals_for_one_partition_the_second_is_outdated() -> None:
    first, second = judge(proposal("1@5"), proposal("1@5", "2@6"))
    assert first.result.error_code is ErrorCode.none
    assert (second.result.error_code, second.partition) == (ErrorCode.invalid_update_version, None)
