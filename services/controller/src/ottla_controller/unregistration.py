"""Forgetting a broker that has left for good. Pure.

Its registration goes, and so does every claim that it has some partition's newest records: whoever registers under
its id later on is a new broker, and nothing would tell whether it still has the data. The partitions' replica lists
stay; moving them is a reassignment's business. A broker that still runs, or that has records which nobody else has,
is not forgotten.
"""

from dataclasses import replace
from itertools import islice

from ottla_controller.broker_standing import Standings
from ottla_controller.partition_change import RulesOf, conclude
from ottla_core.cluster.state.model import BrokerRegistration, ClusterState, PartitionState
from ottla_core.errors import BrokerIdNotRegistered, InvalidRequest

PARTITIONS_NAMED_MAX = 10


def plan_unregistration(
    broker_id: int, state: ClusterState, standings: Standings, *, rules_of: RulesOf
) -> tuple[list[PartitionState], BrokerRegistration]:
    """Return the partitions as they shall be, and the registration to delete after them.

    Raises:
        BrokerIdNotRegistered: there is no such registration.
        InvalidRequest: the broker is live, or a partition's newest records are nowhere else.
    """
    if broker_id in state.brokers:
        raise InvalidRequest(f"Broker {broker_id} is running. Shut it down before it is unregistered.")
    registration = state.registrations.get(broker_id)
    if registration is None:
        raise BrokerIdNotRegistered(f"Broker id {broker_id} is not registered.")
    changed: list[PartitionState] = []
    orphaned: list[str] = []
    for topic in state.topics.values():
        for partition in topic.partitions:
            if broker_id not in partition.isr and broker_id not in partition.eligible_leaders:
                continue
            if {*partition.isr, *partition.eligible_leaders} == {broker_id}:
                orphaned.append(f"{topic.name}-{partition.index}")
                continue
            without = replace(
                partition,
                isr=_without(partition.isr, broker_id),
                eligible_leaders=_without(partition.eligible_leaders, broker_id),
            )
            concluded = conclude(without, without, standings, rules_of(topic))
            changed.append(concluded)
    if orphaned:
        named = ", ".join(islice(orphaned, PARTITIONS_NAMED_MAX))
        more = f" and {len(orphaned) - PARTITIONS_NAMED_MAX} more" if len(orphaned) > PARTITIONS_NAMED_MAX else ""
        raise InvalidRequest(
            f"Only broker {broker_id} has the newest records of {named}{more}. Start it and move these partitions, "
            "elect other leaders uncleanly, or delete the topics, before it is unregistered."
        )
    return changed, registration


def _without(broker_ids: tuple[int, ...], broker_id: int) -> tuple[int, ...]:
    return tuple(other for other in broker_ids if other != broker_id)
