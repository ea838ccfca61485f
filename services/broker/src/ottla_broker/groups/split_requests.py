"""Requests that name several groups or transactional ids: parts of them by shard, and one answer again. Pure."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kio.static.protocol import Entity

from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.conversion import message_of


@dataclass(frozen=True, slots=True)
class GroupLists:
    """Where an API's messages have their groups.

    Attributes:
        requested: the request's array: group ids, or messages that have a `group_id`.
        answered: the response's array of messages that have a `group_id`.
        name: the field that has the group's id in both, or another name by which shards are found.
    """

    requested: str
    answered: str
    name: str = "group_id"


def split(
    message: Any, lists: GroupLists, shard_for: Callable[[str], TopicPartition]
) -> Mapping[TopicPartition, Any]:
    """Return the parts of a request by the shard that keeps their groups; the request itself if that is only one."""
    shards: dict[TopicPartition, list[Any]] = defaultdict(list)
    for item in getattr(message, lists.requested):
        shards[shard_for(_name(item, lists))].append(item)
    if len(shards) == 1:
        return dict.fromkeys(shards, message)
    return {shard: replace(message, **{lists.requested: tuple(items)}) for shard, items in shards.items()}


def merge(message: Any, lists: GroupLists, response_type: type[Entity], answers: Iterable[Any]) -> Entity:
    """Return the response to a request from the answers to its parts.

    The groups stand in the order in which the request names them; in the answers they may stand in any.
    """
    found: dict[str, deque[Any]] = defaultdict(deque)
    for answer in answers:
        for item in getattr(answer, lists.answered):
            found[getattr(item, lists.name)].append(item)
    requested = (found[_name(item, lists)] for item in getattr(message, lists.requested))
    return message_of(response_type, **{lists.answered: tuple(items.popleft() for items in requested if items)})


def _name(item: Any, lists: GroupLists) -> str:
    return item if isinstance(item, str) else getattr(item, lists.name)
