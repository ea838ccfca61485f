"""The Kafka API "links" (key 20000): Ottla's own, by which the command and mirror workers steer linked topics.

A request names a method and carries its protobuf message (`links.proto`), a response carries the answer's. So what
the controller can do needs no second description here. Version 0 is flexible. The API is not advertised, since no
client of others has a use for it; a broker that does not know it closes the connection, as with any unknown key.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, Final

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16

LINKS_KEY: Final = 20000


class LinksMethod(IntEnum):
    """What is asked; the numbers stand in requests."""

    CREATE_LINK = 1
    ALTER_LINK = 2
    DELETE_LINK = 3
    CREATE_LINKED_TOPICS = 4
    ADD_LINKED_PARTITIONS = 5
    PROMOTE = 6
    DESCRIBE_LINKS = 7
    LINK_STATUS = 8
    OWN_LINK_STATUS = 9
    """Of the partitions that the broker itself leads, and the links that it keeps; brokers ask each other."""
    KEEP_LINKS = 10
    OWN_KEEP_LINKS = 11
    """Of the links that the broker itself keeps; brokers ask each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksRequest:
    """A method's number and its protobuf message."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(LINKS_KEY)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    method: i16 = field(metadata={"kafka_type": "int16"})
    body: bytes = field(metadata={"kafka_type": "bytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksResponse:
    """The answer's protobuf message, or why there is none."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(LINKS_KEY)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    body: bytes = field(metadata={"kafka_type": "bytes"})
