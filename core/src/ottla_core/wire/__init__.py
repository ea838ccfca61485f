"""The Kafka protocol: framing, message codecs, record batches and a small client."""
