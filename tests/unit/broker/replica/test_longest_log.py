"""Who has the longest log, before a replica leads that may lack records."""

import pytest

from ottla_broker.replica.leader_replica import FollowerContact
from ottla_broker.replica.longest_log import LogReach, LongestLog, LongestLogSearch
from ottla_core.cluster.state.model import Member
from tests.support.controller.replica_rules import live

REPLICAS = (1, 2, 3)
WAIT_MS = 30_000
OWN = LogReach(4, 40)


ALL = live("1@71", "2@72", "3@73")


def search(**heard: tuple[int, int]) -> LongestLogSearch:
    """A search of broker 1, begun at 0, that has heard others under the registrations of `ALL`."""
    begun = LongestLogSearch(1, 5, OWN, 0)
    for name, reach in heard.items():
        hear(begun, int(name[1:]), *reach)
    return begun


def hear(
    begun: LongestLogSearch, broker_id: int, epoch: int, end: int, *, broker_epoch: int = 0, is_whole: bool = True
) -> None:
    contact = FollowerContact(broker_id, broker_epoch or 70 + broker_id, 0)
    begun.heard(contact, LogReach(epoch, end, is_whole))


def longest(
    begun: LongestLogSearch,
    registered: dict[int, Member] = ALL,
    *,
    now_ms: int = 0,
    wait_ms: int | None = WAIT_MS,
) -> LongestLog | None:
    return begun.longest(REPLICAS, registered, now_ms=now_ms, wait_ms=wait_ms)


@pytest.mark.parametrize(
    ("story", "second", "third", "found"),
    [
        ("others have less", (4, 39), (3, 39), (1, 71, OWN)),
        ("others have as much", (4, 40), (4, 40), (1, 71, OWN)),
        ("one has more", (4, 41), (4, 40), (2, 72, LogReach(4, 41))),
        ("one has even more", (4, 41), (4, 60), (3, 73, LogReach(4, 60))),
        ("a later epoch counts more than a later end", (4, 60), (5, 30), (3, 73, LogReach(5, 30))),
        ("an earlier epoch counts less", (3, 60), (-1, 0), (1, 71, OWN)),
    ],
)
def test_the_longest_log_has_the_latest_epoch_and_in_that_the_highest_end(
    story: str, second: tuple[int, int], third: tuple[int, int], found: tuple[int, int, LogReach]
) -> None:
    assert longest(search(b2=second, b3=third)) == found, story


def test_of_logs_that_reach_as_far_one_without_a_gap_is_the_best() -> None:
    gap = LongestLogSearch(1, 5, LogReach(4, 40, is_whole=False), 0)
    hear(gap, 2, 4, 40)
    hear(gap, 3, 4, 39)
    assert longest(gap) == (2, 72, OWN)
    hear(gap, 2, 4, 40, is_whole=False)
    assert longest(gap) == (1, 71, LogReach(4, 40, is_whole=False)), "or they would name each other for ever"
    hear(gap, 2, 4, 41, is_whole=False)
    assert longest(gap) == (2, 72, LogReach(4, 41, is_whole=False)), "what is behind a gap may be nowhere else"


def test_a_log_that_retention_has_emptied_is_longer_than_those_that_end_before_it() -> None:
    """It does not know its last epoch any more. Offsets that were used again would be passed over by consumers."""
    emptied = LongestLogSearch(1, 5, LogReach(-1, 40), 0)
    hear(emptied, 2, 4, 39)
    hear(emptied, 3, -1, 10)
    assert longest(emptied) == (1, 71, LogReach(-1, 40))
    hear(emptied, 2, 4, 40)
    assert longest(emptied) == (2, 72, LogReach(4, 40)), "it has what is not removed yet"
    assert longest(search(b2=(-1, 41), b3=(4, 39))) == (2, 72, LogReach(-1, 41))
    assert longest(search(b2=(-1, 0), b3=(4, 39))) == (1, 71, OWN), "it has never had anything"


def test_all_others_are_waited_for_until_the_time_is_over() -> None:
    begun = search(b2=(4, 60))
    assert begun.missing(REPLICAS, ALL) == (3,)
    assert longest(begun, now_ms=WAIT_MS - 1) is None
    assert longest(begun, now_ms=WAIT_MS) == (2, 72, LogReach(4, 60))
    assert longest(search(), live("1@71"), now_ms=WAIT_MS) == (1, 71, OWN)


def test_who_knows_of_a_loss_waits_as_long_as_it_takes() -> None:
    begun = search(b2=(4, 60))
    assert longest(begun, now_ms=1000 * WAIT_MS, wait_ms=None) is None
    hear(begun, 3, 4, 70)
    assert longest(begun, wait_ms=None) == (3, 73, LogReach(4, 70))


@pytest.mark.parametrize("registered", [live("1@71", "2@72", "3@90"), live("1@71", "2@72")], ids=["anew", "gone"])
def test_what_was_heard_under_a_former_registration_does_not_count(registered: dict[int, Member]) -> None:
    """It may have lost power since, or be away and not able to lead."""
    begun = search(b2=(4, 30), b3=(4, 60))
    assert begun.missing(REPLICAS, registered) == (3,)
    assert longest(begun, registered) is None
    assert longest(begun, registered, now_ms=WAIT_MS) == (1, 71, OWN)
    hear(begun, 3, 4, 50, broker_epoch=90)
    if 3 in registered:
        assert longest(begun, registered) == (3, 90, LogReach(4, 50))


def test_nobody_is_named_by_one_that_is_not_registered() -> None:
    assert longest(search(b2=(4, 60), b3=(4, 60)), live("2@72", "3@73"), now_ms=WAIT_MS) is None
