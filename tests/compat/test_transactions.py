"""Transactions of Python's clients: commit, abort, fencing, time-out, and consume-transform-produce."""

from collections.abc import Iterator

import pytest

from tests.compat import transaction_cases
from tests.compat.transaction_cases import PRODUCERS, MakeProducer, TransactionalProducer
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


def test_every_client_sees_what_was_committed_and_nothing_else(
    make: MakeProducer, bootstrap: str, new_topic: TopicFactory
) -> None:
    transaction_cases.every_client_sees_what_was_committed_and_nothing_else(make, bootstrap, new_topic)


def test_a_second_producer_with_the_same_id_keeps_the_first_one_out(
    make: MakeProducer, bootstrap: str, new_topic: TopicFactory
) -> None:
    transaction_cases.a_second_producer_with_the_same_id_keeps_the_first_one_out(make, bootstrap, new_topic)


def test_a_transaction_that_takes_too_long_is_aborted(
    make: MakeProducer, bootstrap: str, new_topic: TopicFactory
) -> None:
    transaction_cases.a_transaction_that_takes_too_long_is_aborted(make, bootstrap, new_topic)


def test_a_groups_offset_counts_with_the_records_that_were_made_of_its_input(
    make: MakeProducer, bootstrap: str, new_topic: TopicFactory
) -> None:
    transaction_cases.a_groups_offset_counts_with_the_records_that_were_made_of_its_input(make, bootstrap, new_topic)
