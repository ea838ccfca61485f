"""What a broker's registration says, compared with what is remembered of it."""

from dataclasses import replace
from uuid import UUID

import pytest

from ottla_controller.broker_standing import due_registrations, standings
from ottla_core.cluster.state.model import NO_EPOCH
from tests.support.controller.replica_rules import live, remembered


def test_kinds_of_live_brokers() -> None:
    stand = standings(live("1@5", "2@6!", "3@9", "4@8~", "5@1"), remembered("1@5", "2@6", "3@7", "4@8"))
    assert (stand.departing, stand.restarted, stand.lost) == ({2}, {3}, {4})
    assert stand.fit == {1, 5}


@pytest.mark.parametrize(
    ("intact_since", "unclean"),
    [
        (0, False),
        (7, False),  # a power failure before the registration that was attended to
        (8, True),  # and one since, though the broker has registered twice by now
        (NO_EPOCH, True),
    ],
)
def test_an_unclean_shutdown_counts_until_a_registration_after_it_was_attended_to(
    intact_since: int, unclean: bool
) -> None:
    (member,) = live("3@9").values()
    stand = standings({3: replace(member, intact_since=intact_since)}, remembered("3@7"))
    assert (3 in stand.restarted, 3 in stand.unclean) == (True, unclean)
    attended = standings({3: replace(member, intact_since=intact_since)}, remembered("3@9"))
    assert (attended.unclean, attended.fit) == (frozenset(), {3})


def test_another_directory_beside_the_known_ones_is_no_loss() -> None:
    brokers = live("1@5")
    more = {1: replace(brokers[1], directory_ids=(UUID(int=7), *brokers[1].directory_ids))}
    assert standings(more, remembered("1@5")).fit == {1}
    (due,) = due_registrations(more, remembered("1@5"))
    assert due.directory_ids == more[1].directory_ids


def test_brokers_that_are_new_or_different_are_to_be_remembered() -> None:
    known = {1: replace(remembered("1@5")[1], revision=77), **remembered("2@6")}
    due = due_registrations(live("1@9", "2@6", "3@7"), known)
    assert [(one.broker_id, one.broker_epoch, one.revision) for one in due] == [(1, 9, 77), (3, 7, 0)]


def test_a_broker_that_is_away_is_still_remembered() -> None:
    assert due_registrations({}, remembered("1@5")) == []
