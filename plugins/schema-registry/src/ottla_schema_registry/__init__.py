"""Converters for Avro, JSON Schema and Protobuf, with a schema registry that speaks Confluent's API."""

from ottla_schema_registry.avro.converter import AvroConverter
from ottla_schema_registry.json_schema.converter import JsonSchemaConverter
from ottla_schema_registry.protobuf.converter import ProtobufConverter

CONVERTERS = (AvroConverter, JsonSchemaConverter, ProtobufConverter)

for _plugin in CONVERTERS:
    _plugin.__module__ = __name__  # Configurations name them by this module, wherever they are defined.

__all__ = ["CONVERTERS", "AvroConverter", "JsonSchemaConverter", "ProtobufConverter"]
