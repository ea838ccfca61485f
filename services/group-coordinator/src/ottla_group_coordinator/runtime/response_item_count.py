"""How many items a response has, where a request may ask for very many. Pure.

A list of all groups, the members of a large one, all that a group has ever committed, the partitions of transactions:
kio's writers take some microseconds for each, and such a response is better not encoded on the event loop.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ottla_core.wire.group_responses import (
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_GROUPS,
    JOIN_GROUP,
    LIST_GROUPS,
    OFFSET_FETCH,
)
from ottla_core.wire.transaction_responses import ADD_PARTITIONS_TO_TXN, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS


def item_count(api_key: int, response: Any) -> int:
    """Return of how many items a response consists; 0 for those that are always short, or refuse the request."""
    count = _COUNTS.get(api_key)
    return 0 if count is None else count(response)


def _members(response: Any) -> int:
    return sum(len(group.members) for group in response.groups)


def _offsets(response: Any) -> int:
    groups = getattr(response, "groups", None)
    return sum(
        len(topic.partitions) for group in ((response,) if groups is None else groups) for topic in group.topics or ()
    )


def _added(response: Any) -> int:
    if hasattr(response, "results_by_topic_v3_and_below"):
        topics = response.results_by_topic_v3_and_below
    else:
        topics = [topic for result in response.results_by_transaction for topic in result.topic_results]
    return sum(len(topic.results_by_partition) for topic in topics)


def _described(response: Any) -> int:
    return sum(1 + sum(len(topic.partitions) for topic in state.topics) for state in response.transaction_states)


_COUNTS: Mapping[int, Callable[[Any], int]] = {
    CONSUMER_GROUP_DESCRIBE: _members,
    DESCRIBE_GROUPS: _members,
    JOIN_GROUP: lambda response: len(response.members),
    LIST_GROUPS: lambda response: len(response.groups),
    OFFSET_FETCH: _offsets,
    ADD_PARTITIONS_TO_TXN: _added,
    DESCRIBE_TRANSACTIONS: _described,
    LIST_TRANSACTIONS: lambda response: len(response.transaction_states),
}
