"""Partitions as clients of one listener see them. Pure.

A broker that does not advertise the listener by which a client came is not there for that client: as a leader it
cannot be reached, and as a replica it is offline. Source: Kafka's KRaftMetadataCache.
"""

from kio.schema.errors import ErrorCode

from ottla_core.cluster.state.model import NO_LEADER, ClusterState, PartitionState


class ListenerView:
    """What a response says of the leaders and replicas of partitions; made once for a response.

    Args:
        state: the snapshot that the response is made from.
        listener: by which the client came.
        listener_not_found: whether the client knows LISTENER_NOT_FOUND, which Metadata has from version 6 on.
    """

    def __init__(self, state: ClusterState, listener: str, *, listener_not_found: bool = True) -> None:
        self._alive = state.brokers
        self._reachable = frozenset(
            member.id
            for member in state.brokers.values()
            if any(endpoint.listener == listener for endpoint in member.endpoints)
        )
        self._unreachable_error = (
            ErrorCode.listener_not_found if listener_not_found else ErrorCode.leader_not_available
        )

    def leader_of(self, partition: PartitionState) -> int:
        """Return the leader; one that the client cannot reach is shown as none."""
        return partition.leader if partition.leader in self._reachable else NO_LEADER

    def error_of(self, partition: PartitionState) -> ErrorCode:
        """Return why there is no leader for the client, or no error."""
        if partition.leader in self._reachable:
            return ErrorCode.none
        return self._unreachable_error if partition.leader in self._alive else ErrorCode.leader_not_available

    def offline_replicas_of(self, partition: PartitionState) -> tuple[int, ...]:
        """Return the replicas whose brokers are not there for the client."""
        return tuple(replica for replica in partition.replicas if replica not in self._reachable)
