"""A partition that follows another cluster, as the cluster state has it."""

from uuid import UUID

from ottla_core.cluster.state.model import PartitionState

LINK = UUID(int=70)
LINKED = PartitionState(
    topic_id=UUID(int=1),
    index=0,
    replicas=(1, 2),
    isr=(1, 2),
    leader=1,
    leader_epoch=5,
    leader_broker_epoch=71,
    partition_epoch=100,
    link=LINK,
)
