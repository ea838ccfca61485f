"""Who wrote `__consumer_offsets`, read from the brokers' files: one owner of a shard after the other, and none twice.

An owner writes under a producer id and epoch of its own. Once a later owner has written, a batch of an earlier one
would be the late write of a coordinator that was fenced. Batches of transactions have those of their producers.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

OFFSETS_TOPIC = "__consumer_offsets"
HEADER_BYTES = 61
LENGTH_COVERS_FROM = 12
_BASE_OFFSET_AND_LENGTH = struct.Struct(">qi")
_PRODUCER = struct.Struct(">qh")
_PRODUCER_FROM = 43
_ATTRIBUTES_LOW_BYTE = 22
_TRANSACTIONAL = 0x10


class Owner(NamedTuple):
    """Who wrote a batch."""

    producer_id: int
    producer_epoch: int


def producer_epoch_problems(data: Path) -> list[str]:
    """Every batch of an owner that had already been replaced.

    Args:
        data: a directory with the log directories of all brokers somewhere in it.

    Raises:
        AssertionError: there is nothing to look at.
    """
    partitions = sorted(each for each in data.rglob(f"{OFFSETS_TOPIC}-*") if each.is_dir())
    owners = {partition: list(_owners(partition)) for partition in partitions}
    assert any(owners.values()), f"no shard has been written to in {data}"
    return [
        f"{partition.name}: {problem}" for partition, found in owners.items() for problem in owner_problems(found)
    ]


def owner_problems(owners: Iterable[tuple[int, Owner]]) -> Iterator[str]:
    """What is wrong with the owners of batches, given by base offset in the order of the log."""
    replaced: set[Owner] = set()
    present: Owner | None = None
    for offset, owner in owners:
        if owner == present:
            continue
        if owner in replaced:
            yield f"offset {offset} was written by {owner} after {present} had taken over"
        if present is not None:
            replaced.add(present)
        present = owner


def _owners(partition: Path) -> Iterator[tuple[int, Owner]]:
    for segment in sorted(partition.glob("*.log")):
        content = segment.read_bytes()
        position = 0
        while position + HEADER_BYTES <= len(content):
            offset, length = _BASE_OFFSET_AND_LENGTH.unpack_from(content, position)
            if not content[position + _ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL:
                yield offset, Owner(*_PRODUCER.unpack_from(content, position + _PRODUCER_FROM))
            position += LENGTH_COVERS_FROM + length
