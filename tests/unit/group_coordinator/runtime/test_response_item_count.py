"""How many items a response has, whatever its version."""

from typing import Any

import pytest
from kio.index import load_response_schema

from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.group_responses import (
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LIST_GROUPS,
    OFFSET_FETCH,
)
from ottla_core.wire.messages import newest_version, oldest_version
from ottla_core.wire.transaction_responses import (
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    FIRST_BATCHED_ADD_PARTITIONS,
    LIST_TRANSACTIONS,
)
from ottla_group_coordinator.runtime.response_item_count import item_count

LISTS = {
    CONSUMER_GROUP_DESCRIBE: ["groups", "members"],
    DESCRIBE_GROUPS: ["groups", "members"],
    JOIN_GROUP: ["members"],
    LIST_GROUPS: ["groups"],
    OFFSET_FETCH: ["groups", "topics", "partitions"],
    ADD_PARTITIONS_TO_TXN: ["results_by_transaction", "topic_results", "results_by_partition"],
    LIST_TRANSACTIONS: ["transaction_states"],
}


def filled(response_type: type[Any], lists: list[str], each: int) -> Any:
    if not lists:
        return message_of(response_type)
    items = tuple(filled(item_type(response_type, lists[0]), lists[1:], each) for _ in range(each))
    return message_of(response_type, **{lists[0]: items})


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(key, version) for key in LISTS for version in range(oldest_version(key), newest_version(key) + 1)],
)
def test_the_items_of_all_lists_are_counted(api_key: int, version: int) -> None:
    response_type = load_response_schema(api_key, version)
    lists = [name for name in LISTS[api_key] if name != "groups" or hasattr(response_type, "groups")]
    if api_key == OFFSET_FETCH and "groups" not in response_type.__dataclass_fields__:
        lists = ["topics", "partitions"]
    if api_key == ADD_PARTITIONS_TO_TXN and version < FIRST_BATCHED_ADD_PARTITIONS:
        lists = ["results_by_topic_v3_and_below", "results_by_partition"]
    assert item_count(api_key, filled(response_type, lists, 3)) == 3 ** len(lists)
    assert item_count(api_key, message_of(response_type)) == 0


def test_transactions_and_their_partitions_are_counted() -> None:
    response_type = load_response_schema(DESCRIBE_TRANSACTIONS, 0)
    state_type = item_type(response_type, "transaction_states")
    topic_type = item_type(state_type, "topics")
    topics = tuple(message_of(topic_type, partitions=tuple(range(count))) for count in (2, 5))
    states = (message_of(state_type, topics=topics), message_of(state_type))
    assert item_count(DESCRIBE_TRANSACTIONS, message_of(response_type, transaction_states=states)) == 2 + 7


def test_a_short_response_counts_for_nothing() -> None:
    assert item_count(HEARTBEAT, message_of(load_response_schema(HEARTBEAT, 4))) == 0
