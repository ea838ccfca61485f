"""Ottla Connect's converters for Avro, JSON Schema and Protobuf with a schema registry."""

__version__ = "0.1.0"
