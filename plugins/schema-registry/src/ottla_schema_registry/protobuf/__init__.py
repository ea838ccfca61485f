"""Protobuf, by the conventions of Confluent's ProtobufData. Pure."""
