"""The values of `controller_api`, each with the protobuf message that carries it to the controller or back. Pure."""

from typing import Final

from ottla_core.cluster.controller_rpc.controller_api import (
    AlteredIsr,
    AlteredReassignment,
    AlteredResource,
    ConfigResourceChange,
    CreatedTopic,
    DeletedTopic,
    ElectedLeader,
    FeatureUpdate,
    GrownTopic,
    IsrChange,
    NewPartitions,
    NewTopic,
    Reassignment,
    TopicReference,
)
from ottla_core.cluster.controller_rpc.message_pair import MessagePair
from ottla_proto.gen.ottla import controller_pb2 as pb

_RESOURCE: Final = {"type": "resource_type", "name": "resource_name"}

NEW_TOPIC: Final = MessagePair(NewTopic, pb.NewTopic)
CREATED_TOPIC: Final = MessagePair(CreatedTopic, pb.CreatedTopic)
TOPIC_REFERENCE: Final = MessagePair(TopicReference, pb.TopicReference)
DELETED_TOPIC: Final = MessagePair(DeletedTopic, pb.DeletedTopic)
NEW_PARTITIONS: Final = MessagePair(NewPartitions, pb.NewPartitions)
GROWN_TOPIC: Final = MessagePair(GrownTopic, pb.GrownTopic)
RESOURCE_CHANGE: Final = MessagePair(ConfigResourceChange, pb.ConfigResourceChange, renamed=_RESOURCE)
ALTERED_RESOURCE: Final = MessagePair(AlteredResource, pb.AlteredResource, renamed=_RESOURCE)
ISR_CHANGE: Final = MessagePair(IsrChange, pb.IsrChange)
ALTERED_ISR: Final = MessagePair(AlteredIsr, pb.AlteredIsr)
ELECTED_LEADER: Final = MessagePair(ElectedLeader, pb.ElectedLeader)
REASSIGNMENT: Final = MessagePair(Reassignment, pb.Reassignment)
ALTERED_REASSIGNMENT: Final = MessagePair(AlteredReassignment, pb.AlteredReassignment)
FEATURE_UPDATE: Final = MessagePair(FeatureUpdate, pb.FeatureUpdate, renamed={"type": "upgrade_type"})
