"""The names by which Confluent's AvroData keeps in an Avro schema what only Connect knows, and the reverse. Pure."""

import re
from collections.abc import Mapping
from urllib.parse import quote_plus

from pydantic import BaseModel, ConfigDict

from ottla_sdk import Schema, Type
from ottla_sdk.schema import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME

NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = "ConnectDefault"
MAP_ENTRY = "MapEntry"
KEY_FIELD = "key"
VALUE_FIELD = "value"

# Properties of Avro schemas.
NAME_PROPERTY = "connect.name"
DOC_PROPERTY = "connect.doc"
VERSION_PROPERTY = "connect.version"
DEFAULT_PROPERTY = "connect.default"
PARAMETERS_PROPERTY = "connect.parameters"
TYPE_PROPERTY = "connect.type"
INTERNAL_TYPE_PROPERTY = "connect.internal.type"

# Names and parameters of Connect schemas.
UNION_NAME = f"{NAMESPACE}.Union"
ENUM_PARAMETER = f"{NAMESPACE}.Enum"
ENUM_DOC_PREFIX = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT_PREFIX = f"{NAMESPACE}.enum.default."
RECORD_DOC_PARAMETER = f"{NAMESPACE}.record.doc"
FIELD_DOC_PREFIX = f"{NAMESPACE}.field.doc."
FIELD_DEFAULT_FLAG = f"{NAMESPACE}.field.default"
FIXED_SIZE_PARAMETER = "connect.fixed.size"
PRECISION_PARAMETER = "connect.decimal.precision"
PRECISION_DEFAULT = 64
AVRO_PREFIX = "avro"
"""Parameters that begin so are properties of the Avro schema too."""

LOGICAL_TYPES: Mapping[str, str] = {
    DATE_NAME: "date",
    TIME_NAME: "time-millis",
    TIMESTAMP_NAME: "timestamp-millis",
    DECIMAL_NAME: "decimal",
}

ANYTHING = f"{NAMESPACE}.Anything"
ANYTHING_SCHEMA = {
    "type": "record",
    "name": "Anything",
    "namespace": NAMESPACE,
    "fields": [
        *(
            {"name": each, "type": ["null", each], "default": None}
            for each in ("boolean", "bytes", "double", "float", "int", "long", "string")
        ),
        {"name": "array", "type": ["null", {"type": "array", "items": "Anything"}], "default": None},
        {
            "name": "map",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": MAP_ENTRY,
                        "fields": [
                            {"name": KEY_FIELD, "type": "Anything"},
                            {"name": VALUE_FIELD, "type": "Anything"},
                        ],
                    },
                },
            ],
            "default": None,
        },
    ],
}
"""Values without a Connect schema: a record with one field that is set."""

_VALID_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class AvroRules(BaseModel):
    """What the converter's settings say about schemas.

    Attributes:
        connect_meta_data: whether Connect's own (names, versions, docs, parameters, defaults) goes into Avro schemas.
        enhanced: whether enums stay enums, and namespaces stay apart in unions.
        scrub_names: whether characters that Avro does not allow in names are replaced.
        optional_map_keys: whether maps with optional text as keys are Avro maps.
        flatten_singleton_unions: whether a union of one type is that type.
        ignore_default_for_nullables: whether null stays null where there is a default.
    """

    model_config = ConfigDict(frozen=True)

    connect_meta_data: bool = True
    enhanced: bool = False
    scrub_names: bool = False
    optional_map_keys: bool = False
    flatten_singleton_unions: bool = True
    ignore_default_for_nullables: bool = False


def scrubbed(name: str, rules: AvroRules) -> str:
    """Return a name, or each part of a full name, that Avro allows, if that is wanted."""
    return ".".join(map(_scrubbed_part, name.split("."))) if rules.scrub_names else name


def scrubbed_field(name: str, rules: AvroRules) -> str:
    """Return a field's name that Avro allows, if that is wanted."""
    return _scrubbed_part(name) if rules.scrub_names else name


def is_union(schema: Schema) -> bool:
    """Return whether a struct stands for an Avro union: one of its fields is set."""
    return schema.name == UNION_NAME and schema.type is Type.STRUCT


def is_fixed(schema: Schema) -> bool:
    """Return whether bytes stand for an Avro fixed."""
    return schema.type is Type.BYTES and schema.name is not None and FIXED_SIZE_PARAMETER in schema.parameters


def is_enum(schema: Schema) -> bool:
    """Return whether text stands for an Avro enum."""
    return schema.type is Type.STRING and ENUM_PARAMETER in schema.parameters


def is_avro_map(schema: Schema, rules: AvroRules) -> bool:
    """Return whether a map is an Avro map, rather than an array of entries."""
    keys = schema.key_schema
    return keys is not None and keys.type is Type.STRING and (not keys.optional or rules.optional_map_keys)


def _scrubbed_part(name: str) -> str:
    if not name or _VALID_NAME.fullmatch(name):
        return name
    encoded = quote_plus(name, safe="*")
    if encoded[0].isdigit():
        encoded = "x" + encoded
    return re.sub(r"[^A-Za-z0-9_]", "_", encoded)
