from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AclBinding(_message.Message):
    __slots__ = ("kind", "pattern", "name", "principal", "host", "operation", "permission")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    kind: int
    pattern: int
    name: str
    principal: str
    host: str
    operation: int
    permission: int
    def __init__(self, kind: _Optional[int] = ..., pattern: _Optional[int] = ..., name: _Optional[str] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[int] = ..., permission: _Optional[int] = ...) -> None: ...

class AclFilter(_message.Message):
    __slots__ = ("kind", "pattern", "name", "principal", "host", "operation", "permission")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    kind: int
    pattern: int
    name: str
    principal: str
    host: str
    operation: int
    permission: int
    def __init__(self, kind: _Optional[int] = ..., pattern: _Optional[int] = ..., name: _Optional[str] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[int] = ..., permission: _Optional[int] = ...) -> None: ...

class AlterAclsRequest(_message.Message):
    __slots__ = ("creations", "deletions")
    CREATIONS_FIELD_NUMBER: _ClassVar[int]
    DELETIONS_FIELD_NUMBER: _ClassVar[int]
    creations: _containers.RepeatedCompositeFieldContainer[AclBinding]
    deletions: _containers.RepeatedCompositeFieldContainer[AclFilter]
    def __init__(self, creations: _Optional[_Iterable[_Union[AclBinding, _Mapping]]] = ..., deletions: _Optional[_Iterable[_Union[AclFilter, _Mapping]]] = ...) -> None: ...

class DeletedAcls(_message.Message):
    __slots__ = ("bindings",)
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    bindings: _containers.RepeatedCompositeFieldContainer[AclBinding]
    def __init__(self, bindings: _Optional[_Iterable[_Union[AclBinding, _Mapping]]] = ...) -> None: ...

class AlterAclsResponse(_message.Message):
    __slots__ = ("deleted", "revision")
    DELETED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    deleted: _containers.RepeatedCompositeFieldContainer[DeletedAcls]
    revision: int
    def __init__(self, deleted: _Optional[_Iterable[_Union[DeletedAcls, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...
