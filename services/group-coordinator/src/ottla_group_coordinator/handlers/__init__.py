"""One file per Kafka API; `shard.APIS` is the list."""
