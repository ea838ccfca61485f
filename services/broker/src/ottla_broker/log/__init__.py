"""The log engine: segments, indexes, producer state, recovery and retention, in Kafka's on-disk format."""
