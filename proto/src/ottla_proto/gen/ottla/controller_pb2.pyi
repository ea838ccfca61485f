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
