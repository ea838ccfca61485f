"""The broker: segment logs behind a Kafka listener."""
