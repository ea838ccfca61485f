"""The topics that operators of a trial of mirrors delete, create anew and extend, and what they must hold. Pure.

Each has one writer at a time, which numbers its records by life of the topic and partition. The writer of a later
life comes after the former one was deleted, so in a copy the lives stand one behind the other: of each former one a
beginning, which is what was copied before the deletion, of the last one everything. A linked topic stops at the end
of the life that it was made to follow.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.faults.history import Content


class Mirrored(NamedTuple):
    """Two topics with the same life, one of which is copied and the other linked."""

    copied: str
    linked: str


REBORN = Mirrored("reborn", "linked-reborn")
GROWING = Mirrored("growing", "linked-growing")
OPERATED = (*REBORN, *GROWING)
RECORDS_AT_ONCE = 150


def key_of(life: int) -> str:
    """The key of all records of a life."""
    return f"life-{life}"


def copy_problems(name: str, written: Sequence[int], found: Sequence[Content], *, is_copied: bool) -> Iterator[str]:
    """What is wrong with what the target has of one partition.

    Args:
        name: of the partition.
        written: how many records were acknowledged in each life, in order.
        found: the target's records, in the order of their offsets.
        is_copied: whether the partition is copied, rather than linked.
    """
    lives = [int(content.key.removeprefix("life-")) for content in found]
    if lives != sorted(lives):
        yield f"{name}: records of a life stand behind those of a later one"
    for life in range(len(written)):
        numbers = [content.number for content in found if content.key == key_of(life)]
        if numbers != list(range(len(numbers))):
            at = next(index for index, number in enumerate(numbers) if number != index)
            yield f"{name}: record {numbers[at]} of {key_of(life)} stands where {at} should"
    last = len(written) - 1 if is_copied else 0
    if any(life > last for life in lives):
        yield f"{name}: there are records of life {max(lives)}, and {last} is the last that may be there"
    # Of a former life a linked topic has what was copied before its end.
    complete = [last] if is_copied or len(written) == 1 else []
    for life in complete:
        count = lives.count(life)
        if count < written[life]:
            yield f"lost: {name} has {count} records of {key_of(life)}, of which {written[life]} were acknowledged"
