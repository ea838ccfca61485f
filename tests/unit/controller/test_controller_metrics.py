"""What controllers count of the cluster's partitions."""

from uuid import UUID

from ottla_controller.controller_metrics import under_min_isr_partitions
from ottla_controller.partition_change import TopicRules
from ottla_core.cluster.state.model import ClusterState, PartitionState, Topic

RULES = TopicRules(min_insync_replicas=2, allows_unclean=False)


def topic(name, number, *, in_sync, configs=None):
    identity = UUID(int=number)
    partition = PartitionState(
        topic_id=identity, index=0, replicas=(1, 2, 3), isr=in_sync, leader=in_sync[0], leader_epoch=1
    )
    return Topic(name=name, id=identity, partitions=(partition,), configs=configs or {})


def test_partitions_under_their_own_minimum_are_counted_over_the_whole_cluster():
    topics = [
        topic("enough", 1, in_sync=(1, 2)),
        topic("too-few", 2, in_sync=(1,)),
        topic("asks-for-less", 3, in_sync=(1,), configs={"min.insync.replicas": "1"}),
        topic("asks-for-more", 4, in_sync=(1, 2), configs={"min.insync.replicas": "3"}),
    ]
    state = ClusterState(topics={each.name: each for each in topics})
    assert under_min_isr_partitions(state, RULES) == 2
    dynamic = ClusterState(
        topics={each.name: each for each in topics}, broker_configs={None: {"min.insync.replicas": "1"}}
    )
    assert under_min_isr_partitions(dynamic, RULES) == 1
