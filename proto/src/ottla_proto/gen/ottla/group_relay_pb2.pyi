from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Frames(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[Frame]
    def __init__(self, frames: _Optional[_Iterable[_Union[Frame, _Mapping]]] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("id", "group_request", "group_response", "log_append", "log_appended", "log_read", "log_records", "log_ends_question", "log_ends", "topic_rights_question", "topic_rights", "markers_write", "markers_written")
    ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_REQUEST_FIELD_NUMBER: _ClassVar[int]
    GROUP_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOG_APPEND_FIELD_NUMBER: _ClassVar[int]
    LOG_APPENDED_FIELD_NUMBER: _ClassVar[int]
    LOG_READ_FIELD_NUMBER: _ClassVar[int]
    LOG_RECORDS_FIELD_NUMBER: _ClassVar[int]
    LOG_ENDS_QUESTION_FIELD_NUMBER: _ClassVar[int]
    LOG_ENDS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_RIGHTS_QUESTION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_RIGHTS_FIELD_NUMBER: _ClassVar[int]
    MARKERS_WRITE_FIELD_NUMBER: _ClassVar[int]
    MARKERS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    id: int
    group_request: GroupRequest
    group_response: GroupResponse
    log_append: LogAppend
    log_appended: LogAppended
    log_read: LogRead
    log_records: LogRecords
    log_ends_question: LogEndsQuestion
    log_ends: LogEnds
    topic_rights_question: TopicRightsQuestion
    topic_rights: TopicRights
    markers_write: MarkersWrite
    markers_written: MarkersWritten
    def __init__(self, id: _Optional[int] = ..., group_request: _Optional[_Union[GroupRequest, _Mapping]] = ..., group_response: _Optional[_Union[GroupResponse, _Mapping]] = ..., log_append: _Optional[_Union[LogAppend, _Mapping]] = ..., log_appended: _Optional[_Union[LogAppended, _Mapping]] = ..., log_read: _Optional[_Union[LogRead, _Mapping]] = ..., log_records: _Optional[_Union[LogRecords, _Mapping]] = ..., log_ends_question: _Optional[_Union[LogEndsQuestion, _Mapping]] = ..., log_ends: _Optional[_Union[LogEnds, _Mapping]] = ..., topic_rights_question: _Optional[_Union[TopicRightsQuestion, _Mapping]] = ..., topic_rights: _Optional[_Union[TopicRights, _Mapping]] = ..., markers_write: _Optional[_Union[MarkersWrite, _Mapping]] = ..., markers_written: _Optional[_Union[MarkersWritten, _Mapping]] = ...) -> None: ...

class GroupRequest(_message.Message):
    __slots__ = ("shard", "frame", "client_host", "topics_revision", "only_forward", "sets_all_back", "topic", "principal", "rights_version", "fresh_producer_id", "verification_guard")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    TOPICS_REVISION_FIELD_NUMBER: _ClassVar[int]
    ONLY_FORWARD_FIELD_NUMBER: _ClassVar[int]
    SETS_ALL_BACK_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_VERSION_FIELD_NUMBER: _ClassVar[int]
    FRESH_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    VERIFICATION_GUARD_FIELD_NUMBER: _ClassVar[int]
    shard: int
    frame: bytes
    client_host: str
    topics_revision: int
    only_forward: bool
    sets_all_back: bool
    topic: str
    principal: Principal
    rights_version: int
    fresh_producer_id: int
    verification_guard: int
    def __init__(self, shard: _Optional[int] = ..., frame: _Optional[bytes] = ..., client_host: _Optional[str] = ..., topics_revision: _Optional[int] = ..., only_forward: _Optional[bool] = ..., sets_all_back: _Optional[bool] = ..., topic: _Optional[str] = ..., principal: _Optional[_Union[Principal, _Mapping]] = ..., rights_version: _Optional[int] = ..., fresh_producer_id: _Optional[int] = ..., verification_guard: _Optional[int] = ...) -> None: ...

class Principal(_message.Message):
    __slots__ = ("kind", "name")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GroupResponse(_message.Message):
    __slots__ = ("frame", "verification_guard")
    FRAME_FIELD_NUMBER: _ClassVar[int]
    VERIFICATION_GUARD_FIELD_NUMBER: _ClassVar[int]
    frame: bytes
    verification_guard: int
    def __init__(self, frame: _Optional[bytes] = ..., verification_guard: _Optional[int] = ...) -> None: ...

class LogAppend(_message.Message):
    __slots__ = ("shard", "batch", "topic", "preceding_batches")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PRECEDING_BATCHES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    batch: bytes
    topic: str
    preceding_batches: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, shard: _Optional[int] = ..., batch: _Optional[bytes] = ..., topic: _Optional[str] = ..., preceding_batches: _Optional[_Iterable[bytes]] = ...) -> None: ...

class LogAppended(_message.Message):
    __slots__ = ("error_code", "error_message", "base_offset", "seen_producer_epoch")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SEEN_PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    base_offset: int
    seen_producer_epoch: int
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., base_offset: _Optional[int] = ..., seen_producer_epoch: _Optional[int] = ...) -> None: ...

class LogRead(_message.Message):
    __slots__ = ("shard", "offset", "bytes_max", "topic")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    shard: int
    offset: int
    bytes_max: int
    topic: str
    def __init__(self, shard: _Optional[int] = ..., offset: _Optional[int] = ..., bytes_max: _Optional[int] = ..., topic: _Optional[str] = ...) -> None: ...

class LogRecords(_message.Message):
    __slots__ = ("error_code", "error_message", "batches", "log_start_offset", "high_watermark")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    batches: bytes
    log_start_offset: int
    high_watermark: int
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., batches: _Optional[bytes] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ...) -> None: ...

class LogEndsQuestion(_message.Message):
    __slots__ = ("topics",)
    class Topic(_message.Message):
        __slots__ = ("topic_id", "partitions")
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITIONS_FIELD_NUMBER: _ClassVar[int]
        topic_id: bytes
        partitions: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[LogEndsQuestion.Topic]
    def __init__(self, topics: _Optional[_Iterable[_Union[LogEndsQuestion.Topic, _Mapping]]] = ...) -> None: ...

class TopicRightsQuestion(_message.Message):
    __slots__ = ("principal", "client_host", "topics")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    principal: Principal
    client_host: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, principal: _Optional[_Union[Principal, _Mapping]] = ..., client_host: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ...) -> None: ...

class TopicRights(_message.Message):
    __slots__ = ("describable",)
    DESCRIBABLE_FIELD_NUMBER: _ClassVar[int]
    describable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, describable: _Optional[_Iterable[str]] = ...) -> None: ...

class LogEnds(_message.Message):
    __slots__ = ("high_watermarks",)
    HIGH_WATERMARKS_FIELD_NUMBER: _ClassVar[int]
    high_watermarks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, high_watermarks: _Optional[_Iterable[int]] = ...) -> None: ...

class MarkersWrite(_message.Message):
    __slots__ = ("markers",)
    class Topic(_message.Message):
        __slots__ = ("name", "partitions", "topic_id")
        NAME_FIELD_NUMBER: _ClassVar[int]
        PARTITIONS_FIELD_NUMBER: _ClassVar[int]
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        name: str
        partitions: _containers.RepeatedScalarFieldContainer[int]
        topic_id: bytes
        def __init__(self, name: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., topic_id: _Optional[bytes] = ...) -> None: ...
    class Marker(_message.Message):
        __slots__ = ("producer_id", "producer_epoch", "is_commit", "coordinator_epoch", "transaction_version", "topics")
        PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
        PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        IS_COMMIT_FIELD_NUMBER: _ClassVar[int]
        COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
        TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
        TOPICS_FIELD_NUMBER: _ClassVar[int]
        producer_id: int
        producer_epoch: int
        is_commit: bool
        coordinator_epoch: int
        transaction_version: int
        topics: _containers.RepeatedCompositeFieldContainer[MarkersWrite.Topic]
        def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., is_commit: _Optional[bool] = ..., coordinator_epoch: _Optional[int] = ..., transaction_version: _Optional[int] = ..., topics: _Optional[_Iterable[_Union[MarkersWrite.Topic, _Mapping]]] = ...) -> None: ...
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    markers: _containers.RepeatedCompositeFieldContainer[MarkersWrite.Marker]
    def __init__(self, markers: _Optional[_Iterable[_Union[MarkersWrite.Marker, _Mapping]]] = ...) -> None: ...

class MarkersWritten(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("error_codes",)
        ERROR_CODES_FIELD_NUMBER: _ClassVar[int]
        error_codes: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, error_codes: _Optional[_Iterable[int]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[MarkersWritten.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[MarkersWritten.Result, _Mapping]]] = ...) -> None: ...
