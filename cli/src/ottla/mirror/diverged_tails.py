"""What a former source has alone: its records behind the offset where its history and the promoted one's part."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla_core.topic_partition import TopicPartition
from ottla_operations.mirror.cluster_reader import LATEST, ClusterReader, Unreadable
from ottla_operations.mirror.divergence import CommonUpTo, next_step

ROUNDS_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """A partition.

    Attributes:
        common_end: the offset up to which both have the same records.
        end: where it ends here.
    """

    topic: str
    partition: int
    common_end: int
    end: int

    @property
    def records(self) -> int:
        """How many offsets only this cluster has."""
        return max(0, self.end - self.common_end)


async def find_tails(there: ClusterReader, here: ClusterReader, topics: Sequence[str]) -> list[Tail]:
    """Return the tails of all partitions of some topics, in order.

    Raises:
        Unreadable: a leader does not say where its epochs end.
        Unreachable, AuthenticationFailed, UnsupportedByBroker: a cluster does not answer.
    """
    async with there, here:
        await there.topics(topics)
        ours = await here.topics(topics)
        asked = {
            TopicPartition(name, number): partition.leader_epoch
            for name, topic in ours.items()
            for number, partition in topic.partitions.items()
        }
        ends = await here.offsets(asked, LATEST, committed_only=False)
        common: dict[TopicPartition, int] = {}
        for _ in range(ROUNDS_MAX):
            if not asked:
                break
            told_there = await there.epoch_ends(asked)
            told_here = await here.epoch_ends({name: told_there[name].epoch for name in asked if name in told_there})
            for name in list(asked):
                if name not in told_there or name not in told_here:
                    raise Unreadable(f"{name}: its leader does not say where leader epochs end")
                step = next_step(told_there[name], told_here[name])
                if isinstance(step, CommonUpTo):
                    common[name] = step.end_offset
                    del asked[name]
                else:
                    asked[name] = step.epoch
    return [
        Tail(
            topic=name.topic,
            partition=name.partition,
            common_end=min(common.get(name, 0), ends[name]),
            end=ends[name],
        )
        for name in sorted(ends)
    ]
