"""confluent-kafka in groups: every case in both protocols, and what only this client can do."""

from collections.abc import Callable

import pytest

from tests.compat.conftest import CrewFactory
from tests.compat.group_cases import CASES, RECORDS, case_name
from tests.compat.group_crew import Crew, PythonClient, Variant
from tests.support.eventually import eventually

CLIENT = PythonClient("tests.compat.confluent.member")
RANGE = Variant(name="range", assignor="range")
COOPERATIVE = Variant(name="cooperative-sticky", assignor="cooperative-sticky")
CONSUMER = Variant(name="consumer", protocol="consumer")
CONSUMER_RANGE = Variant(name="consumer-range", protocol="consumer", assignor="range")
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=case_name)

pytestmark = pytest.mark.slow


@EVERY_CASE
def test_in_an_eager_group(new_crew: CrewFactory, case: Callable[[Crew], None]) -> None:
    case(new_crew(CLIENT, RANGE))


@EVERY_CASE
def test_in_a_cooperative_group(new_crew: CrewFactory, case: Callable[[Crew], None]) -> None:
    case(new_crew(CLIENT, COOPERATIVE))


@EVERY_CASE
def test_in_a_group_of_the_consumer_protocol(new_crew: CrewFactory, case: Callable[[Crew], None]) -> None:
    case(new_crew(CLIENT, CONSUMER))


@pytest.mark.parametrize("variant", [COOPERATIVE, CONSUMER], ids=lambda variant: variant.name)
def test_members_keep_what_they_need_not_give_away(new_crew: CrewFactory, variant: Variant) -> None:
    crew = new_crew(CLIENT, variant)
    one = crew.start()
    crew.settle(one)
    other = crew.start()
    crew.settle(one, other)
    revoked = [tuple(each) for event in one.of_kind("revoked", "lost") for each in event["partitions"]]
    assert sorted(revoked) == sorted(other.owned)


@pytest.mark.parametrize("variant", [CONSUMER, CONSUMER_RANGE], ids=lambda variant: variant.name)
def test_the_coordinator_assigns_as_it_was_asked(new_crew: CrewFactory, variant: Variant) -> None:
    crew = new_crew(CLIENT, variant)
    members = [crew.start(), crew.start()]
    crew.settle(*members)
    assert crew.description().partition_assignor == (variant.assignor or "uniform")
    assert [len(member.owned) for member in members] == [2, 2]
    if variant.assignor == "range":
        halves = sorted(sorted(number for _, number in member.owned) for member in members)
        assert halves == [[0, 1], [2, 3]]


@pytest.mark.parametrize("classic", [RANGE, COOPERATIVE], ids=lambda variant: variant.name)
def test_a_running_group_is_moved_to_the_consumer_protocol_and_back_one_by_one(
    new_crew: CrewFactory, classic: Variant
) -> None:
    crew = new_crew(CLIENT, classic)
    crew.feed(RECORDS)
    old = [crew.start(), crew.start()]
    crew.settle(*old)
    assert crew.description().type.name == "CLASSIC"
    old[0].commit(dict.fromkeys(old[0].owned, 4))
    committed = crew.committed_offsets()
    new = [crew.start(variant=CONSUMER)]
    crew.settle(*old, *new)
    assert crew.description().type.name == "CONSUMER"
    assert crew.committed_offsets() == committed
    old[0].leave()
    new.append(crew.start(variant=CONSUMER))
    crew.settle(old[1], *new)
    old[1].leave()
    crew.settle(*new)
    new[1].commit(dict.fromkeys(new[1].owned, 6))
    back = crew.start()
    crew.settle(*new, back)
    for member in new:
        member.leave()
    crew.settle(back)
    eventually(lambda: crew.description().type.name == "CLASSIC", "the group is a classic one again")
    back.commit(dict.fromkeys(back.owned, 8))
    assert crew.committed_offsets() == dict.fromkeys(crew.partitions, 8)
