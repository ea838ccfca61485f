"""Groups change their protocol while they run, and are there for every member, one that was away included."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.group_crew import Crew, PythonClient, Variant
from tests.support.eventually import eventually

CLIENT = PythonClient("tests.compat.confluent.member")
CLASSIC = Variant(name="cooperative-sticky", assignor="cooperative-sticky")
CONSUMER = Variant(name="consumer", protocol="consumer")
# The member's session, in front of which the machine may be busy.
DOWNGRADE_DEADLINE_S = 60.0

pytestmark = pytest.mark.slow


@pytest.fixture
def crew(bootstrap: str, tmp_path: Path) -> Iterator[Crew]:
    with Crew(CLIENT, CLASSIC, bootstrap, tmp_path) as crew:
        yield crew


def test_a_cooperative_group_that_has_rebalanced_before_is_upgraded(crew: Crew) -> None:
    """From its second rebalance on, librdkafka puts data of its own into assignments."""
    first = crew.start()
    crew.settle(first)
    second = crew.start()
    crew.settle(first, second)
    new = crew.start(variant=CONSUMER)
    crew.settle(first, second, new)
    assert crew.description().type.name == "CONSUMER"


def test_members_that_wait_for_others_hear_nothing_of_an_upgrade(crew: Crew) -> None:
    """librdkafka hands every error of JoinGroup that is not to be repeated to the application."""
    first, silent = crew.start(), crew.start()
    crew.settle(first, silent)
    silent.freeze()
    second = crew.start()
    eventually(lambda: crew.description().state.name == "PREPARING_REBALANCING", "the others wait for the silent one")
    eventually(lambda: len(crew.description().members) == 3, "the new member waits, too")
    new = crew.start(variant=CONSUMER)
    eventually(lambda: crew.description().type.name == "CONSUMER", "the group is upgraded")
    silent.thaw()
    crew.settle(first, second, silent, new)


def test_a_member_that_was_silent_while_its_group_went_back_to_classic_joins_again(crew: Crew) -> None:
    old, new = crew.start(), crew.start(variant=CONSUMER)
    crew.settle(old, new)
    new.freeze()
    eventually(
        lambda: crew.description().type.name == "CLASSIC",
        "the group is a classic one again",
        within_s=DOWNGRADE_DEADLINE_S,
    )
    crew.settle(old)
    new.thaw()
    crew.settle(old, new)
    assert crew.description().type.name == "CONSUMER"
