"""Transactions of Python's clients: commit, abort, fencing, time-out, and consume-transform-produce."""

from collections.abc import Iterator

import pytest

from tests.compat.transaction_cases import CASES, PRODUCERS, Case, MakeProducer, TransactionalProducer, case_name
from tests.conftest import TopicFactory

pytestmark = pytest.mark.slow


@pytest.fixture(params=PRODUCERS)
def make(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[MakeProducer]:
    """Makes producers of one client, which are closed after the test."""
    made: list[TransactionalProducer] = []

    def new(transactional_id: str, **settings: int) -> TransactionalProducer:
        producer = PRODUCERS[request.param](bootstrap, transactional_id, **settings)
        made.append(producer)
        return producer

    yield new
    for each in made:
        each.close()


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_transactions(case: Case, make: MakeProducer, bootstrap: str, new_topic: TopicFactory) -> None:
    case(make, bootstrap, new_topic)
