"""kcat in groups, with and without static membership: the cases that need no commands."""

from collections.abc import Callable

import pytest

from tests.compat.conftest import CrewFactory
from tests.compat.group_cases import CASES_WITHOUT_COMMANDS, a_pattern_finds_topics_that_come_later, case_name
from tests.compat.group_crew import Crew, Variant
from tests.compat.kcat.group_client import KcatGroupClient

RANGE = Variant(name="range", assignor="range")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kcat"),
]


@pytest.mark.parametrize("case", [*CASES_WITHOUT_COMMANDS, a_pattern_finds_topics_that_come_later], ids=case_name)
def test_in_an_eager_group(new_crew: CrewFactory, case: Callable[[Crew], None]) -> None:
    case(new_crew(KcatGroupClient(), RANGE))
