"""Which replica a consumer had better read from: one in its own rack (KIP-392). Pure.

The leader names it in the answer to a fetch, and the consumer turns to it. Only replicas in sync are named: a
consumer that was sent to one that lags would fall back behind the producers for as long as it lags.

Source of the rules: Kafka's RackAwareReplicaSelector and ReplicaManager.findPreferredReadReplica.
"""

from collections.abc import Mapping

from ottla_broker.partition import Partition
from ottla_core.cluster.state.model import Member
from ottla_core.wire.fetch_response import NO_PREFERRED_REPLICA


def replica_in_rack(
    partition: Partition, fetch_offset: int, rack: str, brokers: Mapping[int, Member], listener: str
) -> int:
    """Return the follower that a consumer should read an offset from, or `NO_PREFERRED_REPLICA` for this broker.

    The leader comes first if it is in the consumer's rack, else the follower there that is furthest.

    Args:
        partition: one that this broker leads, or follows.
        fetch_offset: what the consumer asks for.
        rack: the consumer's.
        brokers: the live ones.
        listener: through which the consumer has to reach the other broker.
    """
    leader = partition.leader
    own = brokers.get(partition.broker_id)
    if leader is None or (own is not None and own.rack == rack):
        return NO_PREFERRED_REPLICA
    candidates = [
        (progress.log_end_offset, progress.caught_up_ms, broker_id)
        for broker_id, progress in leader.followers.items()
        if broker_id in partition.state.isr
        and progress.log_start_offset <= fetch_offset <= progress.log_end_offset
        and _is_reachable(brokers.get(broker_id), rack, listener)
    ]
    return max(candidates)[2] if candidates else NO_PREFERRED_REPLICA


def _is_reachable(member: Member | None, rack: str, listener: str) -> bool:
    return (
        member is not None
        and member.rack == rack
        and not member.shutting_down
        and any(endpoint.listener == listener for endpoint in member.endpoints)
    )
