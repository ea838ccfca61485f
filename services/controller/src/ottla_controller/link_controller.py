"""What the leading controller does about links and linked topics; the rules of both and of promotion decide.

A topic's partitions are promoted before its record forgets what it followed, each in one compare-and-set that ends
the following and raises the leader epoch. A promotion that is cut short is finished by asking again.
"""

from collections.abc import Sequence
from uuid import UUID

import structlog

from ottla_controller import cluster_links, link_promotion, linked_topics
from ottla_controller.broker_standing import standings
from ottla_controller.change_encoder import ChangeEncoder
from ottla_controller.change_sequence import ChangeSequence
from ottla_controller.fenced_writer import Write
from ottla_controller.link_keeping import check_registered, plan_keeping
from ottla_controller.linked_topics import LinkedTopicPlan
from ottla_controller.priority_lock import Urgency
from ottla_controller.topics import TopicDefaults
from ottla_core.cluster.controller_rpc.link_api import (
    LeaderEpochRaise,
    LinkChange,
    LinkedTopicResult,
    MorePartitions,
    NewLink,
    NewLinkedTopic,
    PromotedPartition,
)
from ottla_core.cluster.state.model import Link

log = structlog.get_logger("controller")


class LinkController:
    """Decides and writes, for one term; `timeout_s` is as in `ActiveController`."""

    def __init__(self, changes: ChangeSequence, writes: ChangeEncoder, defaults: TopicDefaults) -> None:
        self._changes = changes
        self._writes = writes
        self._defaults = defaults

    async def create(self, new: NewLink, *, validate_only: bool, timeout_s: float | None = None) -> tuple[Link, int]:
        """Create a link; return it and the revision that contains it.

        Raises:
            KafkaError: it is refused.
        """

        async def change() -> tuple[Link, int]:
            link = cluster_links.plan_link(new, self._changes.state)
            if link is not None and not validate_only:
                await self._changes.write([self._writes.link(link)])
                log.info("link created", link=link.name, source=link.source_cluster_id)
            return new.link, self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def alter(self, wanted: LinkChange, *, timeout_s: float | None = None) -> tuple[Link, int]:
        """Change a link; return it and the revision that contains the change.

        Raises:
            KafkaError: it is refused.
        """

        async def change() -> tuple[Link, int]:
            link = cluster_links.plan_change(wanted, self._changes.state)
            if link != self._changes.state.links[link.name]:
                await self._changes.write([self._writes.link(link)])
                log.info("link altered", link=link.name, paused=link.paused)
            return link, self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def delete(self, name: str, *, timeout_s: float | None = None) -> int:
        """Forget a link that no topic follows; return the revision from which on it is gone.

        Raises:
            KafkaError: it is refused.
        """

        async def change() -> int:
            link = cluster_links.plan_link_deletion(name, self._changes.state)
            await self._changes.write([self._writes.link_deletion(link)])
            log.info("link deleted", link=name)
            return self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def create_topics(
        self, link: str, requested: Sequence[NewLinkedTopic], *, timeout_s: float | None = None
    ) -> tuple[list[LinkedTopicResult], int]:
        """Create linked topics; return the results and the revision that contains them.

        Raises:
            KafkaError: the whole request is refused.
        """

        async def change() -> tuple[list[LinkedTopicResult], int]:
            plans = linked_topics.plan_linked_topics(link, requested, self._changes.state, self._defaults)
            created = [plan.topic for plan in plans if plan.topic is not None]
            await self._changes.write([write for topic in created for write in self._writes.creation(topic)])
            for topic in created:
                log.info("linked topic created", topic=topic.name, link=link, partitions=len(topic.partitions))
            return [plan.result for plan in plans], self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def follow_existing_topics(
        self, link: str, requested: Sequence[NewLinkedTopic], *, timeout_s: float | None = None
    ) -> tuple[list[LinkedTopicResult], int]:
        """Have existing topics follow those of a source; return the results and the revision that contains them.

        Raises:
            KafkaError: the whole request is refused.
        """

        async def change() -> tuple[list[LinkedTopicResult], int]:
            plans = linked_topics.plan_following(link, requested, self._changes.state)
            for plan in plans:
                if plan.topic is not None:  # brokers look at the record when they hear of the partitions
                    await self._changes.write(
                        [
                            self._writes.topic(plan.topic),
                            *(self._writes.partition(partition) for partition in plan.added),
                        ]
                    )
                    log.info("topic follows a link", topic=plan.topic.name, link=link)
            return [plan.result for plan in plans], self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def add_partitions(
        self, requested: Sequence[MorePartitions], *, timeout_s: float | None = None
    ) -> tuple[list[LinkedTopicResult], int]:
        """Give linked topics the partitions that their sources have; return the results and the revision."""

        async def change() -> tuple[list[LinkedTopicResult], int]:
            plans = linked_topics.plan_more_partitions(requested, self._changes.state)
            await self._changes.write([write for plan in plans for write in self._growth(plan)])
            return [plan.result for plan in plans], self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def keep(
        self,
        link_id: UUID,
        broker_id: int,
        broker_epoch: int,
        found: Sequence[NewLinkedTopic],
        *,
        timeout_s: float | None = None,
    ) -> tuple[list[LinkedTopicResult], int]:
        """Bring linked topics in step with what a link's keeper has found; return the results and the revision.

        Raises:
            StaleBrokerEpoch: the broker is not registered under this epoch.
            KafkaError: it does not keep the link, or the link keeps nothing in step.
        """
        await self._changes.wait_for_revision(broker_epoch)

        async def change() -> tuple[list[LinkedTopicResult], int]:
            state = self._changes.state
            check_registered(broker_id, broker_epoch, state)
            plans = plan_keeping(link_id, broker_id, found, state, self._defaults)
            await self._changes.write([write for plan in plans for write in self._kept(plan)])
            changed = [plan.topic.name for plan in plans if plan.topic is not None]
            if changed:
                log.info("linked topics brought in step", link=str(link_id), keeper=broker_id, topics=len(changed))
            return [plan.result for plan in plans], self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def raise_leader_epochs(
        self,
        broker_id: int,
        broker_epoch: int,
        requested: Sequence[LeaderEpochRaise],
        *,
        timeout_s: float | None = None,
    ) -> int:
        """Raise leader epochs to those of the source; return the revision that contains what was raised.

        Raises:
            StaleBrokerEpoch: the broker is not registered under this epoch.
        """
        await self._changes.wait_for_revision(broker_epoch)

        async def change() -> int:
            state = self._changes.state
            check_registered(broker_id, broker_epoch, state)
            raised = linked_topics.plan_raises(
                broker_id, broker_epoch, requested, state, standings(state.brokers, state.registrations)
            )
            conflict = await self._changes.write_each([self._writes.partition(partition) for partition in raised])
            if conflict is not None:
                raise conflict  # those that were written are passed over the next time
            return self._changes.state.revision

        return await self._changes.make(change, urgency=Urgency.REPLICATION, timeout_s=timeout_s)

    async def promote(
        self, link: str, topics: Sequence[str], *, timeout_s: float | None = None
    ) -> tuple[list[PromotedPartition], int]:
        """Have topics follow no longer; return their partitions and the revision that contains the change.

        Raises:
            KafkaError: it is refused.
        """

        async def change() -> tuple[list[PromotedPartition], int]:
            plan = link_promotion.plan_promotion(link, topics, self._changes.state)
            await self._changes.write(
                [
                    self._writes.link(plan.link),
                    *(self._writes.partition(partition) for partition in plan.partitions),
                    *(self._writes.topic(topic) for topic in plan.topics),
                ]
            )
            log.info("topics promoted", link=link, topics=len(plan.topics), partitions=len(plan.partitions))
            return list(plan.results), self._changes.state.revision

        return await self._changes.make(change, urgency=Urgency.ELECTION, timeout_s=timeout_s)

    def _kept(self, plan: LinkedTopicPlan) -> list[Write]:
        if plan.topic is not None and plan.topic.name not in self._changes.state.topics:
            return self._writes.creation(plan.topic)
        return self._growth(plan)

    def _growth(self, plan: LinkedTopicPlan) -> list[Write]:
        if plan.topic is None:
            return []
        return [*(self._writes.partition(partition) for partition in plan.added), self._writes.topic(plan.topic)]
