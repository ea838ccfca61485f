"""Single message transforms: those of Kafka Connect, with its settings.

Those of a record's key or value come as two classes, such as `CastKey` and `CastValue`, which also answer to Java's
`org.apache.kafka.connect.transforms.Cast$Key` and `Cast$Value`.
"""
