"""What a group of consumers must do whatever client its members use, written once; `group_crew.py` has the members.

A client's folder has a `member.py`, or for kcat a `group_client.py`, and a suite that walks the cases. Everything is
awaited with a deadline; nothing is timed.
"""

from collections.abc import Callable

from tests.compat.group_crew import PARTITIONS, SETTLE_DEADLINE_S, Crew, GroupMember
from tests.support.clusters.broker_under_test import make_topic
from tests.support.eventually import eventually

RECORDS = 10
AUTO_COMMIT_MS = 200
RESTART_MS = 120_000
"""In which a member starts again, Java and a busy machine included."""


def a_member_alone_owns_every_partition(crew: Crew) -> None:
    crew.feed(RECORDS)
    member = crew.start()
    crew.settle(member)
    crew.wait_until_read(member, crew.records(0, RECORDS))
    assert sorted(member.records) == sorted(crew.records(0, RECORDS)), "nothing is read twice"
    (described,) = crew.description().members
    told = {(each.topic, each.partition) for each in described.assignment.topic_partitions}
    assert told == crew.partitions
    assert described.host.removeprefix("/") == "127.0.0.1"


def members_share_and_take_over_from_one_that_leaves(crew: Crew) -> None:
    one = crew.start()
    crew.settle(one)
    other = crew.start()
    crew.settle(one, other)
    third = crew.start()
    crew.settle(one, other, third)
    crew.feed(RECORDS)
    eventually(
        lambda: {*one.records, *other.records, *third.records} == crew.records(0, RECORDS),
        "all together have read every record",
        within_s=SETTLE_DEADLINE_S,
    )
    one.leave()
    crew.settle(other, third)
    third.leave()
    crew.settle(other)


def members_take_over_from_one_that_is_killed(crew: Crew) -> None:
    one, other = crew.start(), crew.start()
    crew.settle(one, other)
    one.kill()
    crew.settle(other)
    another = crew.start()
    crew.settle(other, another)


def a_member_beyond_the_partitions_waits_for_its_turn(crew: Crew) -> None:
    members = [crew.start() for _ in range(PARTITIONS)]
    crew.settle(*members)
    members.append(crew.start())
    idle = crew.settle_but_one(*members)
    leaving = next(member for member in members if member is not idle)
    leaving.leave()
    crew.settle(*(member for member in members if member is not leaving))


def what_is_committed_synchronously_is_where_the_next_one_begins(crew: Crew) -> None:
    _commit_and_resume(crew, is_async=False)


def what_is_committed_asynchronously_is_where_the_next_one_begins(crew: Crew) -> None:
    _commit_and_resume(crew, is_async=True)


def a_commit_keeps_its_metadata_and_the_latest_one_counts(crew: Crew) -> None:
    crew.feed(RECORDS)
    member = crew.start()
    crew.settle(member)
    for offset, note in ((3, "first"), (7, "zweite Überlegung"), (5, "")):
        member.commit(dict.fromkeys(crew.partitions, offset), metadata=note)
        assert crew.committed() == dict.fromkeys(crew.partitions, (offset, note))
    some = min(crew.partitions)
    member.commit({some: 9}, metadata="alone")
    assert crew.committed() == {each: (9, "alone") if each == some else (5, "") for each in crew.partitions}


def what_was_read_is_committed_automatically(crew: Crew) -> None:
    crew.feed(RECORDS)
    member = crew.start(auto_commit_ms=AUTO_COMMIT_MS)
    crew.wait_until_read(member, crew.records(0, RECORDS))
    _wait_until_committed(crew, RECORDS)
    member.leave()
    crew.feed(RECORDS // 2)
    successor = crew.start(auto_commit_ms=AUTO_COMMIT_MS)
    crew.wait_until_read(successor, crew.records(RECORDS, RECORDS + RECORDS // 2))
    assert set(successor.records) == crew.records(RECORDS, RECORDS + RECORDS // 2)
    successor.leave()
    assert crew.committed_offsets() == dict.fromkeys(crew.partitions, RECORDS + RECORDS // 2)


def a_group_goes_on_after_all_its_members_were_killed(crew: Crew) -> None:
    crew.feed(RECORDS)
    members = [crew.start(auto_commit_ms=AUTO_COMMIT_MS) for _ in range(2)]
    crew.settle(*members)
    _wait_until_committed(crew, RECORDS)
    for member in members:
        member.kill()
    crew.feed(RECORDS)
    crew.wait_until_empty()
    assert crew.committed_offsets() == dict.fromkeys(crew.partitions, RECORDS)
    successor = crew.start()
    crew.wait_until_read(successor, crew.records(RECORDS, 2 * RECORDS))
    assert set(successor.records) == crew.records(RECORDS, 2 * RECORDS)


def a_static_member_that_is_restarted_in_time_is_not_missed(crew: Crew) -> None:
    """In the consumer protocol it must have said that it goes, or else its successor has to wait (KIP-848)."""
    patience = {"session_timeout_ms": RESTART_MS}
    one, other = crew.start(instance_id="one", **patience), crew.start(instance_id="other", **patience)
    crew.settle(one, other)
    owned, changes = one.owned, other.changes()
    if crew.variant.protocol == "classic":
        one.kill()
    else:
        one.leave()
    again = crew.start(instance_id="one", **patience)
    crew.settle(again, other)
    assert again.owned == owned
    crew.feed(RECORDS)
    mine = {record for record in crew.records(0, RECORDS) if record[:2] in owned}
    crew.wait_until_read(again, mine)
    assert other.changes() == changes, f"the other one noticed: {other.tail()}"
    instances = sorted(each.group_instance_id for each in crew.description().members)
    assert instances == ["one", "other"]


def a_static_member_that_stays_away_is_replaced(crew: Crew) -> None:
    one, other = crew.start(instance_id="one"), crew.start(instance_id="other")
    crew.settle(one, other)
    one.kill()
    crew.settle(other)
    again = crew.start(instance_id="one")
    crew.settle(again, other)


def of_two_with_one_instance_id_one_gives_up(crew: Crew) -> None:
    """In the classic protocol the newcomer takes over; in the consumer protocol it is told to wait (KIP-848)."""
    crew.feed(RECORDS)
    first = crew.start(instance_id="same", auto_commit_ms=AUTO_COMMIT_MS)  # some notice it when they commit
    crew.settle(first)
    second = crew.start(instance_id="same", auto_commit_ms=AUTO_COMMIT_MS)
    if crew.variant.protocol == "classic":
        _wait_until_refused(first)
        crew.settle(second)
    else:
        _wait_until_refused(second)
        assert first.owned == crew.partitions
        assert first.failure() is None


def seeking_and_pausing_leave_the_group_as_it_is(crew: Crew) -> None:
    crew.feed(RECORDS)
    member = crew.start()
    crew.wait_until_read(member, crew.records(0, RECORDS))
    first, second, *_ = sorted(crew.partitions)
    member.commit(dict.fromkeys(crew.partitions, 5))
    changes = member.changes()
    member.pause([first])
    member.seek(second, 2)
    member.eventually(lambda: member.records.count((*second, 2)) == 2, "it reads again what it has sought")
    crew.feed(1)
    crew.wait_until_read(member, {record for record in crew.records(RECORDS, RECORDS + 1) if record[:2] != first})
    assert (*first, RECORDS) not in member.records
    member.resume([first])
    crew.wait_until_read(member, crew.records(RECORDS, RECORDS + 1))
    assert (member.changes(), member.owned) == (changes, crew.partitions)
    assert crew.committed_offsets() == dict.fromkeys(crew.partitions, 5)


def a_pattern_finds_topics_that_come_later(crew: Crew) -> None:
    member = crew.start(pattern=f"{crew.group}.*")
    crew.settle(member)
    later = make_topic(crew.bootstrap, prefix=crew.group, partitions=2)
    other = crew.start(pattern=f"{crew.group}.*")
    crew.settle(member, other, all_of=crew.partitions | {(later, 0), (later, 1)})


CASES_WITHOUT_COMMANDS = (
    a_member_alone_owns_every_partition,
    members_share_and_take_over_from_one_that_leaves,
    members_take_over_from_one_that_is_killed,
    what_was_read_is_committed_automatically,
    a_group_goes_on_after_all_its_members_were_killed,
    a_static_member_that_is_restarted_in_time_is_not_missed,
    a_static_member_that_stays_away_is_replaced,
    of_two_with_one_instance_id_one_gives_up,
)
CASES = (
    *CASES_WITHOUT_COMMANDS,
    a_pattern_finds_topics_that_come_later,
    a_member_beyond_the_partitions_waits_for_its_turn,
    what_is_committed_synchronously_is_where_the_next_one_begins,
    what_is_committed_asynchronously_is_where_the_next_one_begins,
    a_commit_keeps_its_metadata_and_the_latest_one_counts,
    seeking_and_pausing_leave_the_group_as_it_is,
)


def case_name(case: Callable[[Crew], None]) -> str:
    """For pytest's ids."""
    return case.__name__


def _commit_and_resume(crew: Crew, *, is_async: bool) -> None:
    crew.feed(RECORDS)
    member = crew.start()
    crew.wait_until_read(member, crew.records(0, RECORDS))
    assert crew.committed_offsets() == {}
    offsets = {partition: 3 + partition[1] for partition in crew.partitions}
    member.commit(offsets, is_async=is_async)
    assert crew.committed_offsets() == offsets
    member.leave()
    assert crew.committed_offsets() == offsets
    successor = crew.start()
    rest = {record for record in crew.records(0, RECORDS) if record[2] >= offsets[record[:2]]}
    crew.wait_until_read(successor, rest)
    assert set(successor.records) == rest


def _wait_until_committed(crew: Crew, offset: int) -> None:
    eventually(
        lambda: crew.committed_offsets() == dict.fromkeys(crew.partitions, offset),
        f"{offset} is committed everywhere",
        within_s=SETTLE_DEADLINE_S,
    )


def _wait_until_refused(member: GroupMember) -> None:
    eventually(member.failure, f"{member.name} gives up", within_s=SETTLE_DEADLINE_S)
    failure = member.failure() or ""
    assert any(word in failure.lower() for word in ("fenced", "unreleased", "instance")), failure
