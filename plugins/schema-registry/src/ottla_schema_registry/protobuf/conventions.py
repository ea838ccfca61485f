"""The names by which Confluent's ProtobufData keeps in a Connect schema what only Protobuf knows."""

import re
from urllib.parse import quote_plus

from pydantic import BaseModel, ConfigDict

from ottla_sdk import Schema, Type

NAMESPACE = "io.confluent.connect.protobuf"
DEFAULT_NAME = "ConnectDefault"
ENUM_PARAMETER = f"{NAMESPACE}.Enum"
UNION_NAME = f"{NAMESPACE}.Union"
TAG_PARAMETER = f"{NAMESPACE}.Tag"
TYPE_PARAMETER = f"{NAMESPACE}.Type"
WRAPPER_PARAMETER = f"{NAMESPACE}.Wrapper"
PRECISION_PARAMETER = "connect.decimal.precision"

# Parameters in the options of fields.
CONNECT_TYPE = "connect.type"
PRECISION = "precision"
SCALE = "scale"

DECIMAL_TYPE = "confluent.type.Decimal"
DATE_TYPE = "google.type.Date"
TIME_TYPE = "google.type.TimeOfDay"
TIMESTAMP_TYPE = "google.protobuf.Timestamp"

_VALID_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class ProtobufRules(BaseModel):
    """What the converter's settings say about schemas.

    Attributes:
        enhanced: whether names of messages and enums have their package.
        scrub_names: whether characters that Protobuf does not allow in names are replaced.
        int_for_enums: whether enums are numbers rather than their names.
        optional_for_nullables: whether optional fields are `optional` in Protobuf.
        wrapper_for_nullables: whether optional fields are wrapper messages.
        index_for_unions: whether the fields that stand for oneofs have the oneof's number in their names.
        flatten_unions: whether members of a oneof are fields of the message itself.
        ignore_default_for_nullables: whether null stays null where there is a default.
    """

    model_config = ConfigDict(frozen=True)

    enhanced: bool = False
    scrub_names: bool = False
    int_for_enums: bool = False
    optional_for_nullables: bool = False
    wrapper_for_nullables: bool = False
    index_for_unions: bool = True
    flatten_unions: bool = False
    ignore_default_for_nullables: bool = False


def is_union(schema: Schema) -> bool:
    """Return whether a struct stands for a oneof: one of its fields is set."""
    return schema.type is Type.STRUCT and schema.name is not None and schema.name.startswith(UNION_NAME)


def is_enum(schema: Schema) -> bool:
    """Return whether text or a number stands for a Protobuf enum."""
    return schema.type in (Type.STRING, Type.INT32) and ENUM_PARAMETER in schema.parameters


def scrubbed(name: str, rules: ProtobufRules) -> str:
    """Return a name that Protobuf allows, if that is wanted."""
    if not rules.scrub_names or not name or _VALID_NAME.fullmatch(name):
        return name
    encoded = quote_plus(name, safe="*")
    if not encoded[0].isalpha():
        encoded = "x" + encoded
    return re.sub(r"[^A-Za-z0-9_]", "_", encoded)
