"""Message types of a registry's Protobuf schema: its file and all that it imports, put together."""

from collections.abc import Mapping

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor

from ottla_sdk import DataError

IMPORTS_MAX = 1000


class MessageTypes:
    """The message types of a schema.

    Args:
        file: the schema's own file.
        imports: what it may import, directly or through others, by name.

    Raises:
        DataError: something is missing, or does not fit together.

    Attributes:
        file: the schema's own file.
    """

    def __init__(
        self,
        file: descriptor_pb2.FileDescriptorProto,
        imports: Mapping[str, descriptor_pb2.FileDescriptorProto],
    ) -> None:
        self.file = file
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
        if name not in self._imports:
            raise DataError(f"the Protobuf schema imports {name}, which is none of its references")
        return self._imports[name]
