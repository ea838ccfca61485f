"""What changes of partitions end in, as tables: who is live, what the partition was, what it becomes."""

from dataclasses import replace

import pytest

from ottla_controller.partition_change import TopicRules, conclude, has_valid_leader
from ottla_core.cluster.state.model import BrokerRegistration, Member, PartitionState
from tests.support.controller.replica_rules import ids, live, partition, remembered, rules, stand

Brokers = dict[int, Member]
Registrations = dict[int, BrokerRegistration]
ALL = live("1@5", "2@6", "3@7")


def look(
    before: PartitionState,
    brokers: Brokers,
    topic_rules: TopicRules | None = None,
    registrations: Registrations | None = None,
) -> PartitionState:
    """What a mere look at a partition comes to."""
    return conclude(before, before, stand(brokers, registrations), topic_rules or rules())


@pytest.mark.parametrize(
    ("story", "before", "brokers", "after"),
    [
        ("all is fine", ("123", "1@5", 3, ""), ALL, ("123", "1@5", 3, "")),
        ("a follower is gone", ("123", "1@5", 3, ""), live("1@5", "3@7"), ("13", "1@5", 3, "")),
        ("both followers are gone", ("123", "1@5", 3, ""), live("1@5"), ("1", "1@5", 3, "23")),
        ("and the leader too", ("1", "1@5", 3, "23"), live(), ("", "none", 4, "123")),
        ("leader is gone", ("123", "1@5", 3, ""), live("2@6", "3@7"), ("23", "2@6", 4, "")),
        ("leader and next are gone", ("123", "1@5", 3, ""), live("3@7"), ("3", "3@7", 4, "12")),
        ("those in sync come first", ("13", "1@5", 3, ""), live("2@6", "3@7"), ("3", "3@7", 4, "1")),
        ("leader came back unseen", ("123", "1@5", 3, ""), live("1@9", "2@6"), ("2", "2@6", 4, "13")),
        ("the only one came back", ("1", "1@5", 3, ""), live("1@9"), ("1", "1@9", 4, "")),
        ("nobody who has everything", ("12", "1@5", 3, ""), live("3@7"), ("", "none", 4, "12")),
        ("still nobody", ("", "none", 4, "12"), live("3@7"), ("", "none", 4, "12")),
        ("an eligible one comes back", ("", "none", 4, "12"), live("2@8", "3@7"), ("2", "2@8", 5, "1")),
        ("both come back", ("", "none", 4, "12"), live("1@9", "2@8"), ("1", "1@9", 5, "2")),
        ("eligible after the last in sync", ("1", "1@5", 3, "3"), live("2@6", "3@7"), ("3", "3@7", 4, "1")),
        ("in sync but unseen without leader", ("12", "none", 4, ""), live("1@9", "2@8"), ("12", "1@9", 5, "")),
    ],
)
def test_brokers_come_and_go_with_two_needed_in_sync(
    story: str,
    before: tuple[str, str, int, str],
    brokers: Brokers,
    after: tuple[str, str, int, str],
) -> None:
    def state(isr: str, leader: str, epoch: int, eligible: str) -> PartitionState:
        return partition(isr, leader, epoch, eligible=eligible)

    assert look(state(*before), brokers, rules(2)) == state(*after), story


@pytest.mark.parametrize(
    ("story", "before", "brokers", "after"),
    [
        ("the first back may lack records", ("", "none", 4, "123"), live("1@8?"), ("", "none", 4, "23")),
        ("so may the next", ("", "none", 4, "23"), live("1@8", "2@9?"), ("", "none", 4, "3")),
        ("nobody has more than the last", ("", "none", 4, "3"), live("1@8", "3@9?"), ("3", "3@9", 5, "")),
        ("one that was merely killed leads", ("", "none", 4, "123"), live("1@8?", "3@9"), ("3", "3@9", 5, "2")),
        ("all lost power", ("", "none", 4, "12"), live("1@8?", "2@9?"), ("1", "1@8", 5, "2")),
        ("both unseen", ("12", "1@5", 4, ""), live("1@8?", "2@9"), ("2", "2@9", 5, "")),
        ("both unseen and unclean", ("12", "1@5", 4, ""), live("1@8?", "2@9?"), ("12", "1@8", 5, "")),
        ("the only one in sync", ("1", "1@5", 4, ""), live("1@8?", "3@7"), ("1", "1@8", 5, "")),
        ("elected as the last", ("3", "3@9", 5, "2"), live("3@9?"), ("3", "3@9", 5, "2")),
    ],
)
def test_who_comes_back_from_an_unclean_shutdown_leads_only_if_nobody_else_can_have_more(
    story: str,
    before: tuple[str, str, int, str],
    brokers: Brokers,
    after: tuple[str, str, int, str],
) -> None:
    def state(isr: str, leader: str, epoch: int, eligible: str) -> PartitionState:
        return partition(isr, leader, epoch, eligible=eligible)

    known = remembered("1@5", "2@6", "3@7")
    for broker_id, member in brokers.items():
        if member.epoch == 8 and member.intact_since == 0:  # attended to before
            known[broker_id] = replace(known[broker_id], broker_epoch=8)
    assert look(state(*before), brokers, rules(2), known) == state(*after), story


def test_an_unclean_election_prefers_those_that_were_merely_killed() -> None:
    before = partition("", "none", 4)
    known = remembered("1@5", "2@6", "3@7")
    after = look(before, live("1@8?", "2@9"), rules(unclean=True), known)
    assert (after.leader, after.isr) == (2, (2,))


def test_a_state_that_needs_no_change_is_returned_as_it_is() -> None:
    before = partition("123", "1@5")
    assert look(before, ALL) is before
    offline = partition("", "none", eligible="12")
    assert look(offline, live("3@7"), rules(2)) is offline


def test_a_concluded_state_needs_no_further_change() -> None:
    brokers = live("2@6", "3@7")
    elected = look(partition("123", "1@5"), brokers)
    assert has_valid_leader(elected, stand(brokers))
    assert look(elected, brokers) is elected


@pytest.mark.parametrize(("min_insync", "eligible"), [(1, ""), (2, "1"), (3, "1"), (9, "1")])
def test_who_leaves_the_isr_is_eligible_only_while_it_is_too_small(min_insync: int, eligible: str) -> None:
    after = look(partition("12", "1@5"), live("2@6"), rules(min_insync))
    assert after == partition("2", "2@6", 1, eligible=eligible)


def test_min_insync_above_the_number_of_replicas_counts_as_that_number() -> None:
    before = partition("12", "1@5", replicas="12", eligible="")
    assert look(before, live("1@5", "2@6"), rules(9)) is before


def test_eligible_leaders_are_forgotten_when_the_isr_is_large_enough_again() -> None:
    before = partition("1", "1@5", eligible="3")
    wanted = replace(before, isr=ids("12"))
    assert conclude(before, wanted, stand(ALL), rules(2)) == partition("12", "1@5")


# Unclean elections.


def test_an_unclean_election_takes_the_first_live_replica_alone_in_the_isr() -> None:
    before = partition("1", "1@5", 3, eligible="")
    assert look(before, live("2@6", "3@7"), rules(2, unclean=True)) == partition("2", "2@6", 4)


def test_an_unclean_election_is_not_held_while_somebody_with_every_record_lives() -> None:
    assert look(partition("13", "1@5", 3), live("2@6", "3@7"), rules(unclean=True)) == partition("3", "3@7", 4)
    before = partition("1", "1@5", 3, eligible="3")
    assert look(before, live("2@6", "3@7"), rules(2, unclean=True)) == partition("3", "3@7", 4, eligible="1")


def test_an_unclean_election_prefers_those_that_do_not_still_copy_everything() -> None:
    """One that is being added comes before one without any data only."""
    moving = partition("2", "none", 4, replicas="312", adding="3")
    assert look(moving, live("1@5", "3@7"), rules(unclean=True)).leader == 1
    assert look(moving, live("3@7"), rules(unclean=True)).leader == 3
    known = remembered("1@5", "3@7")
    assert look(moving, live("1@8?", "3@7"), rules(unclean=True), known).leader == 1, "it lacks the newest at most"
    assert look(moving, live("1@9~", "3@7"), rules(unclean=True), known).leader == 3


def test_nobody_is_eligible_after_an_unclean_election() -> None:
    before = partition("", "none", 4, eligible="12")
    assert look(before, live("3@7"), rules(2, unclean=True)) == partition("3", "3@7", 5)


def test_a_replica_without_its_data_is_the_last_choice_of_an_unclean_election() -> None:
    before = partition("", "none", 4)
    after = look(before, live("1@9~", "2@6"), rules(unclean=True), remembered("1@5", "2@6"))
    assert (after.leader, after.isr) == (2, (2,))


# Brokers that shut down.


def test_a_departing_leader_hands_over_and_leaves_the_isr() -> None:
    assert look(partition("123", "1@5", 3), live("1@5!", "2@6", "3@7")) == partition("23", "2@6", 4)


def test_a_departing_follower_leaves_the_isr() -> None:
    assert look(partition("123", "1@5", 3), live("1@5", "2@6!", "3@7")) == partition("13", "1@5", 3)


def test_a_departing_leader_that_nobody_can_replace_goes_on() -> None:
    before = partition("1", "1@5", 3)
    assert look(before, live("1@5!", "2@6", "3@7")) is before
    before = partition("12", "1@5", 3)
    assert look(before, live("1@5!", "3@7"), rules(2)) == partition("1", "1@5", 3, eligible="2")


def test_of_departing_brokers_only_the_leader_goes_on_if_it_can() -> None:
    before = partition("12", "1@5", 3)
    assert look(before, live("1@5!", "2@6!")) is before
    assert look(before, live("2@6!")) == partition("2", "2@6", 4)


def test_whoever_joins_the_isr_takes_over_from_a_departing_leader_at_once() -> None:
    before = partition("1", "1@5", 3)
    wanted = replace(before, isr=ids("12"))
    after = conclude(before, wanted, stand(live("1@5!", "2@6")), rules())
    assert after == partition("2", "2@6", 4)


# Restarts that nobody saw, and lost directories.


def test_a_follower_that_was_away_unseen_leaves_the_isr_until_it_has_caught_up() -> None:
    before = partition("123", "1@5", 3)
    after = look(before, live("1@5", "2@9", "3@7"), registrations=remembered("1@5", "2@6", "3@7"))
    assert after == partition("13", "1@5", 3)


def test_a_leader_is_replaced_by_a_steady_replica_rather_than_by_one_that_was_away() -> None:
    registrations = remembered("1@5", "2@6", "3@7")
    after = look(partition("123", "1@5", 3), live("2@9", "3@7"), registrations=registrations)
    assert after == partition("3", "3@7", 4)
    after = look(partition("", "none", 3, eligible="23"), live("2@9", "3@7"), rules(2), registrations)
    assert after == partition("3", "3@7", 4, eligible="2")


def test_all_stay_in_sync_when_all_were_away_unseen() -> None:
    registrations = remembered("1@5", "2@6", "3@7")
    after = look(partition("123", "1@5", 3), live("1@11", "2@12", "3@13"), registrations=registrations)
    assert after == partition("123", "1@11", 4)


def test_a_broker_that_lost_a_directory_leaves_isr_and_eligible_leaders_before_the_election() -> None:
    registrations = remembered("1@5", "2@6", "3@7")
    after = look(partition("12", "1@5", 3), live("1@9~", "2@6"), rules(2), registrations)
    assert after == partition("2", "2@6", 4)
    after = look(partition("2", "2@6", 3, eligible="1"), live("1@9~", "3@7"), rules(2), registrations)
    assert after == partition("", "none", 4, eligible="2")


def test_the_isr_becomes_empty_when_its_only_member_has_lost_its_data() -> None:
    after = look(partition("1", "1@5", 3), live("1@9~", "2@6"), registrations=remembered("1@5", "2@6"))
    assert after == partition("", "none", 4)
    assert look(after, live("1@9~", "2@6"), registrations=remembered("1@5", "2@6")) is after


def test_a_broker_with_lost_data_that_leads_already_was_attended_to() -> None:
    """A controller may die between the election and writing down that it knows of the loss."""
    before = partition("1", "1@9", 4)
    assert look(before, live("1@9~", "2@6"), registrations=remembered("1@5", "2@6")) is before


# Reassignments.


def test_a_reassignment_completes_when_all_targets_are_in_sync() -> None:
    before = partition("12", "1@5", 3, replicas="3412", adding="34", removing="12")
    brokers = live("1@5", "2@6", "3@7", "4@8")
    part_of_it = conclude(before, replace(before, isr=ids("123")), stand(brokers), rules())
    assert part_of_it == replace(before, isr=ids("123"))
    done = conclude(before, replace(before, isr=ids("1234")), stand(brokers), rules())
    assert done == partition("34", "3@7", 4, replicas="34")


def test_a_leader_that_stays_a_replica_leads_on_with_a_new_epoch() -> None:
    before = partition("123", "2@6", 3, replicas="321", adding="3", removing="1")
    done = conclude(before, before, stand(live("1@5", "2@6", "3@7")), rules())
    assert done == partition("23", "2@6", 4, replicas="32")


def test_a_target_that_is_away_holds_up_the_completion() -> None:
    before = partition("123", "1@5", 3, replicas="231", adding="3", removing="1")
    after = conclude(before, before, stand(live("1@5", "2@6")), rules())
    assert after == replace(before, isr=ids("12"))


# Preferred leaders.


def test_the_first_replica_leads_when_it_is_preferred_and_in_sync() -> None:
    before = partition("123", "2@6", 3)
    assert conclude(before, before, stand(ALL), rules(), prefer_first=True) == partition("123", "1@5", 4)
    behind = partition("23", "2@6", 3)
    assert conclude(behind, behind, stand(ALL), rules(), prefer_first=True) is behind
