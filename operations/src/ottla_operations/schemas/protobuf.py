"""Protobuf: the text of a schema is compiled by protoc, and messages are shown in Protobuf's own JSON encoding."""

from typing import TYPE_CHECKING, Any

from ottla_operations.errors import OperationError
from ottla_operations.records.field_codec import BadField, compact_json
from ottla_operations.schemas.registry import SchemaText, missing
from ottla_sdk.errors import DataError, RetriableError
from ottla_sdk.protobuf_compiler import compile_protobuf

if TYPE_CHECKING:
    from google.protobuf.message import Message

FILE = "ottla_schema.proto"


class ProtobufSchema:
    """One schema, a file with one or more message types.

    Raises:
        BadField: protoc refuses it.
        OperationError: protobuf or grpcio-tools is not installed, or protoc cannot run here.
    """

    def __init__(self, schema: SchemaText) -> None:
        try:
            from google.protobuf import descriptor_pool  # noqa: PLC0415

            compiled = compile_protobuf([FILE], {**schema.references, FILE: schema.text})
        except ImportError as error:
            raise missing(error) from None
        except DataError as error:
            raise BadField(f"cannot be read: {error}") from None
        except RetriableError as error:
            raise OperationError(str(error)) from None
        self._pool = descriptor_pool.DescriptorPool()
        for file in compiled.file:
            self._pool.Add(file)
            if file.name == FILE:
                self._file = file

    def decode(self, data: bytes, indexes: list[int]) -> Any:
        """Return the JSON value of a message.

        Args:
            data: its bytes.
            indexes: which of the file's messages it is; each next one is nested in the one before.

        Raises:
            BadField: they are no such message.
        """
        from google.protobuf import json_format  # noqa: PLC0415
        from google.protobuf.message import DecodeError  # noqa: PLC0415

        message = self._message(indexes)
        try:
            message.ParseFromString(data)
            return json_format.MessageToDict(
                message,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
                descriptor_pool=self._pool,
            )
        except (DecodeError, ValueError, TypeError) as error:
            raise BadField(f"is not of its Protobuf schema: {error}") from None

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a message of the file's first type.

        Raises:
            BadField: the value does not fit it.
        """
        from google.protobuf import json_format  # noqa: PLC0415

        message = self._message([0])
        try:
            json_format.Parse(compact_json(value), message, descriptor_pool=self._pool)
        except json_format.ParseError as error:
            raise BadField(f"does not fit its Protobuf schema: {error}") from None
        return message.SerializeToString()

    def _message(self, indexes: list[int]) -> "Message":
        from google.protobuf import message_factory  # noqa: PLC0415

        names = [self._file.package] if self._file.package else []
        try:
            type_ = self._file.message_type[indexes[0]]
            names.append(type_.name)
            for index in indexes[1:]:
                type_ = type_.nested_type[index]
                names.append(type_.name)
        except IndexError:
            raise BadField(f"is message {indexes} of its schema, which has no such message") from None
        descriptor = self._pool.FindMessageTypeByName(".".join(names))
        return message_factory.GetMessageClass(descriptor)()
