"""One file per Kafka API; `shard.HANDLERS` is the list. Pure."""
