"""A partition that follows the cluster which has followed it gives up what only it has.

In this order, so that no consumer skips records of the source that come at the offsets of those given up:

1. The records are kept in a file (`tail_backup.py`).
2. Consumers are held: they get an error upon which they come again.
3. Groups go back to the cut and lose their members (`group_rewind.py`), who begin anew there. As nobody reads behind
   the cut from here on, no member gets there again.
4. The records are cut off.
5. The leader epoch is raised. Until then nothing is appended and consumers stay held. Those without a group see by
   the later epoch that they have to compare their positions with the log, and find where it was cut (KIP-320).

Nothing has to be remembered for that. Whoever leads after a crash either still has the records, finds out by its
first fetch, and begins at the first step; or does not, and leads under a later epoch. Until the records are cut off,
no step does harm if it is the last: groups would read some records again.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import structlog

from ottla_broker.links.group_rewind import Cut
from ottla_broker.links.linked_leading import cut_to_source
from ottla_broker.links.linked_partition import LinkedPartition
from ottla_broker.links.tail_backup import keep_aside
from ottla_broker.replica.follower_replica import truncation_offset
from ottla_core.clock import Clock
from ottla_core.cluster.controller_rpc.link_api import LinkedPartitionState
from ottla_core.errors import KafkaError

SetGroupsBack = Callable[[UUID, int, Cut], Awaitable[None]]
"""Has groups go back in a partition, by topic id and index, to a cut; raises `KafkaError` if that failed."""

logger = structlog.get_logger("links")


async def give_up_own_records(
    linked: LinkedPartition, *, link: UUID, set_groups_back: SetGroupsBack, clock: Clock
) -> bool:
    """Cut off what the source does not have; return False, with the reason in its state, where that failed."""
    partition, leader_epoch = linked.partition, linked.leader_epoch
    log, end_offset = partition.log, partition.log.log_end_offset
    offset = truncation_offset(log, *linked.parted_at)
    kept: Path | None = None
    may_be_cut = False
    try:
        # First, as it fails where the disk is full: no group shall go back for nothing, time and again.
        kept = await keep_aside(log, offset, end_offset, partition.topic_id, clock.time_ms())
        partition.hold_readers()
        cut = Cut(offset, leader_epoch)
        await set_groups_back(partition.topic_id, partition.topic_partition.partition, cut)
        async with log.truncation.prepared(offset):
            may_be_cut = True
            cut_to_source(
                partition,
                offset,
                leader_epoch=leader_epoch,
                link=link,
                end_offset=end_offset,
                now_ms=clock.time_ms(),
            )
        await log.truncation.settled()
    except KafkaError as error:
        linked.enter(
            LinkedPartitionState.FAILED,
            f"what the source lacks cannot be set aside: {error.message}",
            clock.time_ms(),
        )
        return False
    finally:
        partition.release_readers()
        if kept is not None and not may_be_cut:
            kept.unlink(missing_ok=True)
    logger.warning(
        "set records aside that the source does not have",
        partition=str(linked.topic_partition), file=str(kept), first_offset=offset, end_offset=end_offset,
    )  # fmt: skip
    return True
