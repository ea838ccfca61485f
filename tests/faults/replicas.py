"""Whether the replicas of a partition are the same, batch by batch, as their files have them.

SegmentList may begin at different offsets, because each broker rolls its own; so what is compared is the sequence of
batches up to the high watermark, every byte of them. The brokers must have stopped.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

_BASE_OFFSET_AND_LENGTH = struct.Struct(">qi")
LENGTH_COVERS_FROM = 12
HEADER_BYTES = 61
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_FROM = 23
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_FROM = 12
_PRODUCER = struct.Struct(">qhii")
_PRODUCER_FROM = 43
NO_PRODUCER = -1
NO_SEQUENCE = -1
SEQUENCES = 1 << 31


class Batch(NamedTuple):
    """One record batch as it stands in a file."""

    base_offset: int
    content: bytes

    @property
    def next_offset(self) -> int:
        return self.base_offset + int(_LAST_OFFSET_DELTA.unpack_from(self.content, _LAST_OFFSET_DELTA_FROM)[0]) + 1

    @property
    def leader_epoch(self) -> int:
        return int(_LEADER_EPOCH.unpack_from(self.content, _LEADER_EPOCH_FROM)[0])

    @property
    def producer(self) -> tuple[int, int]:
        """The producer's id and epoch."""
        producer_id, epoch, _, _ = _PRODUCER.unpack_from(self.content, _PRODUCER_FROM)
        return int(producer_id), int(epoch)

    @property
    def sequences(self) -> tuple[int, int]:
        """The first sequence number, and the one that must follow."""
        _, _, base_sequence, count = _PRODUCER.unpack_from(self.content, _PRODUCER_FROM)
        return int(base_sequence), (int(base_sequence) + int(count)) % SEQUENCES

    def __str__(self) -> str:
        return f"{self.base_offset}..{self.next_offset - 1} of epoch {self.leader_epoch}, {len(self.content)} bytes"


def batches_of(content: bytes) -> Iterator[Batch]:
    """The batches of a segment; a torn last one is left out."""
    position = 0
    while position + HEADER_BYTES <= len(content):
        base_offset, length = _BASE_OFFSET_AND_LENGTH.unpack_from(content, position)
        end = position + LENGTH_COVERS_FROM + length
        if end > len(content) or length < HEADER_BYTES - LENGTH_COVERS_FROM:
            return
        yield Batch(base_offset, content[position:end])
        position = end


def replica_batches(partition: Path) -> Iterator[Batch]:
    """The batches of all segments in a partition's directory."""
    for segment in sorted(partition.glob("*.log")):
        yield from batches_of(segment.read_bytes())


def sequence_problems(partition: str, batches: Iterable[Batch], *, is_whole: bool = True) -> Iterator[str]:
    """Batches that do not continue the sequence of their producer's epoch, or that come from an earlier epoch.

    Args:
        partition: its name, for messages.
        batches: all that is left of it.
        is_whole: whether that is everything; else a sequence may begin anywhere.
    """
    expected: dict[tuple[int, int], int] = {}
    epochs: dict[int, int] = {}
    for batch in batches:
        producer_id, epoch = batch.producer
        if producer_id == NO_PRODUCER:
            continue
        first, following = batch.sequences
        if first == NO_SEQUENCE:  # a marker of a transaction
            epochs[producer_id] = max(epoch, epochs.get(producer_id, epoch))
            continue
        wanted = expected.get((producer_id, epoch), 0 if is_whole else first)
        if first != wanted:
            yield f"{partition}: {batch} of producer {producer_id} has sequence {first} instead of {wanted}"
        if epoch < epochs.get(producer_id, epoch):
            yield f"{partition}: {batch} comes from epoch {epoch} of producer {producer_id} after a later one"
        expected[producer_id, epoch] = following
        epochs[producer_id] = max(epoch, epochs.get(producer_id, epoch))


def replica_problems(
    partition: str,
    replicas: Mapping[str, Iterable[Batch]],
    high_watermark: int,
    *,
    begins_at: int = 0,
    rolled_at: Mapping[str, int] = MappingProxyType({}),
) -> Iterator[str]:
    """The first difference between any two replicas below the high watermark, and replicas that end before it.

    Args:
        partition: its name, for messages.
        replicas: the batches of each, by the broker's name.
        high_watermark: up to which offset they must be the same.
        begins_at: from which batch on; what lies before may be deleted on one broker and not yet on another.
        rolled_at: where each replica's last segment begins, which may be empty.
    """
    if begins_at >= high_watermark:
        return  # all that was committed may be deleted on one broker and not yet on another
    committed = {
        name: [batch for batch in batches if begins_at <= batch.base_offset < high_watermark]
        for name, batches in replicas.items()
    }
    for name, batches in committed.items():
        end = max(batches[-1].next_offset if batches else 0, rolled_at.get(name, 0))
        if end < high_watermark:
            yield f"{partition}: the replica of {name} ends at {end}, below the high watermark {high_watermark}"
    (first_name, first), *others = committed.items()
    for name, batches in others:
        for one, other in zip_longest(first, batches):
            if one != other:
                yield f"{partition}: {first_name} has {one} where {name} has {other}"
                break


def last_value_problems(
    partition: str, replicas: Mapping[str, Mapping[bytes, tuple[int, bytes | None]]]
) -> Iterator[str]:
    """Keys of a compacted partition whose last records differ between replicas, as offset and value of each tell."""
    (first_name, first), *others = replicas.items()
    for name, values in others:
        for key in sorted(first.keys() | values.keys()):
            one, other = first.get(key), values.get(key)
            if one != other:
                at = [None if each is None else each[0] for each in (one, other)]
                yield f"{partition}: the last {key!r} of {first_name} is at {at[0]}, that of {name} at {at[1]}"
