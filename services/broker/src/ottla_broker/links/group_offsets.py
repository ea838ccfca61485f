"""Which offsets of a source's group become those of the group here. Pure.

Offsets are equal, so a group's offset means the same here as far as the log here is the source's. Three rules keep it
so, together with the coordinator's, which takes such an offset forward only and from nobody while there are members:

- Only partitions that follow: their leaders say so themselves, with how far their logs are committed. After that was
  said nothing that is written here, once the partition is promoted, can come before that end.
- Only what is here. A group that is ahead of the copy gets the end of it, and goes on as the copy does.
- Not before the log's start, where a consumer would begin by its own rule, perhaps at the end.
"""

from collections.abc import Mapping

from ottla_core.client.group.offset_requests import CommittedOffset
from ottla_core.cluster.controller_rpc.link_api import UNKNOWN, LinkedPartitionState, PartitionStatus
from ottla_core.topic_partition import TopicPartition


def offsets_to_store(
    committed: Mapping[TopicPartition, CommittedOffset], statuses: Mapping[TopicPartition, PartitionStatus]
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets of a group as they shall be here.

    Args:
        committed: what the group has committed at the source, by the names that the topics have here.
        statuses: what leaders here have said of linked partitions after that was asked.
    """
    found: dict[TopicPartition, CommittedOffset] = {}
    for partition, offset in committed.items():
        status = statuses.get(partition)
        if (
            status is None
            or status.state is not LinkedPartitionState.RUNNING
            or UNKNOWN in (status.high_watermark, status.log_start_offset)
        ):
            continue
        held = max(status.log_start_offset, min(offset.offset, status.high_watermark))
        found[partition] = CommittedOffset(held, offset.metadata)
    return found
