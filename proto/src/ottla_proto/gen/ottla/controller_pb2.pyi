from ottla_proto.gen.ottla import acls_pb2 as _acls_pb2
from ottla_proto.gen.ottla import links_pb2 as _links_pb2
from ottla_proto.gen.ottla import logins_pb2 as _logins_pb2
from ottla_proto.gen.ottla import quotas_pb2 as _quotas_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ItemError(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class Config(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class PartitionAssignment(_message.Message):
    __slots__ = ("index", "broker_ids")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    BROKER_IDS_FIELD_NUMBER: _ClassVar[int]
    index: int
    broker_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, index: _Optional[int] = ..., broker_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class NewTopic(_message.Message):
    __slots__ = ("name", "topic_id", "partition_count", "replication_factor", "assignments", "configs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    partition_count: int
    replication_factor: int
    assignments: _containers.RepeatedCompositeFieldContainer[PartitionAssignment]
    configs: _containers.RepeatedCompositeFieldContainer[Config]
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition_count: _Optional[int] = ..., replication_factor: _Optional[int] = ..., assignments: _Optional[_Iterable[_Union[PartitionAssignment, _Mapping]]] = ..., configs: _Optional[_Iterable[_Union[Config, _Mapping]]] = ...) -> None: ...

class CreateTopicsRequest(_message.Message):
    __slots__ = ("topics", "validate_only")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[NewTopic]
    validate_only: bool
    def __init__(self, topics: _Optional[_Iterable[_Union[NewTopic, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class CreatedTopic(_message.Message):
    __slots__ = ("name", "error", "topic_id", "partition_count", "replication_factor", "configs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    error: ItemError
    topic_id: bytes
    partition_count: int
    replication_factor: int
    configs: _containers.RepeatedCompositeFieldContainer[Config]
    def __init__(self, name: _Optional[str] = ..., error: _Optional[_Union[ItemError, _Mapping]] = ..., topic_id: _Optional[bytes] = ..., partition_count: _Optional[int] = ..., replication_factor: _Optional[int] = ..., configs: _Optional[_Iterable[_Union[Config, _Mapping]]] = ...) -> None: ...

class CreateTopicsResponse(_message.Message):
    __slots__ = ("topics", "revision")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[CreatedTopic]
    revision: int
    def __init__(self, topics: _Optional[_Iterable[_Union[CreatedTopic, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class TopicReference(_message.Message):
    __slots__ = ("name", "topic_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class DeleteTopicsRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicReference]
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicReference, _Mapping]]] = ...) -> None: ...

class DeletedTopic(_message.Message):
    __slots__ = ("name", "topic_id", "error")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    error: ItemError
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., error: _Optional[_Union[ItemError, _Mapping]] = ...) -> None: ...

class DeleteTopicsResponse(_message.Message):
    __slots__ = ("topics", "revision")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[DeletedTopic]
    revision: int
    def __init__(self, topics: _Optional[_Iterable[_Union[DeletedTopic, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class NewPartitions(_message.Message):
    __slots__ = ("topic", "total_count", "assignments")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    total_count: int
    assignments: _containers.RepeatedCompositeFieldContainer[PartitionAssignment]
    def __init__(self, topic: _Optional[str] = ..., total_count: _Optional[int] = ..., assignments: _Optional[_Iterable[_Union[PartitionAssignment, _Mapping]]] = ...) -> None: ...

class CreatePartitionsRequest(_message.Message):
    __slots__ = ("topics", "validate_only")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[NewPartitions]
    validate_only: bool
    def __init__(self, topics: _Optional[_Iterable[_Union[NewPartitions, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class GrownTopic(_message.Message):
    __slots__ = ("topic", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    error: ItemError
    def __init__(self, topic: _Optional[str] = ..., error: _Optional[_Union[ItemError, _Mapping]] = ...) -> None: ...

class CreatePartitionsResponse(_message.Message):
    __slots__ = ("topics", "revision")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[GrownTopic]
    revision: int
    def __init__(self, topics: _Optional[_Iterable[_Union[GrownTopic, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class ConfigChange(_message.Message):
    __slots__ = ("name", "operation", "value")
    class Operation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SET: _ClassVar[ConfigChange.Operation]
        DELETE: _ClassVar[ConfigChange.Operation]
        APPEND: _ClassVar[ConfigChange.Operation]
        SUBTRACT: _ClassVar[ConfigChange.Operation]
    SET: ConfigChange.Operation
    DELETE: ConfigChange.Operation
    APPEND: ConfigChange.Operation
    SUBTRACT: ConfigChange.Operation
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    operation: ConfigChange.Operation
    value: str
    def __init__(self, name: _Optional[str] = ..., operation: _Optional[_Union[ConfigChange.Operation, str]] = ..., value: _Optional[str] = ...) -> None: ...

class ConfigResourceChange(_message.Message):
    __slots__ = ("resource_type", "resource_name", "changes")
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    resource_type: int
    resource_name: str
    changes: _containers.RepeatedCompositeFieldContainer[ConfigChange]
    def __init__(self, resource_type: _Optional[int] = ..., resource_name: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[ConfigChange, _Mapping]]] = ...) -> None: ...

class AlterConfigsRequest(_message.Message):
    __slots__ = ("resources", "replace_all", "validate_only")
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    REPLACE_ALL_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[ConfigResourceChange]
    replace_all: bool
    validate_only: bool
    def __init__(self, resources: _Optional[_Iterable[_Union[ConfigResourceChange, _Mapping]]] = ..., replace_all: _Optional[bool] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class AlteredResource(_message.Message):
    __slots__ = ("resource_type", "resource_name", "error")
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    resource_type: int
    resource_name: str
    error: ItemError
    def __init__(self, resource_type: _Optional[int] = ..., resource_name: _Optional[str] = ..., error: _Optional[_Union[ItemError, _Mapping]] = ...) -> None: ...

class AlterConfigsResponse(_message.Message):
    __slots__ = ("resources", "revision")
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[AlteredResource]
    revision: int
    def __init__(self, resources: _Optional[_Iterable[_Union[AlteredResource, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class AllocateProducerIdsRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class AllocateProducerIdsResponse(_message.Message):
    __slots__ = ("first_producer_id", "length")
    FIRST_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    first_producer_id: int
    length: int
    def __init__(self, first_producer_id: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class InSyncReplica(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class IsrChange(_message.Message):
    __slots__ = ("topic_id", "index", "leader_epoch", "partition_epoch", "isr", "lost_log", "failed_log", "longest_log")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    LOST_LOG_FIELD_NUMBER: _ClassVar[int]
    FAILED_LOG_FIELD_NUMBER: _ClassVar[int]
    LONGEST_LOG_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: _containers.RepeatedCompositeFieldContainer[InSyncReplica]
    lost_log: bool
    failed_log: bool
    longest_log: bool
    def __init__(self, topic_id: _Optional[bytes] = ..., index: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[_Union[InSyncReplica, _Mapping]]] = ..., lost_log: _Optional[bool] = ..., failed_log: _Optional[bool] = ..., longest_log: _Optional[bool] = ...) -> None: ...

class AlterPartitionsRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "changes")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    changes: _containers.RepeatedCompositeFieldContainer[IsrChange]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[IsrChange, _Mapping]]] = ...) -> None: ...

class AlteredIsr(_message.Message):
    __slots__ = ("topic_id", "index", "error")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    index: int
    error: ItemError
    def __init__(self, topic_id: _Optional[bytes] = ..., index: _Optional[int] = ..., error: _Optional[_Union[ItemError, _Mapping]] = ...) -> None: ...

class AlterPartitionsResponse(_message.Message):
    __slots__ = ("partitions", "revision")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[AlteredIsr]
    revision: int
    def __init__(self, partitions: _Optional[_Iterable[_Union[AlteredIsr, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class TopicPartition(_message.Message):
    __slots__ = ("topic", "index")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    topic: str
    index: int
    def __init__(self, topic: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class ElectLeadersRequest(_message.Message):
    __slots__ = ("type", "partitions", "all_partitions")
    class ElectionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PREFERRED: _ClassVar[ElectLeadersRequest.ElectionType]
        UNCLEAN: _ClassVar[ElectLeadersRequest.ElectionType]
    PREFERRED: ElectLeadersRequest.ElectionType
    UNCLEAN: ElectLeadersRequest.ElectionType
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ALL_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    type: ElectLeadersRequest.ElectionType
    partitions: _containers.RepeatedCompositeFieldContainer[TopicPartition]
    all_partitions: bool
    def __init__(self, type: _Optional[_Union[ElectLeadersRequest.ElectionType, str]] = ..., partitions: _Optional[_Iterable[_Union[TopicPartition, _Mapping]]] = ..., all_partitions: _Optional[bool] = ...) -> None: ...

class ElectedLeader(_message.Message):
    __slots__ = ("topic", "index", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    index: int
    error: ItemError
    def __init__(self, topic: _Optional[str] = ..., index: _Optional[int] = ..., error: _Optional[_Union[ItemError, _Mapping]] = ...) -> None: ...

class ElectLeadersResponse(_message.Message):
    __slots__ = ("partitions", "revision")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[ElectedLeader]
    revision: int
    def __init__(self, partitions: _Optional[_Iterable[_Union[ElectedLeader, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class Reassignment(_message.Message):
    __slots__ = ("topic", "index", "replicas")
    class Replicas(_message.Message):
        __slots__ = ("broker_ids",)
        BROKER_IDS_FIELD_NUMBER: _ClassVar[int]
        broker_ids: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, broker_ids: _Optional[_Iterable[int]] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    index: int
    replicas: Reassignment.Replicas
    def __init__(self, topic: _Optional[str] = ..., index: _Optional[int] = ..., replicas: _Optional[_Union[Reassignment.Replicas, _Mapping]] = ...) -> None: ...

class AlterReassignmentsRequest(_message.Message):
    __slots__ = ("reassignments", "allow_replication_factor_change")
    REASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_REPLICATION_FACTOR_CHANGE_FIELD_NUMBER: _ClassVar[int]
    reassignments: _containers.RepeatedCompositeFieldContainer[Reassignment]
    allow_replication_factor_change: bool
    def __init__(self, reassignments: _Optional[_Iterable[_Union[Reassignment, _Mapping]]] = ..., allow_replication_factor_change: _Optional[bool] = ...) -> None: ...

class AlteredReassignment(_message.Message):
    __slots__ = ("topic", "index", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    index: int
    error: ItemError
    def __init__(self, topic: _Optional[str] = ..., index: _Optional[int] = ..., error: _Optional[_Union[ItemError, _Mapping]] = ...) -> None: ...

class AlterReassignmentsResponse(_message.Message):
    __slots__ = ("reassignments", "revision")
    REASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    reassignments: _containers.RepeatedCompositeFieldContainer[AlteredReassignment]
    revision: int
    def __init__(self, reassignments: _Optional[_Iterable[_Union[AlteredReassignment, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class UnregisterBrokerRequest(_message.Message):
    __slots__ = ("broker_id",)
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    def __init__(self, broker_id: _Optional[int] = ...) -> None: ...

class UnregisterBrokerResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class FeatureUpdate(_message.Message):
    __slots__ = ("feature", "level", "upgrade_type")
    FEATURE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    UPGRADE_TYPE_FIELD_NUMBER: _ClassVar[int]
    feature: str
    level: int
    upgrade_type: int
    def __init__(self, feature: _Optional[str] = ..., level: _Optional[int] = ..., upgrade_type: _Optional[int] = ...) -> None: ...

class UpdateFeaturesRequest(_message.Message):
    __slots__ = ("updates", "validate_only")
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    updates: _containers.RepeatedCompositeFieldContainer[FeatureUpdate]
    validate_only: bool
    def __init__(self, updates: _Optional[_Iterable[_Union[FeatureUpdate, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class UpdateFeaturesResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...
