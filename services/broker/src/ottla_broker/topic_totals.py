"""Totals by topic, bounded: topics beyond a number share one. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

TOPICS_MAX: Final = 1000
"""Topics that have a series of their own: the first by name, so that a topic keeps its own while none is created."""
OTHER_TOPICS: Final = "_other"


def totals_by_topic(values: Iterable[tuple[str, int]], topics_max: int = TOPICS_MAX) -> Mapping[str, int]:
    """Return the sums of values by topic; those of topics beyond the bound are under `OTHER_TOPICS`."""
    totals: Counter[str] = Counter()
    for topic, value in values:
        totals[topic] += value
    names = sorted(totals)
    bounded = {name: totals[name] for name in names[:topics_max]}
    if names[topics_max:]:
        bounded[OTHER_TOPICS] = bounded.get(OTHER_TOPICS, 0) + sum(totals[name] for name in names[topics_max:])
    return bounded
