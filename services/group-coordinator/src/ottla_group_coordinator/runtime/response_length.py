"""How many items a response has, where a short request may ask for very many. Pure.

A list of all groups, the members of a large one, all that a group has ever committed: kio's writers take some
microseconds for each, and such a response is better not encoded on the event loop.
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


_COUNTS: Mapping[int, Callable[[Any], int]] = {
    CONSUMER_GROUP_DESCRIBE: _members,
    DESCRIBE_GROUPS: _members,
    JOIN_GROUP: lambda response: len(response.members),
    LIST_GROUPS: lambda response: len(response.groups),
    OFFSET_FETCH: _offsets,
}
