"""Protobuf: the text of a schema is compiled by protoc, and messages are shown in Protobuf's own JSON encoding."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.records.field_codec import BadField, compact_json
from ottla.schemas.registry import SchemaText, missing

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import Message

FILE = "ottla_schema.proto"
COMPILED_WITHIN_S = 30.0


class ProtobufSchema:
    """One schema, a file with one or more message types.

    Raises:
        BadField: protoc refuses it.
        CommandError: protobuf or grpcio-tools is not installed.
    """

    def __init__(self, schema: SchemaText) -> None:
        try:
            from google.protobuf import descriptor_pool  # noqa: PLC0415
        except ImportError as error:
            raise missing(error) from None
        compiled = _compile({**schema.references, FILE: schema.text})
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


def _compile(files: dict[str, str]) -> "FileDescriptorSet":
    from google.protobuf import descriptor_pb2  # noqa: PLC0415

    try:
        import grpc_tools  # noqa: PLC0415
    except ImportError as error:
        raise missing(error) from None
    includes = Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = (Path(folder) / name).resolve()
            if not path.is_relative_to(Path(folder).resolve()):
                raise BadField(f"has a schema that refers to a file {name}, which is outside of it")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        compiled = Path(folder) / "compiled"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{includes}"),
                *("--include_imports", f"--descriptor_set_out={compiled}", FILE),
            ],
            capture_output=True, text=True, check=False, timeout=COMPILED_WITHIN_S,
        )  # fmt: skip
        if done.returncode:
            raise BadField(f"has a schema that protoc refuses: {' '.join(done.stderr.split())}")
        return descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes())
