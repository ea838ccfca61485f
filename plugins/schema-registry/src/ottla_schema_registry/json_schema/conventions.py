"""The names by which Confluent's JsonSchemaData keeps in a JSON schema what only Connect knows, and the reverse."""

from pydantic import BaseModel, ConfigDict

from ottla_sdk import Schema, Type

NAMESPACE = "io.confluent.connect.json"
KEY_FIELD = "key"
VALUE_FIELD = "value"

# Properties of JSON schemas.
TYPE_PROPERTY = "connect.type"
VERSION_PROPERTY = "connect.version"
PARAMETERS_PROPERTY = "connect.parameters"
INDEX_PROPERTY = "connect.index"

# Names and parameters of Connect schemas.
UNION_NAME = f"{NAMESPACE}.OneOf"
ENUM_PARAMETER = f"{NAMESPACE}.Enum"
NULL_SYMBOL = "<NULL>"


class JsonRules(BaseModel):
    """What the converter's settings say about schemas and values.

    Attributes:
        additional_properties: whether objects may have more properties than the schema names.
        optional_if_not_required: whether properties that are not required are optional.
        numeric_decimals: whether decimals are JSON numbers, rather than base64 of their bytes.
        flatten_singleton_unions: whether a choice of one schema is that schema.
        ignore_default_for_nullables: whether null stays null where there is a default.
    """

    model_config = ConfigDict(frozen=True)

    additional_properties: bool = True
    optional_if_not_required: bool = False
    numeric_decimals: bool = False
    flatten_singleton_unions: bool = True
    ignore_default_for_nullables: bool = False


def is_union(schema: Schema) -> bool:
    """Return whether a struct stands for a choice of schemas: one of its fields is set."""
    return schema.type is Type.STRUCT and schema.name == UNION_NAME


def is_object_map(schema: Schema) -> bool:
    """Return whether a map is a JSON object, rather than an array of entries."""
    keys = schema.key_schema
    return keys is not None and keys.type is Type.STRING and not keys.optional
