"""Telling the controller who has the longest log, where the elected replica may lack records that others have.

The rules are in `longest_log.py`. This is the shell around them: it looks at the partitions for which a search goes
on whenever a replica was heard, and regularly, because brokers come and go and waiting has an end; and it names the
replica found, again until the cluster state says that it leads. If it is the one here, that begins to lead.
"""

import asyncio
import contextlib

import structlog
from kio.schema.errors import ErrorCode

from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_broker.replica.longest_log import LongestLog
from ottla_broker.replication.doubtful_log import longest_log, take_for_longest
from ottla_broker.replication.isr_requests import longest_log_report
from ottla_broker.replication.isr_updates import (
    ANSWER_TIMEOUT_SECONDS,
    CHANGES_PER_REQUEST_MAX,
    RETRY_SECONDS,
    SEEN_TIMEOUT_SECONDS,
    IsrController,
    Roles,
)
from ottla_core.background import start_recurring
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import KafkaError, RequestTimedOut

GATHERING_SECONDS = 0.02
"""How long further replicas may be heard before all searches are looked at, which costs more than one of them."""

logger = structlog.get_logger("replication")


class LongestLogSearches:
    """Ends the searches for the longest logs of this broker's partitions."""

    def __init__(
        self,
        *,
        context: ReplicationContext,
        partitions: PartitionTable,
        feed: ClusterStateFeed,
        membership: Membership,
        controller: IsrController,
        reconciler: Roles,
    ) -> None:
        self._context = context
        self._partitions = partitions
        self._feed = feed
        self._membership = membership
        self._controller = controller
        self._reconciler = reconciler
        self._searching: dict[Partition, int] = {}  # and the leader epoch of which was said that others are missing
        self._wake = asyncio.Event()

    def start(self) -> None:
        """Begin."""
        self._context.on_search = self._look_soon
        self._task = start_recurring("longest logs", self._run)

    async def close(self) -> None:
        """Stop; what was reported may still be carried out."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def _look_soon(self, partition: Partition) -> None:
        self._searching.setdefault(partition, -1)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS if self._searching else None):
                    await self._wake.wait()
            await asyncio.sleep(GATHERING_SECONDS)
            self._wake.clear()
            try:
                await self._report(self._found())
            except KafkaError as error:
                logger.warning("the longest logs are not reported; trying again", error=error.message)
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                logger.exception("the longest logs are not reported; trying again")
                await asyncio.sleep(RETRY_SECONDS)

    def _found(self) -> dict[Partition, LongestLog]:
        """Return where it is known who has the longest log."""
        members = self._feed.state.brokers
        found: dict[Partition, LongestLog] = {}
        for partition, told_epoch in tuple(self._searching.items()):
            search = partition.search
            if search is None or self._partitions.get(partition.topic_partition) is not partition:
                del self._searching[partition]
            elif (longest := longest_log(partition, members)) is not None:
                found[partition] = longest
                if len(found) == CHANGES_PER_REQUEST_MAX:
                    break
            elif told_epoch != search.leader_epoch:
                self._searching[partition] = search.leader_epoch
                logger.warning(
                    "a replica was elected that may lack records which others have; it waits for them",
                    partition=str(partition.topic_partition),
                    missing=search.missing(partition.state.replicas, members),
                    without_end=partition.knows_of_lost_end,
                )
        return found

    async def _report(self, found: dict[Partition, LongestLog]) -> None:
        """Have the controller make those leaders that have the longest logs, and lead where that is this broker."""
        if not found or not self._membership.is_current():
            return
        results, revision = await self._controller.alter_partitions(
            self._context.broker_id,
            self._membership.registered_epoch,
            [longest_log_report(partition, longest) for partition, longest in found.items()],
            timeout_s=ANSWER_TIMEOUT_SECONDS,
        )
        for (partition, longest), result in zip(found.items(), results, strict=True):
            logger.info(
                "the longest log leads",
                partition=str(partition.topic_partition),
                broker=longest.broker_id,
                reach=longest.reach,
                refused=result.error_code.name if result.error_code.value else None,
            )
            # Before its roles are given: the search would begin again in the new leader epoch.
            if result.error_code is ErrorCode.none and longest.broker_id == self._context.broker_id:
                take_for_longest(partition)
        with contextlib.suppress(RequestTimedOut):
            await self._feed.wait_for_revision(revision, SEEN_TIMEOUT_SECONDS)
        self._reconciler.give_roles_again({partition.topic_partition.topic for partition in found})
