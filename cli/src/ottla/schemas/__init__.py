"""Keys and values with a schema of a schema registry: Avro, JSON Schema and Protobuf, both ways."""
