"""Message types of a registry's Protobuf schema: its descriptor and all that it imports, put together.

A schema is the text of a .proto file, or the base64 of its serialized descriptor.
"""

import base64
import binascii
from collections.abc import Mapping

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from ottla_schema_registry.protobuf.builtin_files import TEXTS, runtime_file
from ottla_schema_registry.protobuf.proto_parser import parse_proto
from ottla_sdk import DataError

SCHEMA_FILE = "default.proto"
"""The name of a schema's own file, which nobody imports by it."""
IMPORTS_MAX = 1000


class MessageTypes:
    """The message types of a schema.

    Args:
        schema: the schema's own file.
        imports: the schemas it imports, by the names it imports them by.

    Raises:
        DataError: something is no schema, is missing, or does not fit together.

    Attributes:
        file: the schema's own file.
    """

    def __init__(self, schema: str, imports: Mapping[str, str]) -> None:
        self.file = _parsed(schema, SCHEMA_FILE)
        self._imports = imports
        self._pool = descriptor_pool.DescriptorPool()
        self._added: set[str] = set()
        self._add(self.file)

    def find(self, indexes: tuple[int, ...]) -> Descriptor:
        """Return a message type by the way to it; raises DataError if there is none."""
        messages = list(self.file.message_type)
        names = [self.file.package] if self.file.package else []
        for index in indexes:
            if not 0 <= index < len(messages):
                raise DataError(f"the Protobuf schema has no message type at {list(indexes)}")
            names.append(messages[index].name)
            # The messages that protoc makes for maps are in no file, and do not count.
            messages = [each for each in messages[index].nested_type if not each.options.map_entry]
        return self.named(".".join(names))

    def named(self, full_name: str) -> Descriptor:
        """Return a message type by its full name; raises DataError if there is none."""
        try:
            return self._pool.FindMessageTypeByName(full_name)
        except KeyError:
            raise DataError(f"the Protobuf schema has no message type {full_name}") from None

    def indexes(self, full_name: str) -> tuple[int, ...]:
        """Return the way to a message type; raises DataError if there is none."""
        prefix = f"{self.file.package}." if self.file.package else ""
        messages = list(self.file.message_type)
        indexes = []
        for name in full_name.removeprefix(prefix).split("."):
            names = [each.name for each in messages]
            if name not in names:
                raise DataError(f"the Protobuf schema has no message type {full_name}")
            indexes.append(names.index(name))
            messages = [each for each in messages[indexes[-1]].nested_type if not each.options.map_entry]
        return tuple(indexes)

    def _add(self, file: descriptor_pb2.FileDescriptorProto) -> None:
        self._added.add(file.name)
        if len(self._added) > IMPORTS_MAX:
            raise DataError(f"a Protobuf schema with more than {IMPORTS_MAX} imports")
        for name in file.dependency:
            if name not in self._added:
                self._add(self._found(name))
        try:
            self._pool.Add(file)
            self._pool.FindFileByName(file.name)
        except (TypeError, KeyError, ValueError) as error:
            raise DataError(f"the Protobuf schema does not fit together: {error}") from None

    def _found(self, name: str) -> descriptor_pb2.FileDescriptorProto:
        if name in self._imports:
            return _parsed(self._imports[name], name)
        if (found := runtime_file(name)) is not None:
            return found
        if name in TEXTS:
            return parse_proto(TEXTS[name], name)
        raise DataError(f"the Protobuf schema imports {name}, which is none of its references")


def _parsed(schema: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    try:
        data = base64.b64decode(schema, validate=True)
        found = descriptor_pb2.FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return parse_proto(schema, name)
    found.name = name
    return found
