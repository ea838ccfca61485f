"""JSON Schema, by the conventions of Confluent's JsonSchemaData. Pure."""
