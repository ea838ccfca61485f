"""JSON schemas as Connect schemas.

A choice (`oneOf`, `anyOf`, several types) of which one is null is an optional schema; any other is a struct of which
one field is set. What all of `allOf` say of an object's properties is put together.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import referencing.exceptions
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7
from referencing.jsonschema import Schema as JsonSchema

from ottla_schema_registry.json_schema.conventions import (
    ENUM_PARAMETER,
    INDEX_PROPERTY,
    KEY_FIELD,
    NULL_SYMBOL,
    PARAMETERS_PROPERTY,
    TYPE_PROPERTY,
    UNION_NAME,
    VALUE_FIELD,
    VERSION_PROPERTY,
    JsonRules,
)
from ottla_schema_registry.json_schema.values import value_reader
from ottla_sdk import DataError, Field, Schema, Type
from ottla_sdk.schema import BOOLEAN, BYTES, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, STRING

_DEPTH_MAX = 64

_NUMBERS = {
    "int8": INT8,
    "int16": INT16,
    "int32": INT32,
    "int64": INT64,
    "float32": FLOAT32,
    "float64": FLOAT64,
    "bytes": BYTES,
}
_ALL_OF_KEYWORDS = ("type", "enum", "const", "oneOf", "anyOf", "$ref", "items")


class JsonDocument(NamedTuple):
    """A JSON schema, and where the schemas are that it refers to.

    Attributes:
        schema: the schema, parsed.
        registry: itself, as the empty address, and the others.
    """

    schema: Any
    registry: Registry[JsonSchema]


def document(schema: Any, references: dict[str, Any]) -> JsonDocument:
    """Return a JSON schema that can be read.

    Args:
        schema: the schema, parsed.
        references: the schemas it refers to, by the addresses it has for them.

    Raises:
        DataError: it is no JSON object.
    """
    if not isinstance(schema, dict):
        raise DataError(f"a JSON schema that means something to Connect is an object, not {schema!r:.80}")
    resources = [(name, Resource.from_contents(each, DRAFT7)) for name, each in {**references, "": schema}.items()]
    registry: Registry[JsonSchema] = Registry().with_resources(resources)
    return JsonDocument(schema, registry)


def to_connect(found: JsonDocument, rules: JsonRules) -> Schema:
    """Return the Connect schema of a JSON schema.

    Raises:
        DataError: it says nothing, refers to nothing, or contains itself.
    """
    return _Translation(rules).translate(found.schema, found.registry.resolver(""))


class _Translation:
    def __init__(self, rules: JsonRules) -> None:
        self._rules = rules
        self._depth = 0

    def translate(self, json: Any, resolver: Any) -> Schema:
        """Return the Connect schema of a JSON schema."""
        if not isinstance(json, dict):
            raise DataError(f"the JSON schema {json!r:.80} says nothing about its values")
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise DataError("the JSON schema contains itself, which a Connect schema cannot")
        try:
            return self._translate(json, resolver)
        finally:
            self._depth -= 1

    def _translate(self, json: dict[str, Any], resolver: Any) -> Schema:
        if "$ref" in json:
            return self.translate(*self._resolved(json["$ref"], resolver))
        if isinstance(kinds := json.get("type"), list):
            others = {key: each for key, each in json.items() if key != "type"}
            return self._choice([{**others, "type": each} for each in kinds], json, resolver)
        for keyword in ("oneOf", "anyOf"):
            if isinstance(choices := json.get(keyword), list) and "properties" not in json:
                return self._choice(choices, json, resolver)
        if isinstance(json.get("allOf"), list):
            return self._all_of(json, resolver)
        return self._described(self._base(json, resolver), json)

    def _resolved(self, address: str, resolver: Any) -> tuple[Any, Any]:
        try:
            found = resolver.lookup(address)
        except referencing.exceptions.Unresolvable:
            raise DataError(f"the JSON schema refers to {address!r:.200}, which is not there") from None
        return found.contents, found.resolver

    def _choice(self, choices: list[Any], json: dict[str, Any], resolver: Any) -> Schema:
        others = [each for each in choices if not (isinstance(each, dict) and each.get("type") == "null")]
        is_optional = len(others) < len(choices)
        if len(others) == 1 and (is_optional or self._rules.flatten_singleton_unions):
            schema = self.translate(others[0], resolver)
            return schema.as_optional() if is_optional else schema
        fields = tuple(
            Field(f"{UNION_NAME}.field.{number}", self.translate(each, resolver).as_optional())
            for number, each in enumerate(others)
        )
        if not fields:
            raise DataError("the JSON schema allows nothing but null")
        schema = Schema(type=Type.STRUCT, name=UNION_NAME, optional=is_optional, fields=fields)
        description = json.get("description")
        return replace(schema, doc=description) if isinstance(description, str) else schema

    def _all_of(self, json: dict[str, Any], resolver: Any) -> Schema:
        properties: dict[str, tuple[Any, Any]] = {}
        required: set[str] = set()
        self._collect(json, resolver, properties, required, 0)
        if properties:
            ordered = sorted(properties.items(), key=lambda each: _index(each[1][0]))
            fields = tuple(
                self._field(name, part, part_resolver, required) for name, (part, part_resolver) in ordered
            )
            return self._described(Schema(type=Type.STRUCT, fields=fields), json)
        for part in [json, *json["allOf"]]:
            own = {key: each for key, each in part.items() if key != "allOf"} if isinstance(part, dict) else {}
            if any(each in own for each in _ALL_OF_KEYWORDS):
                return self.translate(own, resolver)
        raise DataError("the JSON schema's allOf does not say what type values are of")

    def _collect(
        self, json: Any, resolver: Any, properties: dict[str, tuple[Any, Any]], required: set[str], depth: int
    ) -> None:
        if not isinstance(json, dict) or depth > _DEPTH_MAX:
            return
        if "$ref" in json:
            contents, inner = self._resolved(json["$ref"], resolver)
            self._collect(contents, inner, properties, required, depth + 1)
            return
        for name, each in (json.get("properties") or {}).items():
            properties[name] = (each, resolver)
        required.update(json.get("required") or ())
        for each in json.get("allOf") or ():
            self._collect(each, resolver, properties, required, depth + 1)

    def _base(self, json: dict[str, Any], resolver: Any) -> Schema:
        kind = json.get("type")
        if kind in (None, "string") and ("enum" in json or "const" in json):
            return _enum(json["enum"] if "enum" in json else [json["const"]])
        if kind == "object" or (kind is None and "properties" in json):
            return self._object(json, resolver)
        if kind == "array" or (kind is None and "items" in json):
            return self._array(json, resolver)
        if kind == "string":
            return BYTES if json.get(TYPE_PROPERTY) == "bytes" else STRING
        if kind == "boolean":
            return BOOLEAN
        if kind in ("integer", "number"):
            connect_type = json.get(TYPE_PROPERTY, "int64" if kind == "integer" else "float64")
            if connect_type in _NUMBERS:
                return _NUMBERS[connect_type]
            raise DataError(f"{TYPE_PROPERTY} is none of {', '.join(_NUMBERS)}: {connect_type!r:.80}")
        raise DataError(f"the JSON schema {json!r:.80} does not say what type values are of")

    def _object(self, json: dict[str, Any], resolver: Any) -> Schema:
        values = json.get("additionalProperties")
        properties = json.get("properties") or {}
        if json.get(TYPE_PROPERTY) == "map" or (not properties and isinstance(values, dict) and values):
            return Schema(type=Type.MAP, key_schema=STRING, value_schema=self.translate(values, resolver))
        required = set(json.get("required") or ())
        ordered = sorted(properties.items(), key=lambda each: _index(each[1]))
        fields = tuple(self._field(name, each, resolver, required) for name, each in ordered)
        return Schema(type=Type.STRUCT, fields=fields)

    def _field(self, name: str, json: Any, resolver: Any, required: set[str]) -> Field:
        try:
            schema = self.translate(json, resolver)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        if self._rules.optional_if_not_required and name not in required:
            schema = schema.as_optional()
        return Field(name, schema)

    def _array(self, json: dict[str, Any], resolver: Any) -> Schema:
        items = json.get("items")
        if not isinstance(items, dict):
            raise DataError("the JSON schema of an array must say in 'items' what all of its elements are")
        if json.get(TYPE_PROPERTY) == "map" and isinstance(entry := items.get("properties"), dict):
            return Schema(
                type=Type.MAP,
                key_schema=self.translate(entry.get(KEY_FIELD), resolver),
                value_schema=self.translate(entry.get(VALUE_FIELD), resolver),
            )
        return Schema(type=Type.ARRAY, value_schema=self.translate(items, resolver))

    def _described(self, schema: Schema, json: dict[str, Any]) -> Schema:
        changes: dict[str, Any] = {}
        if isinstance(title := json.get("title"), str):
            changes["name"] = title
        if isinstance(version := json.get(VERSION_PROPERTY), int):
            changes["version"] = version
        if isinstance(description := json.get("description"), str):
            changes["doc"] = description
        if isinstance(parameters := json.get(PARAMETERS_PROPERTY), dict):
            changes["parameters"] = {**schema.parameters, **{key: str(each) for key, each in parameters.items()}}
        described = replace(schema, **changes)
        default = json.get("default")
        return described if default is None else replace(described, default=value_reader(described)(default))


def _index(json: Any) -> int:
    """Return where a property stands among the fields; those that do not say stay behind, in their order."""
    index = json.get(INDEX_PROPERTY) if isinstance(json, dict) else None
    return index if isinstance(index, int) else 1 << 31


def _enum(values: Any) -> Schema:
    if not isinstance(values, list) or not values:
        raise DataError(f"an enum of nothing: {values!r:.80}")
    present = [each for each in values if each is not None]
    schema = _schema_of(present)
    if schema is STRING:
        symbols = [NULL_SYMBOL if each is None else each for each in values]
        schema = replace(
            STRING, parameters={ENUM_PARAMETER: ""} | {f"{ENUM_PARAMETER}.{each}": each for each in symbols}
        )
    return schema if len(present) == len(values) else schema.as_optional()


def _schema_of(values: list[Any]) -> Schema:
    for kinds, schema in ((str, STRING), (bool, BOOLEAN), (int, INT64), ((int, float), FLOAT64)):
        if values and all(isinstance(each, kinds) for each in values):
            return schema
    raise DataError(f"an enum of values of different types: {values!r:.80}")
