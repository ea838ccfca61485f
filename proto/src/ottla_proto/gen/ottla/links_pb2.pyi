from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Setting(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Texts(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class Link(_message.Message):
    __slots__ = ("name", "id", "source_cluster_id", "bootstrap_servers", "settings", "topics", "groups", "paused", "bytes_per_second", "properties", "promoted_topics")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAP_SERVERS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    PROMOTED_TOPICS_FIELD_NUMBER: _ClassVar[int]
    name: str
    id: bytes
    source_cluster_id: str
    bootstrap_servers: _containers.RepeatedScalarFieldContainer[str]
    settings: _containers.ScalarMap[str, str]
    topics: _containers.RepeatedScalarFieldContainer[str]
    groups: _containers.RepeatedScalarFieldContainer[str]
    paused: bool
    bytes_per_second: int
    properties: _containers.ScalarMap[str, str]
    promoted_topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., id: _Optional[bytes] = ..., source_cluster_id: _Optional[str] = ..., bootstrap_servers: _Optional[_Iterable[str]] = ..., settings: _Optional[_Mapping[str, str]] = ..., topics: _Optional[_Iterable[str]] = ..., groups: _Optional[_Iterable[str]] = ..., paused: _Optional[bool] = ..., bytes_per_second: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ..., promoted_topics: _Optional[_Iterable[str]] = ...) -> None: ...

class SourceLink(_message.Message):
    __slots__ = ("name", "source_cluster_id", "topics")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    name: str
    source_cluster_id: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., source_cluster_id: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateLinkRequest(_message.Message):
    __slots__ = ("link", "matching_topics", "source_links", "validate_only", "existing")
    LINK_FIELD_NUMBER: _ClassVar[int]
    MATCHING_TOPICS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_LINKS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXISTING_FIELD_NUMBER: _ClassVar[int]
    link: Link
    matching_topics: _containers.RepeatedScalarFieldContainer[str]
    source_links: _containers.RepeatedCompositeFieldContainer[SourceLink]
    validate_only: bool
    existing: bool
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ..., matching_topics: _Optional[_Iterable[str]] = ..., source_links: _Optional[_Iterable[_Union[SourceLink, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., existing: _Optional[bool] = ...) -> None: ...

class CreateLinkResponse(_message.Message):
    __slots__ = ("link", "revision")
    LINK_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    link: Link
    revision: int
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class AlterLinkRequest(_message.Message):
    __slots__ = ("name", "paused", "bytes_per_second", "bootstrap_servers", "topics", "groups", "settings", "properties", "forgotten_promotions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAP_SERVERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_PROMOTIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    paused: bool
    bytes_per_second: int
    bootstrap_servers: Texts
    topics: Texts
    groups: Texts
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    properties: _containers.RepeatedCompositeFieldContainer[Setting]
    forgotten_promotions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., paused: _Optional[bool] = ..., bytes_per_second: _Optional[int] = ..., bootstrap_servers: _Optional[_Union[Texts, _Mapping]] = ..., topics: _Optional[_Union[Texts, _Mapping]] = ..., groups: _Optional[_Union[Texts, _Mapping]] = ..., settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., properties: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., forgotten_promotions: _Optional[_Iterable[str]] = ...) -> None: ...

class AlterLinkResponse(_message.Message):
    __slots__ = ("link", "revision")
    LINK_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    link: Link
    revision: int
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class DeleteLinkRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteLinkResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class NewLinkedTopic(_message.Message):
    __slots__ = ("name", "topic_id", "source_topic", "source_topic_id", "source_leader_epochs", "replication_factor", "configs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_LEADER_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    source_topic: str
    source_topic_id: bytes
    source_leader_epochs: _containers.RepeatedScalarFieldContainer[int]
    replication_factor: int
    configs: _containers.RepeatedCompositeFieldContainer[Setting]
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., source_topic: _Optional[str] = ..., source_topic_id: _Optional[bytes] = ..., source_leader_epochs: _Optional[_Iterable[int]] = ..., replication_factor: _Optional[int] = ..., configs: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ...) -> None: ...

class CreateLinkedTopicsRequest(_message.Message):
    __slots__ = ("link", "topics", "existing")
    LINK_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    EXISTING_FIELD_NUMBER: _ClassVar[int]
    link: str
    topics: _containers.RepeatedCompositeFieldContainer[NewLinkedTopic]
    existing: bool
    def __init__(self, link: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[NewLinkedTopic, _Mapping]]] = ..., existing: _Optional[bool] = ...) -> None: ...

class LinkedTopicResult(_message.Message):
    __slots__ = ("topic", "error_code", "error_message")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    error_code: int
    error_message: str
    def __init__(self, topic: _Optional[str] = ..., error_code: _Optional[int] = ..., error_message: _Optional[str] = ...) -> None: ...

class CreateLinkedTopicsResponse(_message.Message):
    __slots__ = ("topics", "revision")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[LinkedTopicResult]
    revision: int
    def __init__(self, topics: _Optional[_Iterable[_Union[LinkedTopicResult, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class MorePartitions(_message.Message):
    __slots__ = ("topic", "source_leader_epochs")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SOURCE_LEADER_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    source_leader_epochs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., source_leader_epochs: _Optional[_Iterable[int]] = ...) -> None: ...

class AddLinkedPartitionsRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[MorePartitions]
    def __init__(self, topics: _Optional[_Iterable[_Union[MorePartitions, _Mapping]]] = ...) -> None: ...

class AddLinkedPartitionsResponse(_message.Message):
    __slots__ = ("topics", "revision")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[LinkedTopicResult]
    revision: int
    def __init__(self, topics: _Optional[_Iterable[_Union[LinkedTopicResult, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class KeepLinkRequest(_message.Message):
    __slots__ = ("link_id", "broker_id", "broker_epoch", "topics")
    LINK_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    link_id: bytes
    broker_id: int
    broker_epoch: int
    topics: _containers.RepeatedCompositeFieldContainer[NewLinkedTopic]
    def __init__(self, link_id: _Optional[bytes] = ..., broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., topics: _Optional[_Iterable[_Union[NewLinkedTopic, _Mapping]]] = ...) -> None: ...

class KeepLinkResponse(_message.Message):
    __slots__ = ("topics", "revision")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[LinkedTopicResult]
    revision: int
    def __init__(self, topics: _Optional[_Iterable[_Union[LinkedTopicResult, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class LeaderEpochRaise(_message.Message):
    __slots__ = ("topic_id", "index", "link_id", "leader_epoch", "raised_to")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LINK_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RAISED_TO_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    index: int
    link_id: bytes
    leader_epoch: int
    raised_to: int
    def __init__(self, topic_id: _Optional[bytes] = ..., index: _Optional[int] = ..., link_id: _Optional[bytes] = ..., leader_epoch: _Optional[int] = ..., raised_to: _Optional[int] = ...) -> None: ...

class RaiseLeaderEpochsRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "raises")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RAISES_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    raises: _containers.RepeatedCompositeFieldContainer[LeaderEpochRaise]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., raises: _Optional[_Iterable[_Union[LeaderEpochRaise, _Mapping]]] = ...) -> None: ...

class RaiseLeaderEpochsResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class PromoteRequest(_message.Message):
    __slots__ = ("link", "topics")
    LINK_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    link: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, link: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ...) -> None: ...

class PromotedPartition(_message.Message):
    __slots__ = ("topic", "index", "leader_epoch")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic: str
    index: int
    leader_epoch: int
    def __init__(self, topic: _Optional[str] = ..., index: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class PromoteResponse(_message.Message):
    __slots__ = ("partitions", "revision")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PromotedPartition]
    revision: int
    def __init__(self, partitions: _Optional[_Iterable[_Union[PromotedPartition, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class DescribeLinksRequest(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class LinkedTopic(_message.Message):
    __slots__ = ("name", "topic_id", "source_topic", "source_topic_id", "partition_count", "linked_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    LINKED_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    source_topic: str
    source_topic_id: bytes
    partition_count: int
    linked_count: int
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., source_topic: _Optional[str] = ..., source_topic_id: _Optional[bytes] = ..., partition_count: _Optional[int] = ..., linked_count: _Optional[int] = ...) -> None: ...

class DescribedLink(_message.Message):
    __slots__ = ("link", "topics")
    LINK_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    link: Link
    topics: _containers.RepeatedCompositeFieldContainer[LinkedTopic]
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[LinkedTopic, _Mapping]]] = ...) -> None: ...

class DescribeLinksResponse(_message.Message):
    __slots__ = ("cluster_id", "links")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    links: _containers.RepeatedCompositeFieldContainer[DescribedLink]
    def __init__(self, cluster_id: _Optional[str] = ..., links: _Optional[_Iterable[_Union[DescribedLink, _Mapping]]] = ...) -> None: ...

class LinkStatusRequest(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class PartitionStatus(_message.Message):
    __slots__ = ("link", "topic", "index", "state", "reason", "since_ms", "log_end_offset", "high_watermark", "source_end_offset", "records_missed", "leader", "leader_epoch", "answered_ms", "log_start_offset")
    LINK_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    SOURCE_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_MISSED_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_MS_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    link: str
    topic: str
    index: int
    state: str
    reason: str
    since_ms: int
    log_end_offset: int
    high_watermark: int
    source_end_offset: int
    records_missed: int
    leader: int
    leader_epoch: int
    answered_ms: int
    log_start_offset: int
    def __init__(self, link: _Optional[str] = ..., topic: _Optional[str] = ..., index: _Optional[int] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., since_ms: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., source_end_offset: _Optional[int] = ..., records_missed: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., answered_ms: _Optional[int] = ..., log_start_offset: _Optional[int] = ...) -> None: ...

class LinkProblem(_message.Message):
    __slots__ = ("kind", "name", "reason")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    reason: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class LinkKeeping(_message.Message):
    __slots__ = ("link", "broker", "failure", "topics_ms", "groups_ms", "groups", "problems", "problems_left_off")
    LINK_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    TOPICS_MS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_MS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_LEFT_OFF_FIELD_NUMBER: _ClassVar[int]
    link: str
    broker: int
    failure: str
    topics_ms: int
    groups_ms: int
    groups: int
    problems: _containers.RepeatedCompositeFieldContainer[LinkProblem]
    problems_left_off: int
    def __init__(self, link: _Optional[str] = ..., broker: _Optional[int] = ..., failure: _Optional[str] = ..., topics_ms: _Optional[int] = ..., groups_ms: _Optional[int] = ..., groups: _Optional[int] = ..., problems: _Optional[_Iterable[_Union[LinkProblem, _Mapping]]] = ..., problems_left_off: _Optional[int] = ...) -> None: ...

class LinkStatusResponse(_message.Message):
    __slots__ = ("partitions", "silent_brokers", "keepings")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SILENT_BROKERS_FIELD_NUMBER: _ClassVar[int]
    KEEPINGS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionStatus]
    silent_brokers: _containers.RepeatedScalarFieldContainer[int]
    keepings: _containers.RepeatedCompositeFieldContainer[LinkKeeping]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionStatus, _Mapping]]] = ..., silent_brokers: _Optional[_Iterable[int]] = ..., keepings: _Optional[_Iterable[_Union[LinkKeeping, _Mapping]]] = ...) -> None: ...
