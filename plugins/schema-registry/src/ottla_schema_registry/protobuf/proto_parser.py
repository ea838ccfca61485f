"""Text of .proto files, as registries give it, to descriptors.

Understood is what values depend on: messages, fields, maps, oneofs, enums. Services, extensions, reserved names and
other options are read over. Names of types are left as they are written: the Protobuf runtime finds what they mean.
"""

from google.protobuf import descriptor_pb2

from ottla_schema_registry.protobuf import field_meta
from ottla_schema_registry.protobuf.proto_tokens import Tokens

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "double": _Field.TYPE_DOUBLE,
    "float": _Field.TYPE_FLOAT,
    "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64,
    "int32": _Field.TYPE_INT32,
    "fixed64": _Field.TYPE_FIXED64,
    "fixed32": _Field.TYPE_FIXED32,
    "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "uint32": _Field.TYPE_UINT32,
    "sfixed32": _Field.TYPE_SFIXED32,
    "sfixed64": _Field.TYPE_SFIXED64,
    "sint32": _Field.TYPE_SINT32,
    "sint64": _Field.TYPE_SINT64,
}
_LABELS = {
    "optional": _Field.LABEL_OPTIONAL,
    "required": _Field.LABEL_REQUIRED,
    "repeated": _Field.LABEL_REPEATED,
}
_NESTING_MAX = 64


def parse_proto(text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    """Return the descriptor of a file.

    Args:
        text: the file.
        name: what others import it as.

    Raises:
        DataError: it is none, or uses groups or editions.
    """
    return _Parser(Tokens(text), name).file()


class _Parser:
    def __init__(self, tokens: Tokens, name: str) -> None:
        self._tokens = tokens
        self._file = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto2")

    def file(self) -> descriptor_pb2.FileDescriptorProto:
        """Return the file's descriptor."""
        tokens = self._tokens
        while tokens.next.kind != "end":
            if tokens.takes(";"):
                continue
            keyword = tokens.name()
            if keyword in ("syntax", "edition"):
                self._syntax(keyword)
            elif keyword == "package":
                self._file.package = tokens.name()
                tokens.expect(";")
            elif keyword == "import":
                self._import()
            elif keyword == "message":
                self._message(self._file.message_type.add(), 0)
            elif keyword == "enum":
                self._enum(self._file.enum_type.add())
            elif keyword == "option":
                self._skip_statement()
            elif keyword in ("service", "extend"):
                tokens.name()
                self._skip_block()
            else:
                tokens.refuse(f"{keyword!r} begins nothing in a file")
        return self._file

    def _syntax(self, keyword: str) -> None:
        self._tokens.expect("=")
        syntax = self._tokens.string()
        if keyword == "edition" or syntax not in ("proto2", "proto3"):
            self._tokens.refuse(f"{keyword} {syntax!r} is not understood, proto2 and proto3 are")
        self._file.syntax = syntax
        self._tokens.expect(";")

    def _import(self) -> None:
        is_public = self._tokens.takes("public")
        if not is_public:
            self._tokens.takes("weak")
        if is_public:
            self._file.public_dependency.append(len(self._file.dependency))
        self._file.dependency.append(self._tokens.string())
        self._tokens.expect(";")

    def _message(self, message: descriptor_pb2.DescriptorProto, depth: int) -> None:
        tokens = self._tokens
        if depth > _NESTING_MAX:
            tokens.refuse(f"messages nested more than {_NESTING_MAX} deep")
        message.name = tokens.name()
        tokens.expect("{")
        optionals: list[descriptor_pb2.FieldDescriptorProto] = []
        while not tokens.takes("}"):
            if tokens.takes(";"):
                continue
            start = tokens.next
            keyword = tokens.name()
            if keyword == "message" and self._begins_block():
                self._message(message.nested_type.add(), depth + 1)
            elif keyword == "enum" and self._begins_block():
                self._enum(message.enum_type.add())
            elif keyword == "oneof" and self._begins_block():
                self._oneof(message)
            elif keyword == "extend" and self._begins_block():
                tokens.name()
                self._skip_block()
            elif keyword in ("option", "reserved", "extensions") and tokens.next.text != "=":
                self._skip_statement()
            elif keyword == "map" and tokens.next.text == "<":
                self._map(message)
            else:
                self._field(message, keyword, optionals)
            assert tokens.next is not start, "every turn takes something"
        for field in optionals:
            # Protobuf says that such a field may be missing by a oneof of its own, behind all others.
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")

    def _begins_block(self) -> bool:
        return self._tokens.next.kind == "name"

    def _field(
        self,
        message: descriptor_pb2.DescriptorProto,
        keyword: str,
        optionals: list[descriptor_pb2.FieldDescriptorProto],
    ) -> None:
        field = message.field.add(label=_Field.LABEL_OPTIONAL)
        has_label = keyword in _LABELS and self._tokens.next.kind == "name"
        if has_label:
            field.label = _LABELS[keyword]
            if keyword == "optional" and self._file.syntax == "proto3":
                field.proto3_optional = True
                optionals.append(field)
        self._typed_field(field, self._tokens.name() if has_label else keyword)

    def _typed_field(self, field: descriptor_pb2.FieldDescriptorProto, type_name: str) -> None:
        tokens = self._tokens
        if type_name == "group":
            tokens.refuse("groups are not understood")
        self._set_type(field, type_name)
        field.name = tokens.name()
        tokens.expect("=")
        field.number = tokens.integer()
        if tokens.takes("["):
            self._field_options(field)
        tokens.expect(";")

    def _set_type(self, field: descriptor_pb2.FieldDescriptorProto, type_name: str) -> None:
        if type_name in _SCALARS:
            field.type = _SCALARS[type_name]
        else:
            field.type_name = type_name  # A message or an enum; the runtime finds out which.

    def _map(self, message: descriptor_pb2.DescriptorProto) -> None:
        tokens = self._tokens
        tokens.expect("<")
        key_type = tokens.name()
        tokens.expect(",")
        value_type = tokens.name()
        tokens.expect(">")
        field = message.field.add(label=_Field.LABEL_REPEATED)
        field.name = tokens.name()
        tokens.expect("=")
        field.number = tokens.integer()
        if tokens.takes("["):
            self._field_options(field)
        tokens.expect(";")
        field.type_name = map_entry_name(field.name)
        field.type = _Field.TYPE_MESSAGE
        entry = message.nested_type.add(name=field.type_name)
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key_type), ("value", value_type)), 1):
            self._set_type(entry.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL), kind)

    def _oneof(self, message: descriptor_pb2.DescriptorProto) -> None:
        tokens = self._tokens
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=tokens.name())
        tokens.expect("{")
        while not tokens.takes("}"):
            if tokens.takes(";"):
                continue
            keyword = tokens.name()
            if keyword == "option" and tokens.next.text != "=":
                self._skip_statement()
            else:
                self._typed_field(message.field.add(label=_Field.LABEL_OPTIONAL, oneof_index=index), keyword)

    def _enum(self, enum: descriptor_pb2.EnumDescriptorProto) -> None:
        tokens = self._tokens
        enum.name = tokens.name()
        tokens.expect("{")
        while not tokens.takes("}"):
            if tokens.takes(";"):
                continue
            name = tokens.name()
            if name == "option" and tokens.next.text != "=":
                if tokens.next.text == "allow_alias":
                    tokens.take()
                    tokens.expect("=")
                    enum.options.allow_alias = tokens.name() == "true"
                    tokens.expect(";")
                else:
                    self._skip_statement()
            elif name == "reserved" and tokens.next.text != "=":
                self._skip_statement()
            else:
                tokens.expect("=")
                enum.value.add(name=name, number=tokens.integer())
                if tokens.takes("["):
                    self._skip_to("]")
                tokens.expect(";")

    def _field_options(self, field: descriptor_pb2.FieldDescriptorProto) -> None:
        tokens = self._tokens
        while True:
            name = self._option_name()
            tokens.expect("=")
            if name == "default":
                field.default_value = self._default()
            elif name == "packed":
                field.options.packed = tokens.name() == "true"
            elif name == "json_name":
                field.json_name = tokens.string()
            elif name == f"({field_meta.EXTENSION_NAME})" and tokens.next.text == "{":
                params = field_meta.params_from_text(self._aggregate())
                if params:
                    field_meta.write_params(field.options, params)
            else:
                self._skip_value()
            if tokens.takes("]"):
                return
            tokens.expect(",")

    def _option_name(self) -> str:
        """Return the name of an option: with parentheses if it is an extension, and the path into it."""
        tokens = self._tokens
        parts = []
        while tokens.next.text not in ("=", ""):
            parts.append(tokens.take().text)
        return "".join(parts)

    def _default(self) -> str:
        tokens = self._tokens
        if tokens.next.kind == "string":
            return tokens.string()
        sign = "-" if tokens.takes("-") else ""
        return sign + tokens.take().text

    def _skip_value(self) -> None:
        tokens = self._tokens
        if tokens.next.text == "{":
            self._aggregate()
        elif tokens.next.kind == "string":
            tokens.string()
        else:
            tokens.takes("-")
            tokens.take()

    def _aggregate(self) -> str:
        """Go behind a value in braces; return what is between them."""
        start = self._tokens.next.start + 1
        self._skip_block()
        return self._tokens.text[start : self._closing]

    def _skip_statement(self) -> None:
        tokens = self._tokens
        while not tokens.takes(";"):
            if tokens.next.text == "{":
                self._skip_block()
            elif tokens.next.kind == "end":
                tokens.refuse("expected ';'")
            else:
                tokens.take()

    def _skip_block(self) -> None:
        self._tokens.expect("{")
        self._skip_to("}")

    def _skip_to(self, closing: str) -> None:
        opening = {"}": "{", "]": "["}[closing]
        depth = 1
        while depth:
            token = self._tokens.take()
            if token.kind == "end":
                self._tokens.refuse(f"expected {closing!r}")
            if token.kind == "symbol":
                depth += (token.text == opening) - (token.text == closing)
                self._closing = token.start


def map_entry_name(field: str) -> str:
    """Return the name of the message that holds an entry of a map, as protoc makes it of the field's name."""
    return "".join(each[:1].upper() + each[1:] for each in field.split("_")) + "Entry"
