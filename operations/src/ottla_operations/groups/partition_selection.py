"""Which partitions of a group a command is about: ``--topic flights`` or ``--topic flights:0,2``. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence

_SELECTION = re.compile(r"(?P<topic>[^:]+)(?::(?P<partitions>\d{1,9}(?:,\d{1,9})*))?")

ALL_PARTITIONS: frozenset[int] = frozenset()


class BadSelection(ValueError):
    """A selection that is not understood or that names what is not there; the message says what."""


def parse_selection(texts: Iterable[str]) -> dict[str, frozenset[int]]:
    """Return the chosen partitions by topic; `ALL_PARTITIONS` where a topic was named without any.

    Raises:
        BadSelection: one is not TOPIC or TOPIC:0,1.
    """
    chosen: dict[str, frozenset[int]] = {}
    for text in texts:
        match = _SELECTION.fullmatch(text)
        if match is None:
            raise BadSelection(f"{text} is no selection; write it as TOPIC or TOPIC:0,1")
        numbers = frozenset(int(number) for number in (match["partitions"] or "").split(",") if number)
        earlier = chosen.get(match["topic"])
        everything = not numbers or earlier == ALL_PARTITIONS
        chosen[match["topic"]] = ALL_PARTITIONS if everything else numbers | (earlier or frozenset())
    return chosen


def selected_partitions(
    chosen: Mapping[str, frozenset[int]], partition_counts: Mapping[str, int]
) -> list[tuple[str, int]]:
    """Return the partitions in order.

    Args:
        chosen: what `parse_selection` returned.
        partition_counts: how many partitions each topic of the cluster has.

    Raises:
        BadSelection: a topic or partition is not there.
    """
    for topic, numbers in chosen.items():
        count = partition_counts.get(topic)
        if count is None:
            raise BadSelection(f"there is no topic {topic}")
        if beyond := sorted(number for number in numbers if number >= count):
            raise BadSelection(f"topic {topic} has no partition {beyond[0]}; its partitions are 0 to {count - 1}")
    return [
        (topic, number)
        for topic, numbers in sorted(chosen.items())
        for number in _in_order(numbers, partition_counts[topic])
    ]


def _in_order(numbers: frozenset[int], count: int) -> Sequence[int]:
    return range(count) if numbers == ALL_PARTITIONS else sorted(numbers)
