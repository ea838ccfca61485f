"""Which partitions need another leader or in-sync set because brokers or settings came, went or were changed. Pure.

`partition_change.conclude` has the rules; this file says which partitions they are applied to. A look costs next to
nothing for a partition whose leader and in-sync replicas are all fit.
"""

from collections.abc import Iterable, Iterator
from uuid import UUID

from ottla_controller.broker_standing import Brokers, Standings
from ottla_controller.partition_change import RulesOf, conclude, has_valid_leader
from ottla_core.cluster.state.model import ClusterState, PartitionState, Topic


def first_state(topic_id: UUID, index: int, replicas: tuple[int, ...], brokers: Brokers) -> PartitionState:
    """Return a new partition's state: all live replicas are in sync, and the first of them leads.

    They have nothing yet, and so has the leader. From then on the high watermark waits for each of them until it is
    taken out of the in-sync set, so none can be elected without what was acknowledged. A broker that is about to
    leave counts only if there is no other. At least one replica must be live.
    """
    live = tuple(broker_id for broker_id in replicas if broker_id in brokers)
    isr = tuple(broker_id for broker_id in live if not brokers[broker_id].shutting_down) or live
    return PartitionState(
        topic_id=topic_id,
        index=index,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        leader_broker_epoch=brokers[isr[0]].epoch,
    )


def elections(
    partitions: Iterable[tuple[Topic, PartitionState]],
    standings: Standings,
    *,
    rules_of: RulesOf,
) -> list[PartitionState]:
    """Return the new state of every partition that has to change, given with its topic.

    The states keep the `partition_epoch` of those they replace, for compare-and-set.
    """
    changed: list[PartitionState] = []
    for topic, partition in partitions:
        if needs_attention(partition, standings):
            concluded = conclude(partition, partition, standings, rules_of(topic))
            if concluded is not partition:
                changed.append(concluded)
    return changed


def needs_attention(partition: PartitionState, standings: Standings) -> bool:
    """Return whether a partition may have to change; a quick look that errs on the side of caution."""
    return (
        not standings.fit.issuperset(partition.isr)
        or not has_valid_leader(partition, standings)
        or not (standings.lost | standings.unclean).isdisjoint(partition.eligible_leaders)
        or bool(partition.adding or partition.removing)
    )


def partitions_to_examine(former: ClusterState | None, new: ClusterState) -> Iterator[tuple[Topic, PartitionState]]:
    """Yield the partitions, each with its topic, that a change of state can have made wrong."""
    is_same_ground = (  # what the rules go by beside the topics: who is there, and the settings of all brokers
        former is not None
        and former.brokers is new.brokers
        and former.broker_configs.get(None, {}) == new.broker_configs.get(None, {})
    )
    if former is not None and is_same_ground and former.topics is new.topics:
        return
    for name, topic in new.topics.items():
        before = former.topics.get(name) if former is not None and is_same_ground else None
        if before is topic:
            continue
        if before is None or before.id != topic.id or before.configs != topic.configs:
            known: tuple[PartitionState, ...] = ()
        else:
            known = before.partitions
        for index, partition in enumerate(topic.partitions):
            if index >= len(known) or known[index] is not partition:
                yield topic, partition
