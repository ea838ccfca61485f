"""Connect schemas as Avro schemas, in the parsed form of their JSON. Pure.

Avro has names for records, enums and fixed types only, and says a named type in full only once: later it is its name.
"""

from dataclasses import replace
from typing import Any

from ottla_schema_registry.avro.conventions import (
    ANYTHING_SCHEMA,
    AVRO_PREFIX,
    DEFAULT_NAME,
    DEFAULT_PROPERTY,
    DOC_PROPERTY,
    ENUM_DEFAULT_PREFIX,
    ENUM_DOC_PREFIX,
    ENUM_PARAMETER,
    FIELD_DEFAULT_FLAG,
    FIELD_DOC_PREFIX,
    FIXED_SIZE_PARAMETER,
    INTERNAL_TYPE_PROPERTY,
    KEY_FIELD,
    LOGICAL_TYPES,
    MAP_ENTRY,
    NAME_PROPERTY,
    NAMESPACE,
    PARAMETERS_PROPERTY,
    PRECISION_DEFAULT,
    PRECISION_PARAMETER,
    RECORD_DOC_PARAMETER,
    TYPE_PROPERTY,
    VALUE_FIELD,
    VERSION_PROPERTY,
    AvroRules,
    is_avro_map,
    is_enum,
    is_fixed,
    is_union,
    scrubbed,
    scrubbed_field,
)
from ottla_schema_registry.avro.defaults import default_to_json
from ottla_sdk import DataError, Field, Schema, Type
from ottla_sdk.logical_types import scale_of
from ottla_sdk.schema import DECIMAL_NAME

_PRIMITIVES = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_CONNECT_TYPES = {Type.INT8: "int8", Type.INT16: "int16"}


def to_avro(schema: Schema | None, rules: AvroRules) -> Any:
    """Return the Avro schema of a Connect schema; None: that of values without one.

    Raises:
        DataError: it is incomplete, or two types in it have one name.
    """
    return ANYTHING_SCHEMA if schema is None else _Translation(rules).translate(schema)


class _Translation:
    """One schema's translation: remembers which named types have been said in full."""

    def __init__(self, rules: AvroRules) -> None:
        self._rules = rules
        self._said: dict[Schema, str] = {}
        self._names: dict[str, Schema] = {}
        self._namespaces: list[str] = []
        self._unnamed = 0

    def translate(self, schema: Schema, *, ignore_optional: bool = False) -> Any:
        """Return the Avro schema."""
        if is_union(schema):
            return self._union(schema)
        base = self._base(schema)
        if not schema.optional or ignore_optional:
            return base
        has_default = schema.has_default and schema.default is not None
        return [base, "null"] if has_default else ["null", base]

    def _union(self, schema: Schema) -> list[Any]:
        branches = [
            self.translate(replace(each.schema, optional=False), ignore_optional=True) for each in schema.fields
        ]
        return ["null", *branches] if schema.optional else branches

    def _base(self, schema: Schema) -> Any:
        required = schema if not schema.optional else replace(schema, optional=False)
        if required in self._said:
            return self._said[required]
        if schema.type is Type.STRUCT:
            return self._record(required)
        if is_fixed(schema):
            made = {"type": "fixed", **self._named(required), "size": _number(schema, FIXED_SIZE_PARAMETER)}
        elif self._rules.enhanced and is_enum(schema):
            made = self._enum(required)
        elif schema.type is Type.ARRAY:
            made = {"type": "array", "items": self.translate(_part(schema.value_schema))}
        elif schema.type is Type.MAP:
            made = self._map(schema)
        else:
            made = {"type": _PRIMITIVES[schema.type]}
        self._add_logical_type(made, schema)
        self._add_properties(made, schema)
        return made["type"] if len(made) == 1 else made

    def _record(self, schema: Schema) -> dict[str, Any]:
        named = self._named(schema)
        made: dict[str, Any] = {"type": "record", **named}
        self._namespaces.append(named.get("namespace", ""))
        if (doc := schema.parameters.get(RECORD_DOC_PARAMETER)) is not None:
            made["doc"] = doc
        made["fields"] = [
            self._field(each, schema.parameters.get(FIELD_DOC_PREFIX + each.name)) for each in schema.fields
        ]
        self._namespaces.pop()
        self._add_properties(made, schema)
        return made

    def _field(self, field: Field, doc: str | None) -> dict[str, Any]:
        schema = field.schema
        made: dict[str, Any] = {
            "name": scrubbed_field(field.name, self._rules),
            "type": self.translate(schema),
        }
        if doc is not None:
            made["doc"] = doc
        if schema.has_default and schema.default is not None:
            made["default"] = default_to_json(schema, schema.default, self._rules)
        elif schema.optional:
            made["default"] = None
        return made

    def _enum(self, schema: Schema) -> dict[str, Any]:
        full_name = schema.parameters[ENUM_PARAMETER]
        prefix = ENUM_PARAMETER + "."
        named = self._named(schema, full_name)
        made: dict[str, Any] = {
            "type": "enum",
            **named,
            "symbols": [each.removeprefix(prefix) for each in schema.parameters if each.startswith(prefix)],
        }
        if (doc := schema.parameters.get(ENUM_DOC_PREFIX + named["name"])) is not None:
            made["doc"] = doc
        if (default := schema.parameters.get(ENUM_DEFAULT_PREFIX + named["name"])) is not None:
            made["default"] = default
        return made

    def _map(self, schema: Schema) -> dict[str, Any]:
        keys, values = _part(schema.key_schema), _part(schema.value_schema)
        if is_avro_map(schema, self._rules):
            return {"type": "map", "values": self.translate(values)}
        fields = [self._field(Field(KEY_FIELD, keys), None), self._field(Field(VALUE_FIELD, values), None)]
        if schema.name is None:
            entry: dict[str, Any] = {"type": "record", "name": MAP_ENTRY, "namespace": NAMESPACE, "fields": fields}
            known = self._names.setdefault(f"{NAMESPACE}.{MAP_ENTRY}", replace(schema, optional=False))
            if known != replace(schema, optional=False):
                raise DataError("two maps of different types whose keys are not text: Avro needs them to have names")
        else:
            entry = {"type": "record", **_name(scrubbed(schema.name, self._rules)), "fields": fields}
            entry[INTERNAL_TYPE_PROPERTY] = MAP_ENTRY
        return {"type": "array", "items": entry}

    def _named(self, schema: Schema, name: str | None = None) -> dict[str, str]:
        """Return the name of a named type, and remember that it is being said."""
        name = name or schema.name
        if name is None:
            self._unnamed += 1
            name = f"{NAMESPACE}.{DEFAULT_NAME}{self._unnamed if self._unnamed > 1 else ''}"
        name = scrubbed(name, self._rules)
        if "." not in name and self._namespaces and self._namespaces[-1]:
            # In Avro, a name without a namespace is one of the namespace around it.
            name = f"{self._namespaces[-1]}.{name}"
        if self._names.setdefault(name, schema) != schema:
            raise DataError(f"two types in the schema have the name {name}, and differ")
        self._said[schema] = name
        return _name(name)

    def _add_logical_type(self, made: dict[str, Any], schema: Schema) -> None:
        logical_type = LOGICAL_TYPES.get(schema.name or "")
        if logical_type is None:
            return
        if schema.name == DECIMAL_NAME:
            made["scale"] = scale_of(schema)
            made["precision"] = (
                _number(schema, PRECISION_PARAMETER)
                if PRECISION_PARAMETER in schema.parameters
                else PRECISION_DEFAULT
            )
        made["logicalType"] = logical_type

    def _add_properties(self, made: dict[str, Any], schema: Schema) -> None:
        if self._rules.connect_meta_data:
            if schema.doc is not None:
                made[DOC_PROPERTY] = schema.doc
            if schema.version is not None:
                made[VERSION_PROPERTY] = schema.version
            parameters = {key: value for key, value in schema.parameters.items() if key != FIELD_DEFAULT_FLAG}
            if parameters:
                made[PARAMETERS_PROPERTY] = parameters
            has_default = schema.has_default and schema.default is not None
            if has_default and FIELD_DEFAULT_FLAG not in schema.parameters:
                made[DEFAULT_PROPERTY] = default_to_json(schema, schema.default, self._rules)
            if schema.name is not None:
                made[NAME_PROPERTY] = schema.name
            if schema.type in _CONNECT_TYPES:
                made[TYPE_PROPERTY] = _CONNECT_TYPES[schema.type]
        made.update({key: each for key, each in schema.parameters.items() if key.startswith(AVRO_PREFIX)})


def _name(full_name: str) -> dict[str, str]:
    namespace, _, name = full_name.rpartition(".")
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def _number(schema: Schema, parameter: str) -> int:
    try:
        return int(schema.parameters[parameter])
    except ValueError:
        raise DataError(f"the schema parameter {parameter} is no number: {schema.parameters[parameter]!r}") from None


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("the schema of an array or a map does not say what is in it")
    return schema
