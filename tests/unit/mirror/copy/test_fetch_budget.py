"""All that may be answered at the same time fits into the buffer, with however many brokers."""

import random

import pytest

from ottla_mirror.copy.fetch_budget import FetchBudget

ANSWER_BYTES_MAX = 8_000


@pytest.mark.parametrize("brokers", [1, 2, 7, 40])
def test_answers_under_way_fit_into_the_buffer(brokers: int):
    chosen, budget = random.Random(brokers), FetchBudget()
    under_way: dict[int, int] = {}
    buffered, buffer_bytes = 0, 20_000
    for _ in range(2000):
        broker = chosen.randrange(brokers)
        if broker in under_way:  # answered, in part perhaps
            buffered += chosen.randint(0, under_way.pop(broker))
            budget.release(broker)
            buffered -= chosen.randint(0, buffered)
        elif buffered < buffer_bytes:
            under_way[broker] = budget.reserve(
                broker, free_bytes=buffer_bytes - buffered, bytes_max=ANSWER_BYTES_MAX, fetchers=brokers
            )
        assert buffered + sum(under_way.values()) <= buffer_bytes + brokers  # one byte each where nothing is left


def test_each_broker_has_its_part_while_all_others_wait_for_records():
    budget = FetchBudget()
    parts = [budget.reserve(broker, free_bytes=12_000, bytes_max=ANSWER_BYTES_MAX, fetchers=4) for broker in range(4)]
    assert parts == [3_000] * 4
    budget.release(2)
    assert budget.reserve(2, free_bytes=12_000, bytes_max=ANSWER_BYTES_MAX, fetchers=4) == 3_000


def test_a_single_broker_may_answer_with_as_much_as_an_answer_may_have():
    assert FetchBudget().reserve(1, free_bytes=12_000, bytes_max=ANSWER_BYTES_MAX, fetchers=1) == ANSWER_BYTES_MAX
