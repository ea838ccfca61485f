"""Partitions in which transactions stay open."""

import time
from collections.abc import Collection

from tests.faults.cluster_view import ClusterView
from tests.support.eventually import NotInTime, eventually

OPEN_DEADLINE_S = 40.0
"""Longer than any time-out of the load."""
LOOK_INTERVAL_S = 0.25


def hanging_partitions(view: ClusterView, names: Collection[str]) -> list[str]:
    """Partitions of some topics in which transactions are open though every time-out is over."""
    hanging: list[str] = []

    def none() -> bool:
        ends = [view.end_offsets(names, committed=committed) for committed in (True, False)]
        hanging[:] = [
            f"hanging: {topic}-{index} is undecided from {ends[0][topic, index]} on; it ends at {end}"
            for (topic, index), end in ends[1].items()
            if ends[0][topic, index] != end
        ]
        time.sleep(LOOK_INTERVAL_S)  # between two looks; there is a deadline
        return not hanging

    try:
        eventually(none, "no transaction is open", within_s=OPEN_DEADLINE_S)
    except NotInTime:
        return hanging
    return []
