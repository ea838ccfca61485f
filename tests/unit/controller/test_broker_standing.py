"""What a broker's registration says, compared with what is remembered of it."""

from dataclasses import replace
from uuid import UUID

from ottla_controller.broker_standing import due_registrations, standings
from tests.support.replica_rules import live, remembered


def test_kinds_of_live_brokers() -> None:
    stand = standings(live("1@5", "2@6!", "3@9", "4@8~", "5@1"), remembered("1@5", "2@6", "3@7", "4@8"))
    assert (stand.departing, stand.restarted, stand.lost) == ({2}, {3}, {4})
    assert stand.fit == {1, 5}


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
