"""aiokafka in groups: every case, and every assignor it has."""

from collections.abc import Callable

import pytest

from tests.compat import group_cases
from tests.compat.conftest import CrewFactory
from tests.compat.group_cases import case_name, members_share_and_take_over_from_one_that_leaves
from tests.compat.group_crew import Crew, PythonClient, Variant

CLIENT = PythonClient("tests.compat.aiokafka.member")
RANGE = Variant(name="range", assignor="range")
OTHERS = (Variant(name="roundrobin", assignor="roundrobin"), Variant(name="sticky", assignor="sticky"))

# aiokafka's heartbeats do not say an instance id, so it never learns that it was fenced: two of them fight for ever.
CASES = [case for case in group_cases.CASES if case is not group_cases.of_two_with_one_instance_id_one_gives_up]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_in_an_eager_group(new_crew: CrewFactory, case: Callable[[Crew], None]) -> None:
    case(new_crew(CLIENT, RANGE))


@pytest.mark.parametrize("variant", OTHERS, ids=lambda variant: variant.name)
def test_members_share_with_every_assignor(new_crew: CrewFactory, variant: Variant) -> None:
    members_share_and_take_over_from_one_that_leaves(new_crew(CLIENT, variant))
