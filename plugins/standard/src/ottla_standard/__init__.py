"""The standard plugins: converters, transforms, predicates and config providers, as Kafka Connect comes with them.

What mirrors come with is in `mirror/`.
"""

from ottla_standard.config_providers.providers import (
    DirectoryConfigProvider,
    EnvVarConfigProvider,
    FileConfigProvider,
)
from ottla_standard.converters.byte_array_converter import ByteArrayConverter
from ottla_standard.converters.json_converter import JsonConverter
from ottla_standard.converters.number_converters import (
    BooleanConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from ottla_standard.converters.simple_header_converter import SimpleHeaderConverter
from ottla_standard.converters.string_converter import StringConverter
from ottla_standard.predicates import HasHeaderKey, RecordIsTombstone, TopicNameMatches
from ottla_standard.system_calendar import SystemCalendar
from ottla_standard.transforms.cast import CastKey, CastValue
from ottla_standard.transforms.extract_field import ExtractFieldKey, ExtractFieldValue
from ottla_standard.transforms.filter_records import Filter
from ottla_standard.transforms.flatten import FlattenKey, FlattenValue
from ottla_standard.transforms.header_from import HeaderFromKey, HeaderFromValue
from ottla_standard.transforms.header_transforms import DropHeaders, InsertHeader
from ottla_standard.transforms.hoist_field import HoistFieldKey, HoistFieldValue
from ottla_standard.transforms.insert_field import InsertFieldKey, InsertFieldValue
from ottla_standard.transforms.mask_field import MaskFieldKey, MaskFieldValue
from ottla_standard.transforms.replace_field import ReplaceFieldKey, ReplaceFieldValue
from ottla_standard.transforms.routers import RegexRouter, TimestampRouter
from ottla_standard.transforms.set_schema_metadata import SetSchemaMetadataKey, SetSchemaMetadataValue
from ottla_standard.transforms.timestamp_converter import (
    TimestampConverter,
    TimestampConverterKey,
    TimestampConverterValue,
)
from ottla_standard.transforms.value_to_key import ValueToKey

CONVERTERS = (
    JsonConverter,
    StringConverter,
    ByteArrayConverter,
    ShortConverter,
    IntegerConverter,
    LongConverter,
    FloatConverter,
    DoubleConverter,
    BooleanConverter,
    SimpleHeaderConverter,
)
TRANSFORMS = (
    CastKey,
    CastValue,
    DropHeaders,
    ExtractFieldKey,
    ExtractFieldValue,
    Filter,
    FlattenKey,
    FlattenValue,
    HeaderFromKey,
    HeaderFromValue,
    HoistFieldKey,
    HoistFieldValue,
    InsertFieldKey,
    InsertFieldValue,
    InsertHeader,
    MaskFieldKey,
    MaskFieldValue,
    RegexRouter,
    ReplaceFieldKey,
    ReplaceFieldValue,
    SetSchemaMetadataKey,
    SetSchemaMetadataValue,
    TimestampConverterKey,
    TimestampConverterValue,
    TimestampRouter,
    ValueToKey,
)
PREDICATES = (TopicNameMatches, HasHeaderKey, RecordIsTombstone)
CONFIG_PROVIDERS = (EnvVarConfigProvider, FileConfigProvider, DirectoryConfigProvider)

TimestampConverter.calendar = TimestampRouter.calendar = SystemCalendar()
for _plugin in (*CONVERTERS, *TRANSFORMS, *PREDICATES, *CONFIG_PROVIDERS):
    _plugin.__module__ = __name__  # Configurations name them by this module, wherever they are defined.

__all__ = [
    "CONFIG_PROVIDERS",
    "CONVERTERS",
    "PREDICATES",
    "TRANSFORMS",
    "BooleanConverter",
    "ByteArrayConverter",
    "CastKey",
    "CastValue",
    "DirectoryConfigProvider",
    "DoubleConverter",
    "DropHeaders",
    "EnvVarConfigProvider",
    "ExtractFieldKey",
    "ExtractFieldValue",
    "FileConfigProvider",
    "Filter",
    "FlattenKey",
    "FlattenValue",
    "FloatConverter",
    "HasHeaderKey",
    "HeaderFromKey",
    "HeaderFromValue",
    "HoistFieldKey",
    "HoistFieldValue",
    "InsertFieldKey",
    "InsertFieldValue",
    "InsertHeader",
    "IntegerConverter",
    "JsonConverter",
    "LongConverter",
    "MaskFieldKey",
    "MaskFieldValue",
    "RecordIsTombstone",
    "RegexRouter",
    "ReplaceFieldKey",
    "ReplaceFieldValue",
    "SetSchemaMetadataKey",
    "SetSchemaMetadataValue",
    "ShortConverter",
    "SimpleHeaderConverter",
    "StringConverter",
    "TimestampConverterKey",
    "TimestampConverterValue",
    "TimestampRouter",
    "TopicNameMatches",
    "ValueToKey",
]
