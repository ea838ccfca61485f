"""What the controller is asked to change about a partition's in-sync set, and what it is told of logs. Pure."""

from dataclasses import replace

from ottla_broker.partition import Partition
from ottla_broker.replica.leader_replica import IsrProposal
from ottla_broker.replica.longest_log import LongestLog
from ottla_core.cluster.controller_rpc.controller_api import InSyncReplica, IsrChange


def propose_isr(partition: Partition) -> IsrProposal | None:
    """Return the in-sync set that the controller should be asked for, or None."""
    if partition.leader is None:
        return None
    context = partition.context
    return partition.leader.propose(
        log_end_offset=partition.log.log_end_offset,
        high_watermark=partition.log.high_watermark,
        now_ms=context.monotonic_ms(),
        lag_max_ms=context.lag_max_ms,
        live=context.live_brokers,
    )


def change_of(partition: Partition, proposal: IsrProposal, own_epoch: int) -> IsrChange:
    """Return a proposal as the controller takes it.

    A member of the set that has not fetched since this broker leads is named without an epoch: it is in already, and
    stays whatever its registration.
    """
    own_id = partition.broker_id
    return IsrChange(
        topic_id=partition.topic_id,
        index=partition.topic_partition.partition,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
        isr=tuple(
            InSyncReplica(broker_id=broker_id, broker_epoch=own_epoch if broker_id == own_id else broker_epoch)
            for broker_id, broker_epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
        ),
    )


def lost_log_report(partition: Partition) -> IsrChange:
    """Return what tells the controller that a replica's log is lost; it counts for the newest known state alone."""
    return IsrChange(
        topic_id=partition.topic_id,
        index=partition.topic_partition.partition,
        leader_epoch=partition.state.leader_epoch,
        partition_epoch=partition.state.partition_epoch,
        isr=(),
        lost_log=True,
    )


def failed_log_report(partition: Partition) -> IsrChange:
    """Return what tells the controller that a log has failed; it counts for the newest known state alone."""
    return replace(lost_log_report(partition), lost_log=False, failed_log=True)


def longest_log_report(partition: Partition, longest: LongestLog) -> IsrChange:
    """Return what names the replica with the longest log; it counts for the newest known state alone."""
    return IsrChange(
        topic_id=partition.topic_id,
        index=partition.topic_partition.partition,
        leader_epoch=partition.state.leader_epoch,
        partition_epoch=partition.state.partition_epoch,
        isr=(InSyncReplica(broker_id=longest.broker_id, broker_epoch=longest.broker_epoch),),
        longest_log=True,
    )
