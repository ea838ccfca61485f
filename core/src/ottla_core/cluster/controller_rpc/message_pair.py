"""Values and the protobuf messages that carry them, converted field by field.

A `MessagePair` is made once, where the module that names it is imported. It compares the fields of both sides then,
and fails if one has no counterpart:

| in the value | in the message |
|---|---|
| int, float, bool, str, bytes | the same |
| UUID | bytes, 16 of them; none where the field has a default |
| IntEnum, StrEnum | its number, its text |
| another dataclass | its message |
| tuple, frozenset | repeated; a tuple in a tuple, or in place of None, is a message with a repeated field |
| Mapping | a map, or repeated messages of `name` and `value` |
| X or None | a field that may be absent, or a text that may be empty |
| `error_code` and `error_message` | `error`, a message of `code` and `message`, or two fields of the same names |

Pure.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from operator import attrgetter
from types import NoneType
from typing import Any, Final, Generic, TypeVar, cast, get_args, get_origin
from uuid import UUID

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from kio.schema.errors import ErrorCode

from ottla_core.errors import InvalidRequest

Value = TypeVar("Value")
MessageT = TypeVar("MessageT", bound=Message)
Convert = Callable[[Any], Any]

UUID_BYTES: Final = 16


class MessagePair(Generic[Value, MessageT]):
    """A frozen dataclass and its message.

    Args:
        value_type: the dataclass.
        message_type: the class of the message.
        renamed: names of fields in the message, by their names in the value.
        except_for: fields of either side that the other one does not have; the caller sees to them.
        parts: pairs of dataclasses inside the value that take arguments of their own.

    Raises:
        TypeError: a field has no counterpart.
    """

    def __init__(
        self,
        value_type: type[Value],
        message_type: type[MessageT],
        *,
        renamed: Mapping[str, str] | None = None,
        except_for: Iterable[str] = (),
        parts: Iterable["MessagePair[Any, Any]"] = (),
    ) -> None:
        self.value_type = value_type
        self.message_type = message_type
        self._readers: dict[str, Convert] = {}
        """What fills each field of the value, from the whole message."""
        self._writers: dict[str, Convert] = {}
        """What fills each field of the message, from the whole value."""
        pairs = {part.value_type: part for part in parts}
        counterparts = {field.name: field for field in _fields(message_type) if field.name not in except_for}
        for each in fields(cast("Any", value_type)):
            name = (renamed or {}).get(each.name, each.name)
            if name in except_for:
                continue
            if each.name in _ERROR_PARTS and "error" in counterparts:
                self._writers["error"] = _error_writer(counterparts["error"])
                self._readers[each.name] = _ERROR_PARTS[each.name]
            elif name in counterparts:
                self._writers[name], self._readers[each.name] = _field_converters(each, counterparts[name], pairs)
            else:
                raise TypeError(f"{message_type.__name__} lacks {name}, which {value_type.__name__} has")
        unpaired = counterparts.keys() - self._writers.keys()
        if unpaired:
            raise TypeError(f"{value_type.__name__} lacks {min(unpaired)}, which {message_type.__name__} has")

    def to_message(self, value: Value) -> MessageT:
        """Return the message of a value."""
        return self.message_type(**{name: write(value) for name, write in self._writers.items()})

    def from_message(self, message: MessageT) -> Value:
        """Return the value of a message.

        Raises:
            InvalidRequest: an id has not 16 bytes, or a number stands for nothing here.
        """
        return self.value_type(**{name: read(message) for name, read in self._readers.items()})

    def to_messages(self, values: Iterable[Value]) -> list[MessageT]:
        """Return the messages of values, in order."""
        return [self.to_message(value) for value in values]

    def from_messages(self, messages: Iterable[MessageT]) -> list[Value]:
        """Return the values of messages, in order; raises as `from_message` does."""
        return [self.from_message(message) for message in messages]


def uuid_from_bytes(value: bytes, name: str) -> UUID:
    """Return an id; `name` says of what, for the message of the error.

    Raises:
        InvalidRequest: it has not 16 bytes.
    """
    if len(value) != UUID_BYTES:
        raise InvalidRequest(f"{name}: an id has {UUID_BYTES} bytes, not {len(value)}")
    return UUID(bytes=value)


@dataclass(frozen=True, slots=True)
class _Conversion:
    """From what a field of the value holds to what the message takes, and back."""

    there: Convert
    back: Convert


_Pairs = Mapping[Any, MessagePair[Any, Any]]


def _field_converters(value_field: "Field[Any]", field: FieldDescriptor, pairs: _Pairs) -> tuple[Convert, Convert]:
    """Return what fills a field of the message from the whole value, and what fills that of the value."""
    kind, may_be_none = _without_none(value_field.type)
    conversion = _conversion(kind, field, pairs)
    held, found = attrgetter(value_field.name), attrgetter(field.name)
    write, read = _chained(held, conversion.there), _chained(found, conversion.back)
    if may_be_none:
        return lambda value: None if held(value) is None else write(value), _unless_absent(field, read, None)
    if kind is UUID and value_field.default is not MISSING:
        return write, _unless_absent(field, read, value_field.default)
    return write, read


def _unless_absent(field: FieldDescriptor, read: Convert, otherwise: Any) -> Convert:
    """Return what reads a field of the message, if it is there; without presence, if it is not empty."""
    name = field.name
    if field.has_presence:
        return lambda message: read(message) if message.HasField(name) else otherwise
    return lambda message: read(message) if getattr(message, name) else otherwise


def _conversion(kind: Any, field: FieldDescriptor, pairs: _Pairs) -> _Conversion:
    """Return how what is of a type travels in a field, which may be repeated."""
    if not field.is_repeated:
        return _single(kind, field, pairs)
    if get_origin(kind) is Mapping:
        return _mapping(kind, field)
    element = _single(get_args(kind)[0], field, pairs)
    if get_origin(kind) is frozenset:
        return _Conversion(sorted, frozenset)
    return _Conversion(
        lambda values: [element.there(each) for each in values],
        lambda messages: tuple([element.back(each) for each in messages]),
    )


def _single(kind: Any, field: FieldDescriptor, pairs: _Pairs) -> _Conversion:
    """Return how one thing of a type travels: in a field, or as an element of it."""
    if get_origin(kind) is tuple:
        message_type = _message_type(field)
        (inner,) = (each for each in _fields(message_type) if each.is_repeated)
        elements = _conversion(kind, inner, pairs)
        return _Conversion(
            lambda values: message_type(**{inner.name: elements.there(values)}),
            lambda message: elements.back(getattr(message, inner.name)),
        )
    if kind is UUID:
        return _Conversion(attrgetter("bytes"), lambda value: uuid_from_bytes(value, field.full_name))
    if is_dataclass(kind):
        pair = pairs.get(kind) or MessagePair(cast("type[Any]", kind), _message_type(field))
        return _Conversion(pair.to_message, pair.from_message)
    if issubclass(kind, Enum):
        return _Conversion(attrgetter("value"), lambda value: _member(kind, value, field.full_name))
    return _Conversion(_same, _same)


def _mapping(kind: Any, field: FieldDescriptor) -> _Conversion:
    """Return how a mapping of texts travels."""
    entry = _message_type(field)
    if entry.DESCRIPTOR.GetOptions().map_entry:
        return _Conversion(dict, dict)
    _, may_be_none = _without_none(get_args(kind)[1])

    def back(entries: Any) -> dict[str, str | None]:
        return {each.name: each.value if each.HasField("value") or not may_be_none else None for each in entries}

    return _Conversion(lambda values: [entry(name=name, value=value) for name, value in values.items()], back)


def _fields(message_type: type[Message]) -> Sequence[FieldDescriptor]:
    return cast("Sequence[FieldDescriptor]", message_type.DESCRIPTOR.fields)


def _message_type(field: FieldDescriptor) -> type[Message]:
    assert field.message_type is not None, f"{field.full_name} is no message"
    return GetMessageClass(field.message_type)


def _error_writer(field: FieldDescriptor) -> Convert:
    message_type = _message_type(field)
    return lambda value: message_type(code=value.error_code.value, message=value.error_message)


_ERROR_PARTS: Final[dict[str, Convert]] = {
    "error_code": lambda message: _member(ErrorCode, message.error.code, "error.code"),
    "error_message": lambda message: message.error.message or None,
}


def _member(kind: type[Enum], value: Any, name: str) -> Enum:
    try:
        return kind(value)
    except ValueError:
        raise InvalidRequest(f"{name}: {value} is no {kind.__name__} that this release knows") from None


def _without_none(kind: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was possible."""
    if NoneType not in get_args(kind):
        return kind, False
    (rest,) = (each for each in get_args(kind) if each is not NoneType)
    return rest, True


def _same(value: Any) -> Any:
    return value


def _chained(first: Convert, second: Convert) -> Convert:
    return first if second is _same else lambda value: second(first(value))
