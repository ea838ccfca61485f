"""Leaving without a failed request: a broker that is told to stop hands over first what it leads.

It writes into its own member key that it is about to leave. The controller, whichever leads then, elects others for
what it leads and takes it out of the in-sync sets, and the broker goes on serving until that has happened. What
nobody else is in sync for cannot be handed over; it is without a leader until the broker is back.
"""

import structlog

from ottla_broker.reconciliation import Reconciler
from ottla_core.cluster.etcd.errors import EtcdError
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.model import ClusterState, PartitionState
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import RequestTimedOut

HAND_OVER_SECONDS_MAX = 30.0
"""How long a broker waits for the controller to relieve it."""

logger = structlog.get_logger("broker")


async def hand_over(
    broker_id: int,
    membership: Membership,
    feed: ClusterStateFeed,
    reconciler: Reconciler,
    *,
    timeout_s: float = HAND_OVER_SECONDS_MAX,
) -> None:
    """Announce that this broker leaves, and wait until others lead what they can; gives up in the end."""
    others = [member for member in feed.state.brokers.values() if member.id != broker_id and not member.shutting_down]
    if not others or not membership.is_current():
        return
    try:
        await membership.announce_shutdown()
        await feed.wait_for(lambda state: not must_wait(state, broker_id), timeout_s)
    except (EtcdError, RequestTimedOut) as error:
        logger.warning("not everything was handed over; leaving nevertheless", error=str(error))
        return
    reconciler.give_roles()  # so that requests which wait here are told of the new leaders
    logger.info("handed over what others could take")


def must_wait(state: ClusterState, broker_id: int) -> bool:
    """Return whether a broker that leaves still has a part to play that somebody else could have.

    That is to lead or to be in sync where another broker, which stays, is in sync.
    """
    staying = {member.id for member in state.brokers.values() if not member.shutting_down} - {broker_id}
    return any(
        broker_id in partition.isr and _can_do_without(partition, staying)
        for topic in state.topics.values()
        for partition in topic.partitions
    )


def _can_do_without(partition: PartitionState, staying: set[int]) -> bool:
    return not staying.isdisjoint(partition.isr)
