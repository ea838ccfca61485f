"""confluent-kafka's admin client lists, describes and deletes groups, and sets their offsets."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.compat.confluent.group_admin import ConfluentGroupAdmin
from tests.compat.conftest import CrewFactory
from tests.compat.group_admin_cases import CASES, CONSUMERS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_with_the_admin_client(bootstrap: str, new_crew: CrewFactory, case: Callable[..., Any]) -> None:
    case(ConfluentGroupAdmin(bootstrap), lambda variant: new_crew(CONSUMERS, variant))
