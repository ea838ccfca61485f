"""Writes offset syncs of the partitions that this worker copies."""

import asyncio
from collections.abc import Mapping

from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.offset_syncs import OffsetSyncs
from ottla_mirror.offsets.stored_copy import StoredCopy


class OffsetSyncWriter:
    """Writes into one topic.

    Args:
        topic: MirrorMaker's `mm2-offset-syncs.….internal`, at the source or the target.
        offset_lag_max: so many records may follow the last sync of a partition.
    """

    def __init__(self, topic: InternalTopic, *, offset_lag_max: int) -> None:
        self._topic = topic
        self._syncs = OffsetSyncs(offset_lag_max)

    async def start(self) -> None:
        """Make the topic if it is not there.

        Raises:
            InternalTopicError: it cannot be made.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        await self._topic.ensure()

    async def write(self, copies: Mapping[SourcePartition, StoredCopy]) -> None:
        """Write the syncs that are due now; to be called when the copies have been saved.

        Raises:
            InternalTopicError: they could not be written; those of the next call take their place.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        now_s = asyncio.get_running_loop().time()
        due = [sync for each, copy in copies.items() if (sync := self._syncs.due(each, copy, now_s)) is not None]
        if not due:
            return
        await self._topic.append([sync.entry() for sync in due])
        for sync in due:
            self._syncs.written(sync, now_s)

    def forget(self, partition: SourcePartition) -> None:
        """Take note that this worker does not copy the partition any more."""
        self._syncs.forget(partition)
