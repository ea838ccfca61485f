"""Framing and encoding of Kafka requests and responses, over kio's message classes and those of our own API.

A frame is a four-byte length and that many bytes. A request begins with a header: API key, version, correlation
id, client id and, in flexible versions, tagged fields. A response begins with the correlation id and, in flexible
versions of every API but ApiVersions, tagged fields.

Source: the protocol guide of Kafka, KIP-482 (flexible versions) and KIP-511 (ApiVersions).
"""

import io
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.protocol import Entity, RequestPayload

from ottla_core.errors import InvalidRequest
from ottla_core.wire.bounds import ITEMS_MAX, bounds_checker, skip_tagged_fields
from ottla_core.wire.conversion import convert
from ottla_core.wire.described_transactions import DESCRIBE_TRANSACTIONS_KEY, DescribeTransactionsResponse
from ottla_core.wire.links_messages import LINKS_KEY, LinksRequest, LinksResponse
from ottla_core.wire.primitives import NO_TAGGED_FIELDS

API_VERSIONS_KEY = 18

LENGTH_PREFIX_SIZE = 4
_FIXED_HEADER = struct.Struct(">hhi")
_HEADER_AND_LENGTH = struct.Struct(">hhih")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """The header of a request; `body_offset` is where the message begins, for non-flexible versions."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def read_request_header(frame: memoryview) -> RequestHeader:
    """Read the part of a request header that all versions share.

    Args:
        frame: a frame without its length prefix.

    Raises:
        InvalidRequest: the frame is too short.
    """
    try:
        api_key, api_version, correlation_id, length = _HEADER_AND_LENGTH.unpack_from(frame)
        if length < 0:
            return RequestHeader(api_key, api_version, correlation_id, None, 10)
        end = 10 + length
        if end > len(frame):
            raise InvalidRequest(f"client id of {length} bytes in a frame of {len(frame)} bytes")
        return RequestHeader(api_key, api_version, correlation_id, str(frame[10:end], "utf-8", "replace"), end)
    except struct.error:
        raise InvalidRequest(f"a request header needs 10 bytes, the frame has {len(frame)}") from None


class MessageCodec:
    """Reader of the requests and writer of the responses of one version of one API.

    Attributes:
        request_type: kio's class of this version's requests.
        response_type: and of its responses.
        flexible: whether the version has tagged fields.
    """

    __slots__ = (
        "_check_bounds",
        "_newest_request",
        "_read",
        "_tagged_header",
        "_write",
        "flexible",
        "request_type",
        "response_type",
    )

    def __init__(self, api_key: int, version: int) -> None:
        self.request_type: type[RequestPayload] = _request_type(api_key, version)
        self.flexible: bool = self.request_type.__flexible__
        self._tagged_header = self.flexible and api_key != API_VERSIONS_KEY
        self._newest_request: type[Entity] = _request_type(api_key, newest_version(api_key))
        self.response_type: type[Entity] = _response_type(api_key, version)
        self._check_bounds = bounds_checker(self.request_type)
        self._read = entity_reader(self.request_type)
        self._write: Callable[[Any, Any], None] = entity_writer(self.response_type)

    def read_request(self, frame: memoryview, header: RequestHeader, *, items_max: int = ITEMS_MAX) -> Entity:
        """Return the request in this version's class.

        Args:
            frame: the request without its length.
            header: its header.
            items_max: the most array items that it may have, nested ones included.

        Raises:
            InvalidRequest: the bytes are no such request.
        """
        try:
            offset = self.body_offset(frame, header)
            self._check_bounds(frame, offset, items_max)
            return self._read(frame, offset)[0]
        except (SerialError, ValueError, OverflowError, IndexError, KeyError) as error:
            raise InvalidRequest(
                f"malformed {self.request_type.__name__} v{self.request_type.__version__}: {error}"
            ) from None

    def body_offset(self, frame: memoryview, header: RequestHeader) -> int:
        """Return where the message begins, behind the header's tagged fields.

        Raises:
            InvalidRequest: the header does not end within the frame.
        """
        if not self.flexible:
            return header.body_offset
        try:
            return skip_tagged_fields(frame, header.body_offset)
        except IndexError:
            raise InvalidRequest("the frame ends within the header's tagged fields") from None

    def upgrade_request(self, request: Entity) -> Entity:
        """Return the request in the newest version's class."""
        return convert(request, self._newest_request)

    def encode_response(self, correlation_id: int, response: Entity) -> bytes:
        """Return a whole frame; the response may be of any version of its class."""
        buffer = io.BytesIO()
        buffer.write(bytes(LENGTH_PREFIX_SIZE))
        buffer.write(self.response_header(correlation_id))
        self._write(buffer, convert(response, self.response_type))
        with buffer.getbuffer() as view:
            _INT32.pack_into(view, 0, len(view) - LENGTH_PREFIX_SIZE)
        return buffer.getvalue()

    def encode_request(self, header: RequestHeader, request: Any) -> bytes:
        """Return a frame without its length, as a process that stands in for the client sends it.

        Args:
            header: correlation id and client id.
            request: in this version's class.
        """
        buffer = io.BytesIO()
        client_id = None if header.client_id is None else header.client_id.encode()
        buffer.write(_FIXED_HEADER.pack(self.request_type.__api_key__, header.api_version, header.correlation_id))
        buffer.write(_INT16.pack(-1) if client_id is None else _INT16.pack(len(client_id)) + client_id)
        if self.flexible:
            buffer.write(NO_TAGGED_FIELDS)
        entity_writer(self.request_type)(buffer, request)
        return buffer.getvalue()

    def read_response(self, frame: bytes) -> Any:
        """Return the response of a whole frame that a process of this cluster has sent, in this version's class.

        Lengths are not checked, as the sender is trusted.

        Raises:
            InvalidRequest: the bytes are no such response.
        """
        offset = LENGTH_PREFIX_SIZE + len(self.response_header(0))
        try:
            return entity_reader(self.response_type)(memoryview(frame).toreadonly(), offset)[0]
        except (SerialError, ValueError, OverflowError, IndexError) as error:
            raise InvalidRequest(
                f"malformed {self.response_type.__name__} v{self.response_type.__version__}: {error}"
            ) from None

    def response_header(self, correlation_id: int) -> bytes:
        """Return the response header of this version."""
        return _INT32.pack(correlation_id) + (b"\0" if self._tagged_header else b"")


@cache
def message_codec(api_key: int, version: int) -> MessageCodec:
    """Return the codec of one version of one API; versions are loaded when first used."""
    return MessageCodec(api_key, version)


def _request_type(api_key: int, version: int) -> type[RequestPayload]:
    if api_key == LINKS_KEY:
        return LinksRequest
    return load_request_schema(api_key, version)


def _response_type(api_key: int, version: int) -> type[Entity]:
    if api_key == LINKS_KEY:
        return LinksResponse
    if api_key == DESCRIBE_TRANSACTIONS_KEY:
        return DescribeTransactionsResponse
    return load_response_schema(api_key, version)


def newest_version(api_key: int) -> int:
    """Return the newest version of an API that kio knows."""
    if api_key == LINKS_KEY:
        return 0
    return max(schema_name_map[api_key_map[api_key]])


def oldest_version(api_key: int) -> int:
    """Return the oldest version of an API that kio knows."""
    if api_key == LINKS_KEY:
        return 0
    return min(schema_name_map[api_key_map[api_key]])


def api_name(api_key: int) -> str:
    """Return the API's name as Kafka spells it, or its number if there is none."""
    name = api_key_map.get(api_key)
    return f"API {api_key}" if name is None else "".join(word.capitalize() for word in name.split("_"))
