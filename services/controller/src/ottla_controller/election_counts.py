"""Counts the elections of leaders that a controller sees happen in the cluster's state. Pure.

A leader was elected if its leader epoch is another one than before, and so is the broker or its registration. An
election is unclean if the leader was neither in the in-sync set nor among the eligible leaders before. Elections that
a controller has not seen happen, because it was not there or its view began anew, are not counted.
"""

from collections import Counter
from typing import Final

from ottla_core.cluster.state.model import NO_LEADER, ClusterState, PartitionState

CLEAN: Final = "clean"
UNCLEAN: Final = "unclean"


class ElectionCounts:
    """Elections so far.

    Attributes:
        elections: by kind, `CLEAN` or `UNCLEAN`.
    """

    def __init__(self) -> None:
        self.elections = Counter({CLEAN: 0, UNCLEAN: 0})

    def state_changed(self, former: ClusterState, new: ClusterState) -> None:
        """Count what has changed from one state to the next; what is the same object has not."""
        if former.topics_by_id is new.topics_by_id:
            return
        for topic_id, topic in new.topics_by_id.items():
            before = former.topics_by_id.get(topic_id)
            if before is None or before is topic:
                continue
            for was, now in zip(before.partitions, topic.partitions, strict=False):
                if was is not now and _was_elected(was, now):
                    self.elections[UNCLEAN if _is_unclean(was, now) else CLEAN] += 1


def _was_elected(was: PartitionState, now: PartitionState) -> bool:
    is_another = now.leader != was.leader or now.leader_broker_epoch != was.leader_broker_epoch
    return now.leader != NO_LEADER and now.leader_epoch > was.leader_epoch and is_another


def _is_unclean(was: PartitionState, now: PartitionState) -> bool:
    return now.leader not in was.isr and now.leader not in was.eligible_leaders
