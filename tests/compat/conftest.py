"""Fixtures of the suites that real clients run."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compat.group_crew import Crew, GroupClient, Variant

CrewFactory = Callable[[GroupClient, Variant], Crew]


@pytest.fixture
def new_crew(bootstrap: str, tmp_path: Path) -> Iterator[CrewFactory]:
    """A function that makes a crew, which is gone after the test."""
    with ExitStack() as crews:
        yield lambda client, variant: crews.enter_context(Crew(client, variant, bootstrap, tmp_path))
