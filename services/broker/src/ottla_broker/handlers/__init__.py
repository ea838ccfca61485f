"""One file per Kafka API; `ottla_broker.dispatch` lists them all."""
