"""Avro, by the conventions of Confluent's AvroData."""
